//! Arrays that are made from a formula.
//!
//! Elements of floating types come from one float64 expression each, so that no error accumulates along the
//! array and an element does not depend on its neighbours.

use crate::par::{Poll, Shared, for_parts};
use crate::simd::vectorized;
use crate::view::ViewMut;
use oxmlx_types::{Complex, Dtype, Result, bf16, f16};

/// What an arange stores.
trait Ramp: Copy + Send + Sync + 'static {
    fn at(start: u64, step: u64, i: usize) -> Self;
}

macro_rules! ramp {
    ($($t:ty: $make:expr),*) => {$(
        impl Ramp for $t {
            #[inline(always)]
            fn at(start: u64, step: u64, i: usize) -> $t {
                let make = $make;
                make(f64::from_bits(start) + i as f64 * f64::from_bits(step))
            }
        }
    )*};
    (int $($t:ty),*) => {$(
        impl Ramp for $t {
            #[inline(always)]
            fn at(start: u64, step: u64, i: usize) -> $t {
                start.wrapping_add(step.wrapping_mul(i as u64)) as $t
            }
        }
    )*};
}
ramp!(f32: |v: f64| v as f32, f64: |v: f64| v, f16: f16::from_f64, bf16: bf16::from_f64,
    Complex: |v: f64| Complex::new(v as f32, 0.0));
ramp!(int u8, u16, u32, u64, i8, i16, i32, i64);

vectorized! {
    /// Fills part of a ramp.
    ///
    /// # Safety
    /// `dst..dst+n` must be writable.
    unsafe fn fill<T: Ramp>(dst: *mut T, first: usize, n: usize, start: u64, step: u64) {
        for i in 0..n {
            // SAFETY: the caller's promise.
            unsafe { *dst.add(i) = T::at(start, step, first + i) };
        }
    }
}

/// `start + i * step`; the words are float64 bits for inexact outputs and int64s otherwise. For bool the
/// element says whether the integer is not zero.
pub fn arange(start: u64, step: u64, out: &mut ViewMut<'_>, poll: Poll<'_>) -> Result<()> {
    let n = out.size();
    if out.dtype == Dtype::Bool {
        let dst = out.origin::<u8>();
        for i in 0..n {
            // SAFETY: within the output.
            unsafe { *dst.add(i) = (<u64 as Ramp>::at(start, step, i) != 0) as u8 };
        }
        return Ok(());
    }
    crate::view::dispatch!(out.dtype, T => {
        let dst = Shared(out.origin::<T>());
        for_parts(n, 1 << 15, poll, &|r| {
            // SAFETY: a part of the output, disjoint from the others.
            unsafe { fill(dst.get().add(r.start), r.start, r.len(), start, step) }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Owned, ok};

    #[test]
    fn ramps_of_every_type() {
        for dtype in Dtype::ALL {
            let mut out = Owned::zeros(dtype, &[50_000]);
            let (start, step) = if dtype.is_inexact() {
                (0.5f64.to_bits(), (-0.25f64).to_bits())
            } else {
                (3, (-1i64) as u64)
            };
            arange(start, step, &mut out.view_mut(), &ok).unwrap();
            for (i, v) in out.to_vec().into_iter().enumerate().step_by(977) {
                let exact = if dtype.is_inexact() {
                    oxmlx_types::Scalar::from_f64(0.5 - 0.25 * i as f64, dtype)
                } else {
                    oxmlx_types::Scalar::from_i64(3 - i as i64, dtype)
                };
                assert_eq!(v, exact.to_f64(), "{dtype} {i}");
            }
        }
    }
}
