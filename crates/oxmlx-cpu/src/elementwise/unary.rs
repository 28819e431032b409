//! What each operation on one operand does to one element: the arms of the table.
//!
//! A row names its result (`Same` type, `Real` part's type, `Truth`) and a definition for each class of
//! element type that the operation's rule allows. The fan-out over element types follows below. The matches
//! have no wildcard: a row that is missing here does not compile.

use super::complex as c;
use super::elem::{Elem, Float, Int, Truth};
use super::kernel::{Map, Unary, unary_kernel};
use oxmlx_core::ops::elementwise::UnaryOp;
use oxmlx_types::{Complex, Dtype, bf16, f16};

macro_rules! out_c {
    (Truth $c:ty) => {
        bool
    };
    (Real Complex) => {
        f32
    };
    ($k:ident $c:ty) => {
        $c
    };
}
macro_rules! out_e {
    (Truth $t:ty) => {
        Truth
    };
    (Real Complex) => {
        f32
    };
    ($k:ident $t:ty) => {
        $t
    };
}

macro_rules! unary_rows {
    ($($op:ident: $out:ident {
        $(float |$fx:ident| $fe:expr $(, huge |$hx:ident| $he:expr)?;)?
        $(int |$ix:ident| $ie:expr;)?
        $(bool |$bx:ident| $be:expr;)?
        $(complex |$cx:ident| $ce:expr;)?
    })*) => {
        #[allow(unused_variables)]
        fn float<T: Elem>(op: UnaryOp) -> Option<Unary> where T::C: Float {
            match op {$(UnaryOp::$op => {
                let f: Option<Unary> = None;
                $(let f: Option<Unary> = {
                    struct K;
                    impl<C: Float> Map<C> for K {
                        type Out = out_c!($out C);
                        #[inline(always)]
                        fn map($fx: C) -> Self::Out { $fe }
                        $(
                            const HUGE: bool = C::HUGE;
                            #[inline(always)]
                            fn is_huge(x: C) -> bool { x.is_huge() }
                            fn huge($hx: C) -> Self::Out { $he }
                        )?
                    }
                    Some(unary_kernel::<T, out_e!($out T), K>())
                };)?
                f
            })*}
        }

        #[allow(unused_variables)]
        fn int<T: Int>(op: UnaryOp) -> Option<Unary> {
            match op {$(UnaryOp::$op => {
                let f: Option<Unary> = None;
                $(let f: Option<Unary> = {
                    struct K;
                    impl<C: Int> Map<C> for K {
                        type Out = out_c!($out C);
                        #[inline(always)]
                        fn map($ix: C) -> Self::Out { $ie }
                    }
                    Some(unary_kernel::<T, out_e!($out T), K>())
                };)?
                f
            })*}
        }

        #[allow(unused_variables)]
        fn truth(op: UnaryOp) -> Option<Unary> {
            match op {$(UnaryOp::$op => {
                let f: Option<Unary> = None;
                $(let f: Option<Unary> = {
                    struct K;
                    impl Map<bool> for K {
                        type Out = bool;
                        #[inline(always)]
                        fn map($bx: bool) -> bool { $be }
                    }
                    Some(unary_kernel::<Truth, Truth, K>())
                };)?
                f
            })*}
        }

        #[allow(unused_variables)]
        fn complex(op: UnaryOp) -> Option<Unary> {
            match op {$(UnaryOp::$op => {
                let f: Option<Unary> = None;
                $(let f: Option<Unary> = {
                    struct K;
                    impl Map<Complex> for K {
                        type Out = out_c!($out Complex);
                        #[inline(always)]
                        fn map($cx: Complex) -> Self::Out { $ce }
                    }
                    Some(unary_kernel::<Complex, out_e!($out Complex), K>())
                };)?
                f
            })*}
        }
    };
}

