//! From operations and element types to functions of `kernels/elementwise`.
//!
//! A row says for which classes of element type there is a function. The matches have no wildcard: an
//! operation without a row does not compile.

use oxmlx_core::ops::elementwise::{BinaryOp, UnaryOp};
use oxmlx_core::primitive::ReduceOp;
use oxmlx_types::Dtype;

/// Classes of element types; each is a file, and a namespace of functions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Class {
    Boolean,
    Integer,
    Real,
    Double,
    Half,
    Complex,
}

impl Class {
    pub fn of(d: Dtype) -> Class {
        match d {
            Dtype::Bool => Class::Boolean,
            Dtype::Uint8
            | Dtype::Uint16
            | Dtype::Uint32
            | Dtype::Uint64
            | Dtype::Int8
            | Dtype::Int16
            | Dtype::Int32
            | Dtype::Int64 => Class::Integer,
            Dtype::Float16 | Dtype::Bfloat16 => Class::Half,
            Dtype::Float32 => Class::Real,
            Dtype::Float64 => Class::Double,
            Dtype::Complex64 => Class::Complex,
        }
    }

    pub fn file(self) -> &'static str {
        match self {
            Class::Boolean => "elementwise/boolean.cuh",
            Class::Integer => "elementwise/integer.cuh",
            Class::Real => "elementwise/float.cuh",
            Class::Double => "elementwise/double.cuh",
            Class::Half => "elementwise/half.cuh",
            Class::Complex => "elementwise/complex.cuh",
        }
    }

    fn namespace(self) -> &'static str {
        match self {
            Class::Boolean => "boolean",
            Class::Integer => "integer",
            Class::Real | Class::Double | Class::Half => "real",
            Class::Complex => "complex",
        }
    }
}

/// The type in which a dtype computes.
pub(super) fn computed(d: Dtype) -> &'static str {
    match d {
        Dtype::Float16 | Dtype::Bfloat16 | Dtype::Float32 => "float32",
        Dtype::Bool => "bool",
        Dtype::Uint8 => "uint8",
        Dtype::Uint16 => "uint16",
        Dtype::Uint32 => "uint32",
        Dtype::Uint64 => "uint64",
        Dtype::Int8 => "int8",
        Dtype::Int16 => "int16",
        Dtype::Int32 => "int32",
        Dtype::Int64 => "int64",
        Dtype::Float64 => "float64",
        Dtype::Complex64 => "complex64",
    }
}

/// The type as which a dtype is stored.
pub(super) fn stored(d: Dtype) -> &'static str {
    match d {
        Dtype::Bool => "uint8",
        Dtype::Float16 => "float16",
        Dtype::Bfloat16 => "bfloat16",
        other => computed(other),
    }
}

/// The element's name, of `Element<..>`.
pub(super) fn element(d: Dtype) -> &'static str {
    if d == Dtype::Bool { "bool" } else { stored(d) }
}

pub(super) fn is_half(d: Dtype) -> bool {
    Class::of(d) == Class::Half
}

/// What a row of a table says about an operation.
struct Row {
    boolean: bool,
    integer: bool,
    float: bool,
    complex: bool,
    /// Whether halves have a function of their own.
    half: bool,
    /// Whether the result of halves is a half, without rounding.
    exact: bool,
    /// Work for an element, in additions.
    weight: u32,
}

macro_rules! rows {
    ($($op:ident: [$($class:ident)*] $weight:literal;)*; $enum:ident) => {
        fn row(op: $enum) -> Row {
            match op {$(
                $enum::$op => {
                    #[allow(unused_mut)]
                    let mut row = Row { boolean: false, integer: false, float: false, complex: false, half: false,
                        exact: false, weight: $weight };
                    $(row.$class = true;)*
                    row
                }
            )*}
        }
    };
}

mod unary_rows {
    use super::*;
    rows! {
        Abs: [boolean integer float complex exact] 1;
        ArcCos: [float complex] 20;
        ArcCosh: [float complex] 30;
        ArcSin: [float complex] 20;
        ArcSinh: [float complex] 30;
        ArcTan: [float complex] 20;
        ArcTanh: [float complex] 30;
        BitwiseInvert: [boolean integer] 1;
        Ceil: [boolean integer float exact] 1;
        Conjugate: [boolean integer float complex exact] 1;
        Cos: [float complex] 40;
        Cosh: [float complex] 20;
        Degrees: [float] 1;
        Erf: [float] 20;
        ErfInv: [float] 30;
        Exp: [float complex half] 10;
        Expm1: [float complex] 20;
        Floor: [boolean integer float exact] 1;
        Imag: [boolean integer float complex exact] 1;
        IsFinite: [boolean integer float complex] 1;
        IsInf: [boolean integer float complex] 1;
        IsNan: [boolean integer float complex] 1;
        IsNegInf: [boolean integer float complex] 1;
        IsPosInf: [boolean integer float complex] 1;
        Log: [float complex] 20;
        Log10: [float complex] 20;
        Log1p: [float complex] 20;
        Log2: [float complex] 20;
        LogicalNot: [boolean integer float complex] 1;
        Negative: [integer float complex exact] 1;
        Radians: [float] 10;
        Real: [boolean integer float complex exact] 1;
        Reciprocal: [float complex half] 10;
        Round: [boolean integer float complex exact] 1;
        Rsqrt: [float complex] 20;
        Sigmoid: [float complex half] 20;
        Sign: [boolean integer float complex exact] 3;
        Sin: [float complex] 40;
        Sinh: [float complex] 20;
        Sqrt: [float complex] 10;
        Square: [boolean integer float complex] 1;
        Tan: [float complex] 50;
        Tanh: [float complex] 20;
        ; UnaryOp
    }
    pub(super) fn of(op: UnaryOp) -> Row {
        row(op)
    }
}

