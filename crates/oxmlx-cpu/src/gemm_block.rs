//! One matrix product of a task: the `gemm` crate on one thread, with conversions around it for halves.
//!
//! Matmul and convolution cut their work into such blocks. Halves are widened block by block into float32
//! scratch, so that they accumulate in float32 over all of K and are rounded once.

use crate::element::{Arith, Element, narrow_slice};
use crate::scratch;
use gemm::Parallelism;
use oxmlx_types::Complex;

/// Types with a matrix product.
pub(crate) trait Gemm: Arith + Element<Acc = Self> {
    /// `dst (+)= a * b` on one thread; `dst` has unit column steps and is not read unless `add` is set.
    ///
    /// # Safety
    /// The three matrices must be valid, and `dst` disjoint from the others.
    unsafe fn gemm(
        size: [usize; 3],
        dst: *mut Self,
        dst_rs: isize,
        add: bool,
        a: Plane<Self>,
        b: Plane<Self>,
    );
}

/// A matrix: first element, row and column steps.
#[derive(Clone, Copy)]
pub(crate) struct Plane<T> {
    /// First element.
    pub ptr: *const T,
    /// Elements between rows.
    pub rs: isize,
    /// Elements between columns.
    pub cs: isize,
}

// SAFETY: a number; every dereference is justified where it happens.
unsafe impl<T> Send for Plane<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Plane<T> {}

impl<T> Plane<T> {
    /// The part that begins at a row and a column.
    pub(crate) fn at(self, row: usize, col: usize) -> Self {
        Plane { ptr: self.ptr.wrapping_offset(row as isize * self.rs + col as isize * self.cs), ..self }
    }
}

macro_rules! impl_gemm {
    ($($t:ty, $one:expr);*) => {$(
        impl Gemm for $t {
            unsafe fn gemm(size: [usize; 3], dst: *mut Self, dst_rs: isize, add: bool, a: Plane<Self>, b: Plane<Self>) {
                let [m, n, k] = size;
                // SAFETY: the caller's promise. The library takes (column step, row step).
                unsafe {
                    gemm::gemm(
                        m, n, k, dst, 1, dst_rs, add, a.ptr, a.cs, a.rs, b.ptr, b.cs, b.rs, $one, $one,
                        false, false, false, Parallelism::None,
                    );
                }
            }
        }
    )*};
}
impl_gemm!(f32, 1.0; f64, 1.0; Complex, Complex::new(1.0, 0.0));

/// Depth of the blocks that halves are widened in.
const HALF_K: usize = 512;

/// `dst = a * b` for stored types, on this thread.
///
/// # Safety
/// The three matrices must be valid, `k > 0`, and `dst` disjoint from the others.
pub(crate) unsafe fn block<T: Element<Acc: Gemm>>(
    size: [usize; 3],
    dst: *mut T,
    dst_rs: isize,
    a: Plane<T>,
    b: Plane<T>,
) {
    let [m, n, k] = size;
    if !T::HALF {
        let cast = |p: Plane<T>| Plane::<T::Acc> { ptr: p.ptr.cast(), rs: p.rs, cs: p.cs };
        // SAFETY: T is its own Acc; the rest is the caller's promise.
        return unsafe { T::Acc::gemm(size, dst.cast(), dst_rs, false, cast(a), cast(b)) };
    }
    let kb = HALF_K.min(k);
    scratch::with::<T::Acc, _>(m * n + kb * (m + n), |buf| {
        let (acc, rest) = buf.split_at_mut(m * n);
        let (wa, wb) = rest.split_at_mut(m * kb);
        let mut at = 0;
        while at < k {
            let depth = kb.min(k - at);
            // SAFETY: parts of the caller's matrices; the scratch holds both blocks.
            unsafe {
                let pa = widen(a.at(0, at), m, depth, wa);
                let pb = widen(b.at(at, 0), depth, n, wb);
                T::Acc::gemm([m, n, depth], acc.as_mut_ptr(), n as isize, at > 0, pa, pb);
            }
            at += depth;
        }
        for (i, row) in acc.chunks_exact(n).enumerate() {
            // SAFETY: a row of the caller's dst.
            narrow_slice(row, unsafe { std::slice::from_raw_parts_mut(dst.offset(i as isize * dst_rs), n) });
        }
    });
}

/// Widens a matrix into scratch, keeping its dense direction dense.
///
/// # Safety
/// The matrix must be valid; `out` must hold `rows * cols` elements.
pub(crate) unsafe fn widen<T: Element>(
    p: Plane<T>,
    rows: usize,
    cols: usize,
    out: &mut [T::Acc],
) -> Plane<T::Acc> {
    if p.rs == 1 && p.cs != 1 {
        let t = Plane { ptr: p.ptr, rs: p.cs, cs: p.rs };
        // SAFETY: the same matrix, transposed.
        let w = unsafe { widen(t, cols, rows, out) };
        return Plane { ptr: w.ptr, rs: w.cs, cs: w.rs };
    }
    for (i, line) in out.chunks_exact_mut(cols.max(1)).enumerate().take(rows) {
        // SAFETY: a row of the matrix, and its scratch.
        unsafe { widen_run(p.at(i, 0).ptr, p.cs, line.as_mut_ptr(), cols) };
    }
    Plane { ptr: out.as_ptr(), rs: cols as isize, cs: 1 }
}

crate::simd::vectorized! {
    /// Widens a run.
    ///
    /// # Safety
    /// `n` elements must be valid.
    pub(crate) unsafe fn widen_run<T: Element>(src: *const T, step: isize, dst: *mut T::Acc, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if step == 1 {
                for i in 0..n {
                    *dst.add(i) = (*src.add(i)).widen();
                }
            } else {
                for i in 0..n {
                    *dst.add(i) = (*src.offset(i as isize * step)).widen();
                }
            }
        }
    }
}