unary_rows! {
    Abs: Real { float |x| x.abs(); int |x| x.abs(); bool |x| x; complex |z| z.re.hypot(z.im); }
    ArcCos: Same { float |x| x.acos(); complex |z| c::acos(z); }
    ArcCosh: Same { float |x| x.acosh(); complex |z| c::acosh(z); }
    ArcSin: Same { float |x| x.asin(); complex |z| c::asin(z); }
    ArcSinh: Same { float |x| x.asinh(); complex |z| c::asinh(z); }
    ArcTan: Same { float |x| x.atan(); complex |z| c::atan(z); }
    ArcTanh: Same { float |x| x.atanh(); complex |z| c::atanh(z); }
    BitwiseInvert: Same { int |x| x.not(); bool |x| !x; }
    Ceil: Same { float |x| x.ceil(); int |x| x; bool |x| x; }
    Conjugate: Same { float |x| x; int |x| x; bool |x| x; complex |z| z.conj(); }
    Cos: Same { float |x| x.cos(), huge |x| x.cos_huge(); complex |z| c::cos(z); }
    Cosh: Same { float |x| x.cosh(); complex |z| c::cosh(z); }
    Degrees: Same { float |x| x * C::DEGREES; }
    Erf: Same { float |x| x.erf(); }
    ErfInv: Same { float |x| x.erfinv(); }
    Exp: Same { float |x| x.exp(); complex |z| c::exp(z); }
    Expm1: Same { float |x| x.expm1(); complex |z| c::expm1(z); }
    Floor: Same { float |x| x.floor(); int |x| x; bool |x| x; }
    Imag: Real { float |_x| C::ZERO; int |_x| C::ZERO; bool |_x| false; complex |z| z.im; }
    IsFinite: Truth { float |x| x.abs() < C::INFINITY; int |_x| true; bool |_x| true;
        complex |z| z.re.is_finite() && z.im.is_finite(); }
    IsInf: Truth { float |x| x.abs() == C::INFINITY; int |_x| false; bool |_x| false;
        complex |z| z.re.is_infinite() || z.im.is_infinite(); }
    IsNan: Truth { float |x| x.is_nan(); int |_x| false; bool |_x| false; complex |z| c::is_nan(z); }
    IsNegInf: Truth { float |x| x == -C::INFINITY; int |_x| false; bool |_x| false;
        complex |z| z.re == f32::NEG_INFINITY && z.im == 0.0; }
    IsPosInf: Truth { float |x| x == C::INFINITY; int |_x| false; bool |_x| false;
        complex |z| z.re == f32::INFINITY && z.im == 0.0; }
    Log: Same { float |x| x.log(); complex |z| c::log(z); }
    Log10: Same { float |x| x.log10(); complex |z| c::log10(z); }
    Log1p: Same { float |x| x.log1p(); complex |z| c::log1p(z); }
    Log2: Same { float |x| x.log2(); complex |z| c::log2(z); }
    LogicalNot: Truth { float |x| x == C::ZERO; int |x| x == C::ZERO; bool |x| !x;
        complex |z| z.re == 0.0 && z.im == 0.0; }
    Negative: Same { float |x| -x; int |x| x.neg(); complex |z| -z; }
    Radians: Same { float |x| x / C::DEGREES; }
    Real: Real { float |x| x; int |x| x; bool |x| x; complex |z| z.re; }
    Reciprocal: Same { float |x| C::ONE / x; complex |z| c::reciprocal(z); }
    Round: Same { float |x| x.round(); int |x| x; bool |x| x;
        complex |z| Complex::new(z.re.round_ties_even(), z.im.round_ties_even()); }
    Rsqrt: Same { float |x| x.rsqrt(); complex |z| c::rsqrt(z); }
    Sigmoid: Same { float |x| x.sigmoid(); complex |z| c::sigmoid(z); }
    Sign: Same { float |x| if x > C::ZERO { C::ONE } else if x < C::ZERO { -C::ONE } else { x + C::ZERO };
        int |x| x.sign(); bool |x| x; complex |z| c::sign(z); }
    Sin: Same { float |x| x.sin(), huge |x| x.sin_huge(); complex |z| c::sin(z); }
    Sinh: Same { float |x| x.sinh(); complex |z| c::sinh(z); }
    Sqrt: Same { float |x| x.sqrt(); complex |z| c::sqrt(z); }
    Square: Same { float |x| x * x; int |x| x.mul(x); bool |x| x; complex |z| c::mul(z, z); }
    Tan: Same { float |x| x.tan(), huge |x| x.tan_huge(); complex |z| c::tan(z); }
    Tanh: Same { float |x| x.tanh(); complex |z| c::tanh(z); }
}

/// The kernel of `op` on operands of dtype `d`; `None` where the op's rule casts or refuses that dtype.
pub fn unary(op: UnaryOp, d: Dtype) -> Option<Unary> {
    match d {
        Dtype::Bool => truth(op),
        Dtype::Uint8 => int::<u8>(op),
        Dtype::Uint16 => int::<u16>(op),
        Dtype::Uint32 => int::<u32>(op),
        Dtype::Uint64 => int::<u64>(op),
        Dtype::Int8 => int::<i8>(op),
        Dtype::Int16 => int::<i16>(op),
        Dtype::Int32 => int::<i32>(op),
        Dtype::Int64 => int::<i64>(op),
        Dtype::Float16 => float::<f16>(op),
        Dtype::Float32 => float::<f32>(op),
        Dtype::Float64 => float::<f64>(op),
        Dtype::Bfloat16 => float::<bf16>(op),
        Dtype::Complex64 => complex(op),
    }
}