mod binary_rows {
    use super::*;
    rows! {
        Add: [boolean integer float complex] 1;
        ArcTan2: [float] 30;
        BitwiseAnd: [boolean integer] 1;
        BitwiseOr: [boolean integer] 1;
        BitwiseXor: [boolean integer] 1;
        Divide: [float complex half] 10;
        Equal: [boolean integer float complex] 1;
        FloorDivide: [boolean integer float] 40;
        Greater: [boolean integer float complex] 1;
        GreaterEqual: [boolean integer float complex] 1;
        LeftShift: [integer] 1;
        Less: [boolean integer float complex] 1;
        LessEqual: [boolean integer float complex] 1;
        LogAddExp: [float complex] 40;
        LogicalAnd: [boolean] 1;
        LogicalOr: [boolean] 1;
        Maximum: [boolean integer float complex exact] 1;
        Minimum: [boolean integer float complex exact] 1;
        Multiply: [boolean integer float complex] 1;
        NotEqual: [boolean integer float complex] 1;
        Power: [boolean integer float complex] 60;
        Remainder: [boolean integer float] 40;
        RightShift: [integer] 1;
        Subtract: [boolean integer float complex] 1;
        ; BinaryOp
    }
    pub(super) fn of(op: BinaryOp) -> Row {
        row(op)
    }
}

/// A function's name, and what is known of it.
pub(super) struct Functor {
    pub name: String,
    /// Whether halves need no rounding afterwards.
    pub exact: bool,
    pub weight: u32,
}

fn functor(row: Row, name: &str, d: Dtype) -> Option<Functor> {
    let class = Class::of(d);
    let there = match class {
        Class::Boolean => row.boolean,
        Class::Integer => row.integer,
        Class::Real | Class::Double | Class::Half => row.float,
        Class::Complex => row.complex,
    };
    let namespace = if class == Class::Half && row.half { "half" } else { class.namespace() };
    let heavy = match class {
        Class::Complex if row.weight >= 10 => 8,
        Class::Double if row.weight >= 10 => 3,
        _ => 1,
    };
    there.then(|| Functor {
        name: format!("{namespace}::{name}"),
        exact: row.exact,
        weight: row.weight * heavy,
    })
}

/// The function of `op` on operands of dtype `d`; `None` where the operation's rule casts or refuses that.
pub(super) fn unary(op: UnaryOp, d: Dtype) -> Option<Functor> {
    functor(unary_rows::of(op), op.name(), d)
}

/// As [`unary`], of two operands.
pub(super) fn binary(op: BinaryOp, d: Dtype) -> Option<Functor> {
    functor(binary_rows::of(op), op.name(), d)
}

/// How a reduction combines and what it makes of nothing: (function, identity); `None` for all/any of
/// anything but bools.
pub(super) fn fold(op: ReduceOp, d: Dtype) -> Option<(String, String)> {
    let class = Class::of(d);
    let name = match (op, class) {
        (ReduceOp::All | ReduceOp::Any, c) if c != Class::Boolean => return None,
        (ReduceOp::Sum | ReduceOp::Any, _) => "add",
        (ReduceOp::Prod | ReduceOp::All, _) => "multiply",
        (ReduceOp::Max, _) => "maximum",
        (ReduceOp::Min, _) => "minimum",
    };
    let identity = match op {
        ReduceOp::Sum | ReduceOp::Any => number(d, 0),
        ReduceOp::Prod | ReduceOp::All => number(d, 1),
        ReduceOp::Max => extreme(d, true),
        ReduceOp::Min => extreme(d, false),
    };
    Some((format!("{}::{name}", class.namespace()), identity))
}

/// 0 or 1.
fn number(d: Dtype, n: u8) -> String {
    match Class::of(d) {
        Class::Boolean => if n == 0 { "false" } else { "true" }.into(),
        Class::Complex => format!("complex64{{{n}.0f, 0.0f}}"),
        _ => format!("({}){n}", computed(d)),
    }
}

/// The least (or the greatest) value.
fn extreme(d: Dtype, least: bool) -> String {
    let float = if least { "bits_as<float32>(0xff800000u)" } else { "bits_as<float32>(0x7f800000u)" };
    let bits = d.size() * 8;
    match Class::of(d) {
        Class::Boolean => if least { "false" } else { "true" }.into(),
        Class::Complex => format!("complex64{{{float}, {float}}}"),
        Class::Real | Class::Half => float.into(),
        Class::Double if least => "bits_as<float64>(0xfff0000000000000ull)".into(),
        Class::Double => "bits_as<float64>(0x7ff0000000000000ull)".into(),
        Class::Integer => {
            let signed = matches!(d, Dtype::Int8 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64);
            let top = 1u64 << (bits - 1);
            let word = match (signed, least) {
                (true, true) => top,
                (true, false) => top - 1,
                (false, true) => 0,
                (false, false) => top | (top - 1),
            };
            format!("({})0x{word:x}ull", computed(d))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_function_for_each_dtype_that_its_rule_allows() {
        for d in Dtype::ALL {
            for &op in UnaryOp::ALL {
                if op.dtypes(d).is_ok_and(|(takes, _)| takes == d) {
                    assert!(unary(op, d).is_some(), "{} of {d}", op.name());
                }
            }
            for &op in BinaryOp::ALL {
                // A complex angle is refused on the CPU, too.
                let refused = op == BinaryOp::ArcTan2 && d == Dtype::Complex64;
                if op.dtypes(d).is_ok_and(|(takes, _)| takes == d) && !refused {
                    assert!(binary(op, d).is_some(), "{} of {d}", op.name());
                }
            }
        }
    }
}
