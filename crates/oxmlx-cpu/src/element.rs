//! Arithmetic that structured kernels need, over the Rust types of the fourteen dtypes.
//!
//! Halves are stored as halves and computed in float32: [`Element`] is the stored type, its `Acc` (an
//! [`Arith`]) the type in which sums and products are held. Everything is `#[inline(always)]` so that loops
//! vectorise at whatever instruction set they are compiled for.

use oxmlx_types::{Complex, bf16, f16};

/// A type that computes.
pub(crate) trait Arith: Copy + Send + Sync + PartialEq + 'static {
    /// Of addition.
    const ZERO: Self;
    /// Of multiplication.
    const ONE: Self;
    /// Of max.
    const LOWEST: Self;
    /// Of min.
    const HIGHEST: Self;
    /// Sum; integers wrap.
    fn add(self, o: Self) -> Self;
    /// Product; integers wrap.
    fn mul(self, o: Self) -> Self;
    /// `self * a + b`, rounded once where the type has such an instruction.
    fn fma(self, a: Self, b: Self) -> Self;
    /// Order; complex numbers compare real parts, then imaginary ones.
    fn less(self, o: Self) -> bool;
    /// Whether this is no number.
    fn nan(self) -> bool;
    /// Whether this is zero.
    fn zero(self) -> bool {
        self == Self::ZERO
    }
    /// The larger; a NaN wins.
    #[inline(always)]
    fn max(self, o: Self) -> Self {
        let m = if o.less(self) { self } else { o };
        if self.nan() { self } else { m }
    }
    /// The smaller; a NaN wins.
    #[inline(always)]
    fn min(self, o: Self) -> Self {
        let m = if self.less(o) { self } else { o };
        if self.nan() { self } else { m }
    }
}

macro_rules! int_arith {
    ($($t:ty),*) => {$(
        impl Arith for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LOWEST: Self = <$t>::MIN;
            const HIGHEST: Self = <$t>::MAX;
            #[inline(always)]
            fn add(self, o: Self) -> Self { self.wrapping_add(o) }
            #[inline(always)]
            fn mul(self, o: Self) -> Self { self.wrapping_mul(o) }
            #[inline(always)]
            fn fma(self, a: Self, b: Self) -> Self { self.wrapping_mul(a).wrapping_add(b) }
            #[inline(always)]
            fn less(self, o: Self) -> bool { self < o }
            #[inline(always)]
            fn nan(self) -> bool { false }
        }
        impl Element for $t {
            type Acc = $t;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(acc: $t) -> $t { acc }
        }
    )*};
}
int_arith!(u8, u16, u32, u64, i8, i16, i32, i64);

macro_rules! float_arith {
    ($($t:ty),*) => {$(
        impl Arith for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LOWEST: Self = <$t>::NEG_INFINITY;
            const HIGHEST: Self = <$t>::INFINITY;
            #[inline(always)]
            fn add(self, o: Self) -> Self { self + o }
            #[inline(always)]
            fn mul(self, o: Self) -> Self { self * o }
            #[inline(always)]
            fn fma(self, a: Self, b: Self) -> Self { self.mul_add(a, b) }
            #[inline(always)]
            fn less(self, o: Self) -> bool { self < o }
            #[inline(always)]
            fn nan(self) -> bool { self.is_nan() }
        }
        impl Element for $t {
            type Acc = $t;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(acc: $t) -> $t { acc }
        }
    )*};
}
float_arith!(f32, f64);

impl Arith for Complex {
    const ZERO: Self = Complex::new(0.0, 0.0);
    const ONE: Self = Complex::new(1.0, 0.0);
    const LOWEST: Self = Complex::new(f32::NEG_INFINITY, f32::NEG_INFINITY);
    const HIGHEST: Self = Complex::new(f32::INFINITY, f32::INFINITY);
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        self + o
    }
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        self * o
    }
    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        self * a + b
    }
    #[inline(always)]
    fn less(self, o: Self) -> bool {
        self.re < o.re || (self.re == o.re && self.im < o.im)
    }
    #[inline(always)]
    fn nan(self) -> bool {
        self.re.is_nan() || self.im.is_nan()
    }
}

