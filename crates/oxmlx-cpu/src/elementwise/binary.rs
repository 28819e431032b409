//! What each operation on two operands does to a pair of elements: the arms of the table.
//!
//! As in `unary.rs`: a row names its result and has a definition for each class of element type that the
//! operation's rule allows; a row that is missing here does not compile.

use super::complex as c;
use super::elem::{Elem, Float, Int, Truth};
use super::kernel::{Binary, Map2, binary_kernel};
use oxmlx_core::ops::elementwise::BinaryOp;
use oxmlx_types::{Complex, Dtype, bf16, f16};

macro_rules! out_c {
    (Truth $c:ty) => {
        bool
    };
    ($k:ident $c:ty) => {
        $c
    };
}
macro_rules! out_e {
    (Truth $t:ty) => {
        Truth
    };
    ($k:ident $t:ty) => {
        $t
    };
}

macro_rules! binary_rows {
    ($($op:ident: $out:ident {
        $(float |$fx:ident, $fy:ident| $fe:expr $(, far |$hx:ident, $hy:ident| $he:expr)?;)?
        $(int |$ix:ident, $iy:ident| $ie:expr;)?
        $(bool |$bx:ident, $by:ident| $be:expr;)?
        $(complex |$cx:ident, $cy:ident| $ce:expr;)?
    })*) => {
        #[allow(unused_variables)]
        fn float<T: Elem>(op: BinaryOp) -> Option<Binary> where T::C: Float {
            match op {$(BinaryOp::$op => {
                let f: Option<Binary> = None;
                $(let f: Option<Binary> = {
                    struct K;
                    impl<C: Float> Map2<C> for K {
                        type Out = out_c!($out C);
                        #[inline(always)]
                        fn map($fx: C, $fy: C) -> Self::Out { $fe }
                        $(
                            const HUGE: bool = C::HUGE;
                            #[inline(always)]
                            fn is_huge(x: C, y: C) -> bool { x.is_far(y) }
                            fn huge($hx: C, $hy: C) -> Self::Out { $he }
                        )?
                    }
                    Some(binary_kernel::<T, out_e!($out T), K>())
                };)?
                f
            })*}
        }

        #[allow(unused_variables)]
        fn int<T: Int>(op: BinaryOp) -> Option<Binary> {
            match op {$(BinaryOp::$op => {
                let f: Option<Binary> = None;
                $(let f: Option<Binary> = {
                    struct K;
                    impl<C: Int> Map2<C> for K {
                        type Out = out_c!($out C);
                        #[inline(always)]
                        fn map($ix: C, $iy: C) -> Self::Out { $ie }
                    }
                    Some(binary_kernel::<T, out_e!($out T), K>())
                };)?
                f
            })*}
        }

        #[allow(unused_variables)]
        fn truth(op: BinaryOp) -> Option<Binary> {
            match op {$(BinaryOp::$op => {
                let f: Option<Binary> = None;
                $(let f: Option<Binary> = {
                    struct K;
                    impl Map2<bool> for K {
                        type Out = bool;
                        #[inline(always)]
                        fn map($bx: bool, $by: bool) -> bool { $be }
                    }
                    Some(binary_kernel::<Truth, Truth, K>())
                };)?
                f
            })*}
        }

        #[allow(unused_variables)]
        fn complex(op: BinaryOp) -> Option<Binary> {
            match op {$(BinaryOp::$op => {
                let f: Option<Binary> = None;
                $(let f: Option<Binary> = {
                    struct K;
                    impl Map2<Complex> for K {
                        type Out = out_c!($out Complex);
                        #[inline(always)]
                        fn map($cx: Complex, $cy: Complex) -> Self::Out { $ce }
                    }
                    Some(binary_kernel::<Complex, out_e!($out Complex), K>())
                };)?
                f
            })*}
        }
    };
}

