//! The fourteen element types and the rule that says which of them an operation on two produces.
//!
//! Promotion is a lattice joined from two small facts (category and width) instead of a 14 x 14 table:
//! the few places where MLX departs from that are written as the exceptions they are.

use std::fmt;

/// An element type. The discriminants are MLX's own numbers, which pickles and `.mlxfn` files hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Dtype {
    Bool = 0,
    Uint8 = 1,
    Uint16 = 2,
    Uint32 = 3,
    Uint64 = 4,
    Int8 = 5,
    Int16 = 6,
    Int32 = 7,
    Int64 = 8,
    Float16 = 9,
    Float32 = 10,
    Float64 = 11,
    Bfloat16 = 12,
    Complex64 = 13,
}

/// What kind of number an element type holds: MLX's abstract types, from `generic` down to the leaves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Category {
    Generic,
    Number,
    Integer,
    SignedInteger,
    UnsignedInteger,
    Inexact,
    Floating,
    ComplexFloating,
}

impl Category {
    /// Whether `self` is `other` or lies below it in the hierarchy.
    pub fn is_sub(self, other: Category) -> bool {
        self == other || self.parent().is_some_and(|p| p.is_sub(other))
    }

    fn parent(self) -> Option<Category> {
        use Category::*;
        match self {
            Generic => None,
            Number => Some(Generic),
            Integer | Inexact => Some(Number),
            SignedInteger | UnsignedInteger => Some(Integer),
            Floating | ComplexFloating => Some(Inexact),
        }
    }

    /// The name that MLX prints.
    pub fn name(self) -> &'static str {
        use Category::*;
        match self {
            Generic => "generic",
            Number => "number",
            Integer => "integer",
            SignedInteger => "signedinteger",
            UnsignedInteger => "unsignedinteger",
            Inexact => "inexact",
            Floating => "floating",
            ComplexFloating => "complexfloating",
        }
    }
}

use Dtype::*;

impl Dtype {
    /// Every element type, in the order of MLX's numbers.
    pub const ALL: [Dtype; 14] = [
        Bool, Uint8, Uint16, Uint32, Uint64, Int8, Int16, Int32, Int64, Float16, Float32, Float64, Bfloat16,
        Complex64,
    ];

    /// The element type with this MLX number, if there is one.
    pub fn from_number(n: u8) -> Option<Dtype> {
        Dtype::ALL.get(n as usize).copied()
    }

    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            Bool | Uint8 | Int8 => 1,
            Uint16 | Int16 | Float16 | Bfloat16 => 2,
            Uint32 | Int32 | Float32 => 4,
            Uint64 | Int64 | Float64 | Complex64 => 8,
        }
    }

    /// The name users write: `float32`, and `bool` (spelt `bool_` as a Python attribute).
    pub const fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            Uint8 => "uint8",
            Uint16 => "uint16",
            Uint32 => "uint32",
            Uint64 => "uint64",
            Int8 => "int8",
            Int16 => "int16",
            Int32 => "int32",
            Int64 => "int64",
            Float16 => "float16",
            Float32 => "float32",
            Float64 => "float64",
            Bfloat16 => "bfloat16",
            Complex64 => "complex64",
        }
    }

    /// The leaf category of this type; bool is only `Generic`.
    pub const fn category(self) -> Category {
        match self {
            Bool => Category::Generic,
            Uint8 | Uint16 | Uint32 | Uint64 => Category::UnsignedInteger,
            Int8 | Int16 | Int32 | Int64 => Category::SignedInteger,
            Float16 | Float32 | Float64 | Bfloat16 => Category::Floating,
            Complex64 => Category::ComplexFloating,
        }
    }

    /// float16, bfloat16, float32 or float64.
    pub const fn is_floating(self) -> bool {
        matches!(self, Float16 | Float32 | Float64 | Bfloat16)
    }

    /// Floating or complex.
    pub const fn is_inexact(self) -> bool {
        self.is_floating() || matches!(self, Complex64)
    }

    /// Signed or unsigned integer; bool is not one.
    pub const fn is_integer(self) -> bool {
        !self.is_inexact() && !matches!(self, Bool)
    }

    /// Unsigned integer.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, Uint8 | Uint16 | Uint32 | Uint64)
    }

    /// What a function that needs a fraction computes in: itself when inexact, else float32.
    pub const fn to_inexact(self) -> Dtype {
        if self.is_inexact() { self } else { Float32 }
    }

    /// The type of the real and imaginary parts.
    pub const fn to_real(self) -> Dtype {
        if matches!(self, Complex64) { Float32 } else { self }
    }

    /// The type of `a op b` for arrays of these types.
    pub fn promote(self, other: Dtype) -> Dtype {
        if self == other {
            return self;
        }
        let (a, b) = if rank(self) >= rank(other) { (self, other) } else { (other, self) };
        match (rank(a), rank(b)) {
            // Bool is the identity, complex absorbs (float64 too), floats absorb integers.
            (_, 0) | (4, _) => a,
            (3, 3) => match (a, b) {
                (Float64, _) | (_, Float64) => Float64,
                // No half type holds the other's values.
                _ => Float32,
            },
            (3, _) => a,
            (x, y) if x == y => {
                if a.size() >= b.size() {
                    a
                } else {
                    b
                }
            }
            // a signed, b unsigned: the signed type that holds both; nothing does for uint64.
            _ => match (a.size(), b.size()) {
                (_, 8) => Float32,
                (s, u) if s > u => a,
                (_, 1) => Int16,
                (_, 2) => Int32,
                _ => Int64,
            },
        }
    }

    /// The type of `array op scalar` where the scalar is a Python number (weak): it keeps the array's type
    /// unless its kind cannot be held there at all.
    pub fn promote_weak(self, scalar: Dtype) -> Dtype {
        match scalar {
            Complex64 => Complex64,
            s if s.is_floating() => {
                if self.is_inexact() {
                    self
                } else {
                    Float32
                }
            }
            Bool => self,
            _ => {
                if self == Bool {
                    Int32
                } else {
                    self
                }
            }
        }
    }
}

/// bool < unsigned < signed < floating < complex.
fn rank(d: Dtype) -> u8 {
    match d.category() {
        Category::UnsignedInteger => 1,
        Category::SignedInteger => 2,
        Category::Floating => 3,
        Category::ComplexFloating => 4,
        _ => 0,
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_symmetric_and_bool_is_its_identity() {
        for a in Dtype::ALL {
            assert_eq!(a.promote(Bool), a);
            for b in Dtype::ALL {
                assert_eq!(a.promote(b), b.promote(a), "{a} {b}");
            }
        }
    }

    #[test]
    fn promotion_exceptions() {
        assert_eq!(Uint64.promote(Int8), Float32);
        assert_eq!(Uint32.promote(Int8), Int64);
        assert_eq!(Uint8.promote(Int8), Int16);
        assert_eq!(Uint16.promote(Int16), Int32);
        assert_eq!(Uint8.promote(Int32), Int32);
        assert_eq!(Float16.promote(Bfloat16), Float32);
        assert_eq!(Float16.promote(Int64), Float16);
        assert_eq!(Float64.promote(Complex64), Complex64);
    }

    #[test]
    fn weak_scalars_keep_the_array_type() {
        assert_eq!(Int8.promote_weak(Int32), Int8);
        assert_eq!(Bool.promote_weak(Int32), Int32);
        assert_eq!(Float16.promote_weak(Float32), Float16);
        assert_eq!(Int32.promote_weak(Float32), Float32);
        assert_eq!(Complex64.promote_weak(Float32), Complex64);
    }
}