/// A stored type.
pub(crate) trait Element: Copy + Send + Sync + PartialEq + 'static {
    /// What sums of it are held in.
    type Acc: Arith + Element<Acc = Self::Acc>;
    /// Whether the stored type differs from `Acc`.
    const HALF: bool = false;
    /// Exact.
    fn widen(self) -> Self::Acc;
    /// Rounds to nearest even.
    fn narrow(acc: Self::Acc) -> Self;
}

impl Element for Complex {
    type Acc = Complex;
    #[inline(always)]
    fn widen(self) -> Complex {
        self
    }
    #[inline(always)]
    fn narrow(acc: Complex) -> Complex {
        acc
    }
}

impl Element for f16 {
    type Acc = f32;
    const HALF: bool = true;
    /// By integer operations and one multiplication, without branches: the library's own conversion asks for
    /// the processor's features at every element, which stops vectorisation.
    #[inline(always)]
    fn widen(self) -> f32 {
        let h = self.to_bits() as u32;
        let magnitude = (h & 0x7fff) << 13;
        let scaled = f32::from_bits(magnitude) * f32::from_bits((254 - 15) << 23);
        let special = if (h & 0x7c00) == 0x7c00 { 0x7f80_0000 } else { 0 };
        f32::from_bits(scaled.to_bits() | special | (h & 0x8000) << 16)
    }
    #[inline(always)]
    fn narrow(acc: f32) -> f16 {
        f16::from_f32(acc)
    }
}

impl Element for bf16 {
    type Acc = f32;
    const HALF: bool = true;
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits((self.to_bits() as u32) << 16)
    }
    #[inline(always)]
    fn narrow(acc: f32) -> bf16 {
        let x = acc.to_bits();
        let rounded = (x.wrapping_add(0x7fff + ((x >> 16) & 1))) >> 16;
        bf16::from_bits(if acc.is_nan() { (x >> 16 | 0x40) as u16 } else { rounded as u16 })
    }
}

/// Rounds a run of accumulators.
#[inline]
pub(crate) fn narrow_slice<T: Element>(src: &[T::Acc], dst: &mut [T]) {
    use half::slice::HalfFloatSliceExt;
    use std::any::TypeId;
    if TypeId::of::<T>() == TypeId::of::<f16>() && src.len() == dst.len() {
        // SAFETY: T is f16 and its Acc is f32, so these are the slices' own types.
        let (s, d) = unsafe {
            (
                std::slice::from_raw_parts(src.as_ptr().cast::<f32>(), src.len()),
                std::slice::from_raw_parts_mut(dst.as_mut_ptr().cast::<f16>(), dst.len()),
            )
        };
        d.convert_from_f32_slice(s);
        return;
    }
    for (d, s) in dst.iter_mut().zip(src) {
        *d = T::narrow(*s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_conversions_agree_with_the_library() {
        for bits in 0..=u16::MAX {
            let (a, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert!(
                a.widen().to_bits() == a.to_f32().to_bits() || a.is_nan() && a.widen().is_nan(),
                "{bits:x}"
            );
            assert!(b.widen().to_bits() == b.to_f32().to_bits() || b.is_nan() && b.widen().is_nan());
        }
        for i in 0..100_000u32 {
            let x = f32::from_bits(i.wrapping_mul(42_941));
            assert_eq!(bf16::narrow(x).is_nan(), x.is_nan());
            assert!(x.is_nan() || bf16::narrow(x) == bf16::from_f32(x));
        }
    }

    #[test]
    fn nan_wins() {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            assert!(Arith::max(a, b).is_nan() && Arith::min(a, b).is_nan());
        }
        assert_eq!(Arith::max(Complex::new(1.0, 2.0), Complex::new(1.0, 3.0)).im, 3.0);
    }
}