binary_rows! {
    Add: Same { float |a, b| a + b; int |a, b| a.add(b); bool |a, b| a | b; complex |a, b| a + b; }
    ArcTan2: Same { float |y, x| y.atan2(x); }
    BitwiseAnd: Same { int |a, b| a.and(b); bool |a, b| a & b; }
    BitwiseOr: Same { int |a, b| a.or(b); bool |a, b| a | b; }
    BitwiseXor: Same { int |a, b| a.xor(b); bool |a, b| a ^ b; }
    Divide: Same { float |a, b| a / b; complex |a, b| c::div(a, b); }
    Equal: Truth { float |a, b| a == b; int |a, b| a == b; bool |a, b| a == b; complex |a, b| a == b; }
    FloorDivide: Same { float |a, b| floor_div(a, b, a.rem_near(b)), far |a, b| floor_div(a, b, a % b);
         int |a, b| a.floor_div(b); bool |a, b| a & b; }
    Greater: Truth { float |a, b| a > b; int |a, b| a > b; bool |a, b| a & !b; complex |a, b| c::less(b, a); }
    GreaterEqual: Truth { float |a, b| a >= b; int |a, b| a >= b; bool |a, b| a | !b;
        complex |a, b| c::less(b, a) || a == b; }
    LeftShift: Same { int |a, b| a.shl(b); }
    Less: Truth { float |a, b| a < b; int |a, b| a < b; bool |a, b| !a & b; complex |a, b| c::less(a, b); }
    LessEqual: Truth { float |a, b| a <= b; int |a, b| a <= b; bool |a, b| !a | b;
        complex |a, b| c::less(a, b) || a == b; }
    LogAddExp: Same { float |a, b| a.logaddexp(b); complex |a, b| c::logaddexp(a, b); }
    LogicalAnd: Truth { bool |a, b| a & b; }
    LogicalOr: Truth { bool |a, b| a | b; }
    Maximum: Same { float |a, b| maximum(a, b); int |a, b| a.max(b); bool |a, b| a | b;
        complex |a, b| c::maximum(a, b); }
    Minimum: Same { float |a, b| minimum(a, b); int |a, b| a.min(b); bool |a, b| a & b;
        complex |a, b| c::minimum(a, b); }
    Multiply: Same { float |a, b| a * b; int |a, b| a.mul(b); bool |a, b| a & b; complex |a, b| c::mul(a, b); }
    NotEqual: Truth { float |a, b| a != b; int |a, b| a != b; bool |a, b| a ^ b; complex |a, b| a != b; }
    Power: Same { float |a, b| a.pow(b); int |a, b| a.pow(b); bool |a, b| a | !b; complex |a, b| c::pow(a, b); }
    Remainder: Same { float |a, b| floor_rem(b, a.rem_near(b)), far |a, b| floor_rem(b, a % b);
         int |a, b| a.floor_rem(b); bool |a, b| a & !b; }
    RightShift: Same { int |a, b| a.shr(b); }
    Subtract: Same { float |a, b| a - b; int |a, b| a.sub(b); bool |a, b| a ^ b; complex |a, b| a - b; }
}

/// The larger; NaN if either is.
#[inline(always)]
pub(crate) fn maximum<C: Float>(a: C, b: C) -> C {
    let m = if a > b { a } else { b };
    if a.is_nan() { a } else { m }
}

/// The smaller; NaN if either is.
#[inline(always)]
pub(crate) fn minimum<C: Float>(a: C, b: C) -> C {
    let m = if a < b { a } else { b };
    if a.is_nan() { a } else { m }
}

/// Remainder with the divisor's sign, from the truncating one, as numpy has it.
#[inline(always)]
fn floor_rem<C: Float>(b: C, r: C) -> C {
    let moved = if (b < C::ZERO) != (r < C::ZERO) { r + b } else { r };
    if r == C::ZERO { C::ZERO.copysign(b) } else { moved }
}

/// Quotient rounded down, consistent with the truncating remainder r, as numpy has it.
#[inline(always)]
fn floor_div<C: Float>(a: C, b: C, r: C) -> C {
    let q = (a - r) / b;
    let q = if r != C::ZERO && (b < C::ZERO) != (r < C::ZERO) { q - C::ONE } else { q };
    // q is an integer up to rounding.
    let q = if q == C::ZERO { C::ZERO.copysign(a / b) } else { q.round() };
    if b == C::ZERO { a / b } else { q }
}

/// The kernel of `op` on operands of dtype `d`; `None` where the op's rule casts or refuses that dtype.
pub fn binary(op: BinaryOp, d: Dtype) -> Option<Binary> {
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
