//! Element types as kernels see them: how each is stored, and in what it computes.
//!
//! A half is stored in two bytes and computes in float32; a bool is stored in a byte that may hold anything
//! (foreign buffers are views too) and computes as `bool`. Everything else computes as itself. The
//! conversions of halves are plain integer arithmetic, so that loops over them vectorise and agree with the
//! hardware's instructions bit for bit.

use crate::simd::math_f32 as m;
use oxmlx_types::{Complex, bf16, f16};

/// A stored element.
pub(crate) trait Elem: Copy + Send + Sync + 'static {
    /// What arithmetic is done in.
    type C: Copy + Send + Sync + 'static;
    /// Stored to computed.
    fn widen(self) -> Self::C;
    /// Computed to stored, rounding.
    fn narrow(c: Self::C) -> Self;
}

/// A bool as it is stored.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Truth(pub u8);

impl Elem for Truth {
    type C = bool;
    #[inline(always)]
    fn widen(self) -> bool {
        self.0 != 0
    }
    #[inline(always)]
    fn narrow(c: bool) -> Self {
        Truth(c as u8)
    }
}

impl Elem for bf16 {
    type C = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits((self.to_bits() as u32) << 16)
    }
    #[inline(always)]
    fn narrow(c: f32) -> Self {
        let b = c.to_bits();
        let rounded = b.wrapping_add(0x7fff + ((b >> 16) & 1)) >> 16;
        bf16::from_bits(if c.is_nan() { (b >> 16) | 0x40 } else { rounded } as u16)
    }
}

impl Elem for f16 {
    type C = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        let h = self.to_bits() as u32;
        let sign = (h & 0x8000) << 16;
        let a = h & 0x7fff;
        // The exponents' biases differ by 112, or by 224 for infinities and NaN. Subnormals are converted from
        // integers, as arithmetic on them would be slow.
        let normal = (a << 13) + if a >= 0x7c00 { 224 << 23 } else { 112 << 23 };
        let small = (a as i32 as f32 * f32::from_bits((127 - 24) << 23)).to_bits();
        f32::from_bits(if a < 0x400 { small } else { normal } | sign)
    }
    #[inline(always)]
    fn narrow(c: f32) -> Self {
        let b = c.to_bits();
        let sign = (b >> 16) & 0x8000;
        let a = b & 0x7fff_ffff;
        // Subnormal results: the adder aligns and rounds; its ulp is the least half.
        let magic = f32::from_bits((127 - 15 + 23 - 10 + 1) << 23);
        let small = (f32::from_bits(a) + magic).to_bits().wrapping_sub(magic.to_bits());
        let normal = a.wrapping_sub(112 << 23).wrapping_add(0xfff + ((a >> 13) & 1)) >> 13;
        let h = if a < 113 << 23 { small } else { normal };
        let h = if a >= 143 << 23 { 0x7c00 } else { h };
        let h = if a > 0x7f80_0000 { 0x7e00 } else { h };
        f16::from_bits((h | sign) as u16)
    }
}

macro_rules! plain {
    ($($t:ty)*) => {$(
        impl Elem for $t {
            type C = $t;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(c: $t) -> $t { c }
        }
    )*};
}
plain!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 Complex);

