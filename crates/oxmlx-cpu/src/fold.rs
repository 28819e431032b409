//! How two elements become one: the operations of reductions and scatters, as types, so that each gets its
//! own vectorised loop.

use crate::element::Arith;
use oxmlx_types::Dtype;

/// An associative combination.
pub(crate) trait Fold: Copy + Send + Sync + 'static {
    /// Whether long chains are cut into blocks to keep rounding errors small.
    const BLOCKED: bool;
    /// The neutral element.
    fn init<A: Arith>() -> A;
    /// `acc` with `x`, in this order.
    fn apply<A: Arith>(acc: A, x: A) -> A;
}

macro_rules! folds {
    ($($(#[$meta:meta])* $name:ident, $blocked:expr, $init:ident, $acc:ident, $x:ident => $body:expr);* $(;)?) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;
        impl Fold for $name {
            const BLOCKED: bool = $blocked;
            #[inline(always)]
            fn init<A: Arith>() -> A { A::$init }
            #[inline(always)]
            fn apply<A: Arith>($acc: A, $x: A) -> A { $body }
        }
    )*};
}
folds! {
    /// Sum.
    Sum, true, ZERO, a, x => a.add(x);
    /// Product.
    Prod, false, ONE, a, x => a.mul(x);
    /// Maximum; a NaN wins.
    Max, false, LOWEST, a, x => Arith::max(a, x);
    /// Minimum; a NaN wins.
    Min, false, HIGHEST, a, x => Arith::min(a, x);
    /// The later one.
    Last, false, ZERO, _a, x => x;
}

/// A combination chosen at run time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Sum,
    Prod,
    Max,
    Min,
    Last,
}

impl Kind {
    /// On bools, which are bytes 0 and 1, sums and products are or and and, that is max and min.
    pub(crate) fn for_dtype(self, dtype: Dtype) -> Kind {
        match (self, dtype) {
            (Kind::Sum, Dtype::Bool) => Kind::Max,
            (Kind::Prod, Dtype::Bool) => Kind::Min,
            (k, _) => k,
        }
    }
}

/// Runs `$body` with `$F` standing for the type of a [`Kind`].
macro_rules! dispatch_fold {
    ($kind:expr, $F:ident => $body:expr) => {
        match $kind {
            $crate::fold::Kind::Sum => {
                type $F = $crate::fold::Sum;
                $body
            }
            $crate::fold::Kind::Prod => {
                type $F = $crate::fold::Prod;
                $body
            }
            $crate::fold::Kind::Max => {
                type $F = $crate::fold::Max;
                $body
            }
            $crate::fold::Kind::Min => {
                type $F = $crate::fold::Min;
                $body
            }
            $crate::fold::Kind::Last => {
                type $F = $crate::fold::Last;
                $body
            }
        }
    };
}
pub(crate) use dispatch_fold;
