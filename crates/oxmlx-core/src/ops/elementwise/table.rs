//! What the rows of the tables turn into: the enums that primitives hold, names and dtype rules.

use oxmlx_types::{Dtype, Error, Result};

/// Which dtypes a unary operation takes and what it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryRule {
    /// Any dtype, unchanged.
    Same,
    /// Any but bool, unchanged.
    Signed,
    /// Any but complex, unchanged.
    Ordered,
    /// Integers and bools, unchanged.
    Bits,
    /// Integers become float32.
    Inexact,
    /// Integers become float32; no complex.
    RealInexact,
    /// Complex becomes float32; others unchanged.
    Real,
    /// Any dtype gives bool.
    Truth,
}

/// Which dtypes a binary operation takes and what it returns, after promotion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryRule {
    /// The promoted dtype.
    Arith,
    /// The promoted dtype; integers become float32.
    Inexact,
    /// The promoted dtype; no complex.
    Ordered,
    /// Operands promote, the result is bool.
    Compare,
    /// Operands become bool, the result is bool.
    Logic,
    /// The promoted dtype; integers and bools only.
    Bits,
    /// As Bits, and bools become uint8.
    Shift,
}

macro_rules! unary_enum {
    ($($(#[$doc:meta])* $variant:ident $name:ident $rule:ident $derivative:tt;)*) => {
        /// Element-wise operations on one operand.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum UnaryOp { $($(#[$doc])* $variant,)* }
        impl UnaryOp {
            /// Every row of the table.
            pub const ALL: &[UnaryOp] = &[$(UnaryOp::$variant,)*];
            /// The public name.
            pub fn name(self) -> &'static str { match self { $(UnaryOp::$variant => stringify!($name),)* } }
            /// The dtype rule.
            pub fn rule(self) -> UnaryRule { match self { $(UnaryOp::$variant => UnaryRule::$rule,)* } }
        }
    };
}
unary_table!(unary_enum);

macro_rules! binary_enum {
    ($($(#[$doc:meta])* $variant:ident $name:ident $rule:ident $da:tt $db:tt;)*) => {
        /// Element-wise operations on two operands.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum BinaryOp { $($(#[$doc])* $variant,)* }
        impl BinaryOp {
            /// Every row of the table.
            pub const ALL: &[BinaryOp] = &[$(BinaryOp::$variant,)*];
            /// The public name.
            pub fn name(self) -> &'static str { match self { $(BinaryOp::$variant => stringify!($name),)* } }
            /// The dtype rule.
            pub fn rule(self) -> BinaryRule { match self { $(BinaryOp::$variant => BinaryRule::$rule,)* } }
        }
    };
}
binary_table!(binary_enum);

impl UnaryOp {
    /// (dtype that the operand is cast to, dtype of the result) for an operand of dtype `d`.
    pub fn dtypes(self, d: Dtype) -> Result<(Dtype, Dtype)> {
        let complex = d == Dtype::Complex64;
        let refuse = |what: &str| Err(Error::invalid(self.name(), format!("{what} not supported.")));
        match self.rule() {
            UnaryRule::Same => Ok((d, d)),
            UnaryRule::Signed if d == Dtype::Bool => refuse("Bool arrays are"),
            UnaryRule::Ordered | UnaryRule::RealInexact if complex => refuse("Complex arrays are"),
            UnaryRule::Bits if d.is_inexact() => refuse("Floating types are"),
            UnaryRule::Signed | UnaryRule::Ordered | UnaryRule::Bits => Ok((d, d)),
            UnaryRule::Inexact | UnaryRule::RealInexact => Ok((d.to_inexact(), d.to_inexact())),
            UnaryRule::Real => Ok((d, d.to_real())),
            UnaryRule::Truth => Ok((d, Dtype::Bool)),
        }
    }
}

impl BinaryOp {
    /// (dtype that both operands are cast to, dtype of the result) for operands that promote to `d`.
    pub fn dtypes(self, d: Dtype) -> Result<(Dtype, Dtype)> {
        let refuse = |what: String| Err(Error::invalid(self.name(), what));
        match self.rule() {
            BinaryRule::Arith => Ok((d, d)),
            BinaryRule::Inexact => Ok((d.to_inexact(), d.to_inexact())),
            BinaryRule::Ordered if d == Dtype::Complex64 => refuse("Complex type not supported.".into()),
            BinaryRule::Ordered => Ok((d, d)),
            BinaryRule::Compare => Ok((d, Dtype::Bool)),
            BinaryRule::Logic => Ok((Dtype::Bool, Dtype::Bool)),
            BinaryRule::Bits | BinaryRule::Shift if d.is_inexact() => {
                refuse(format!("Floating point types not allowed with {}.", self.name().replace('_', " ")))
            }
            BinaryRule::Bits => Ok((d, d)),
            BinaryRule::Shift if d == Dtype::Bool => Ok((Dtype::Uint8, Dtype::Uint8)),
            BinaryRule::Shift => Ok((d, d)),
        }
    }
}