/// Integers: what the arms of the tables need of all eight.
pub(crate) trait Int: Elem<C = Self> + Ord + Eq {
    const ZERO: Self;
    const ONE: Self;
    const LEAST: Self;
    const GREATEST: Self;
    fn add(self, o: Self) -> Self;
    fn sub(self, o: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn sign(self) -> Self;
    fn not(self) -> Self;
    fn and(self, o: Self) -> Self;
    fn or(self, o: Self) -> Self;
    fn xor(self, o: Self) -> Self;
    fn shl(self, o: Self) -> Self;
    fn shr(self, o: Self) -> Self;
    /// Quotient rounded down; 0 where the divisor is 0.
    fn floor_div(self, o: Self) -> Self;
    /// What is left, with the divisor's sign; the dividend where the divisor is 0.
    fn floor_rem(self, o: Self) -> Self;
    /// Wrapping power; 0 for negative exponents.
    fn pow(self, o: Self) -> Self;
}

macro_rules! int {
    ($($t:ty, $signed:literal);*) => {$(
        impl Int for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            const LEAST: $t = <$t>::MIN;
            const GREATEST: $t = <$t>::MAX;
            #[inline(always)]
            fn add(self, o: $t) -> $t { self.wrapping_add(o) }
            #[inline(always)]
            fn sub(self, o: $t) -> $t { self.wrapping_sub(o) }
            #[inline(always)]
            fn mul(self, o: $t) -> $t { self.wrapping_mul(o) }
            #[inline(always)]
            fn neg(self) -> $t { self.wrapping_neg() }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn abs(self) -> $t { if $signed && self < 0 { self.wrapping_neg() } else { self } }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn sign(self) -> $t {
                let positive = (self > 0) as $t;
                if $signed && self < 0 { (0 as $t).wrapping_sub(1) } else { positive }
            }
            #[inline(always)]
            fn not(self) -> $t { !self }
            #[inline(always)]
            fn and(self, o: $t) -> $t { self & o }
            #[inline(always)]
            fn or(self, o: $t) -> $t { self | o }
            #[inline(always)]
            fn xor(self, o: $t) -> $t { self ^ o }
            #[inline(always)]
            fn shl(self, o: $t) -> $t { self.wrapping_shl(o as u32) }
            #[inline(always)]
            fn shr(self, o: $t) -> $t { self.wrapping_shr(o as u32) }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn floor_div(self, o: $t) -> $t {
                if o == 0 { return 0; }
                let (q, r) = (self.wrapping_div(o), self.wrapping_rem(o));
                if $signed && r != 0 && (r < 0) != (o < 0) { q.wrapping_sub(1) } else { q }
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn floor_rem(self, o: $t) -> $t {
                if o == 0 { return self; }
                let r = self.wrapping_rem(o);
                if $signed && r != 0 && (r < 0) != (o < 0) { r.wrapping_add(o) } else { r }
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn pow(self, o: $t) -> $t {
                if $signed && o < 0 { return 0; }
                let (mut base, mut e, mut y) = (self, o, 1 as $t);
                while e > 0 {
                    if e & 1 == 1 { y = y.wrapping_mul(base); }
                    base = base.wrapping_mul(base);
                    e >>= 1;
                }
                y
            }
        }
    )*};
}
int!(u8, false; u16, false; u32, false; u64, false; i8, true; i16, true; i32, true; i64, true);

macro_rules! float_trait {
    ($($name:ident)*; $($name2:ident)*) => {
        /// The two types that real arithmetic is done in.
        pub(crate) trait Float: Copy + PartialOrd + Send + Sync + 'static
            + std::ops::Add<Output = Self> + std::ops::Sub<Output = Self> + std::ops::Mul<Output = Self>
            + std::ops::Div<Output = Self> + std::ops::Rem<Output = Self> + std::ops::Neg<Output = Self>
        {
            const ZERO: Self;
            const ONE: Self;
            const INFINITY: Self;
            const NAN: Self;
            const DEGREES: Self;
            /// Whether sine and its kin have arguments that take the slow, exact way.
            const HUGE: bool;
            fn is_huge(self) -> bool;
            /// Remainder of a truncating division where `is_far` says that it is exact.
            fn rem_near(self, o: Self) -> Self;
            /// Whether the quotient is too large for `rem_near`.
            fn is_far(self, o: Self) -> bool;
            fn sin_huge(self) -> Self;
            fn cos_huge(self) -> Self;
            fn tan_huge(self) -> Self;
            fn is_nan(self) -> bool;
            fn copysign(self, o: Self) -> Self;
            $(fn $name(self) -> Self;)*
            $(fn $name2(self, o: Self) -> Self;)*
        }
    };
}
float_trait!(abs floor ceil round sqrt rsqrt exp expm1 log log1p log2 log10 sin cos tan sinh cosh tanh asin acos atan
    asinh acosh atanh erf erfinv sigmoid; pow atan2 logaddexp);

macro_rules! one_argument {
    ($t:ty: $($name:ident = $f:path),*) => {$(
        #[inline(always)]
        fn $name(self) -> $t { $f(self) }
    )*};
}
macro_rules! two_arguments {
    ($t:ty: $($name:ident = $f:path),*) => {$(
        #[inline(always)]
        fn $name(self, o: $t) -> $t { $f(self, o) }
    )*};
}

impl Float for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const INFINITY: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    const DEGREES: f32 = (180.0 / std::f64::consts::PI) as f32;
    const HUGE: bool = true;
    #[inline(always)]
    fn is_huge(self) -> bool {
        m::is_huge(self)
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
    #[inline(always)]
    fn rsqrt(self) -> f32 {
        1.0 / f32::sqrt(self)
    }
    one_argument!(f32: sin_huge = m::sin_huge, cos_huge = m::cos_huge, tan_huge = m::tan_huge, abs = f32::abs,
        floor = f32::floor, ceil = f32::ceil, round = f32::round_ties_even, sqrt = f32::sqrt, exp = m::exp,
        expm1 = m::expm1, log = m::log, log1p = m::log1p, log2 = m::log2, log10 = m::log10, sin = m::sin, cos = m::cos,
        tan = m::tan, sinh = m::sinh, cosh = m::cosh, tanh = m::tanh, asin = m::asin, acos = m::acos, atan = m::atan,
        asinh = m::asinh, acosh = m::acosh, atanh = m::atanh, erf = m::erf, erfinv = m::erfinv, sigmoid = m::sigmoid);
    #[inline(always)]
    fn is_far(self, o: f32) -> bool {
        m::is_far(self, o)
    }
    two_arguments!(f32: rem_near = m::rem, copysign = f32::copysign, pow = m::pow, atan2 = m::atan2, logaddexp = m::logaddexp);
}

impl Float for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const INFINITY: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    const DEGREES: f64 = 180.0 / std::f64::consts::PI;
    const HUGE: bool = false;
    #[inline(always)]
    fn is_huge(self) -> bool {
        false
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
    #[inline(always)]
    fn rsqrt(self) -> f64 {
        1.0 / f64::sqrt(self)
    }
    one_argument!(f64: sin_huge = f64::sin, cos_huge = f64::cos, tan_huge = f64::tan, abs = f64::abs,
        floor = f64::floor, ceil = f64::ceil, round = f64::round_ties_even, sqrt = f64::sqrt, exp = f64::exp,
        expm1 = f64::exp_m1, log = f64::ln, log1p = f64::ln_1p, log2 = f64::log2, log10 = f64::log10, sin = f64::sin,
        cos = f64::cos, tan = f64::tan, sinh = f64::sinh, cosh = f64::cosh, tanh = f64::tanh, asin = f64::asin,
        acos = f64::acos, atan = f64::atan, asinh = super::special::asinh, acosh = super::special::acosh,
        atanh = f64::atanh, erf = super::special::erf, erfinv = super::special::erfinv,
        sigmoid = super::special::sigmoid);
    #[inline(always)]
    fn is_far(self, _o: f64) -> bool {
        false
    }
    #[inline(always)]
    fn rem_near(self, o: f64) -> f64 {
        self % o
    }
    two_arguments!(f64: copysign = f64::copysign, pow = f64::powf, atan2 = f64::atan2,
        logaddexp = super::special::logaddexp);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_convert_as_the_library_does() {
        for bits in 0..=u16::MAX {
            let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert!(
                h.is_nan() && h.widen().is_nan() || h.to_f32().to_bits() == h.widen().to_bits(),
                "{bits:x}"
            );
            assert!(
                b.is_nan() && b.widen().is_nan() || b.to_f32().to_bits() == b.widen().to_bits(),
                "{bits:x}"
            );
        }
        for bits in (0..u32::MAX - 4099).step_by(4099) {
            for d in 0..3 {
                // Neighbours of ties, too.
                let x = f32::from_bits((bits & !0xfff) + d.max(1) - 1 + (bits & 0x1000));
                for x in [x, f32::from_bits(bits)] {
                    let (h, b) = (f16::narrow(x), bf16::narrow(x));
                    assert!(
                        x.is_nan() && h.is_nan() || h == f16::from_f32(x),
                        "{x:e}: {h} {}",
                        f16::from_f32(x)
                    );
                    assert!(x.is_nan() && b.is_nan() || b == bf16::from_f32(x), "{x:e}");
                }
            }
        }
    }
}
