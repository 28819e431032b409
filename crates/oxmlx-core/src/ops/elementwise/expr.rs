//! Formulas over arrays that read like formulas: errors travel inside, so that the derivative column of a
//! table row is one line.

use crate::array::Array;
use crate::ops;
use oxmlx_types::{Dtype, Result, Scalar};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// An array, or the error that making it gave.
#[derive(Clone)]
pub struct Expr(pub Result<Array>);

impl From<&Array> for Expr {
    fn from(a: &Array) -> Expr {
        Expr(Ok(a.clone()))
    }
}

impl Expr {
    fn map(&self, f: impl FnOnce(&Array) -> Result<Array>) -> Expr {
        Expr(self.0.as_ref().map_err(Clone::clone).and_then(f))
    }

    fn zip(&self, other: &Expr, f: impl FnOnce(&Array, &Array) -> Result<Array>) -> Expr {
        match (&self.0, &other.0) {
            (Ok(a), Ok(b)) => Expr(f(a, b)),
            (Err(e), _) | (_, Err(e)) => Expr(Err(e.clone())),
        }
    }

    /// A Python float beside this array: weak.
    fn weak(&self, v: f64) -> Expr {
        self.map(|a| Ok(ops::weak(v, a.dtype())))
    }

    /// Zero in this array's dtype, 0-d.
    pub fn zero_like(&self) -> Expr {
        self.map(|a| Ok(Array::scalar(Scalar::from_f64(0.0, a.dtype()))))
    }

    /// This where the condition holds, else 0.
    pub fn masked(self, condition: Expr) -> Expr {
        let zero = self.zero_like();
        match (condition.0, self.0, zero.0) {
            (Ok(c), Ok(x), Ok(z)) => Expr(ops::select(&c, &x, &z)),
            (Err(e), ..) | (_, Err(e), _) | (_, _, Err(e)) => Expr(Err(e)),
        }
    }

    /// As `astype`.
    pub fn cast(&self, dtype: Dtype) -> Expr {
        self.map(|a| ops::astype(a, dtype))
    }
}

macro_rules! methods {
    (unary: $($u:ident)*; binary: $($b:ident)*) => {
        #[allow(missing_docs)]
        impl Expr {
            $(pub fn $u(&self) -> Expr { self.map(ops::$u) })*
            $(pub fn $b(&self, other: &Expr) -> Expr { self.zip(other, ops::$b) })*
        }
    };
}
methods!(unary: sin cos sinh cosh tanh exp log sqrt rsqrt square sigmoid sign conjugate real;
    binary: greater greater_equal less less_equal equal not_equal power floor_divide);

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl $trait<&Expr> for &Expr {
            type Output = Expr;
            fn $method(self, o: &Expr) -> Expr { self.zip(o, ops::$op) }
        }
        impl $trait<Expr> for &Expr {
            type Output = Expr;
            fn $method(self, o: Expr) -> Expr { self.zip(&o, ops::$op) }
        }
        impl $trait<&Expr> for Expr {
            type Output = Expr;
            fn $method(self, o: &Expr) -> Expr { self.zip(o, ops::$op) }
        }
        impl $trait<Expr> for Expr {
            type Output = Expr;
            fn $method(self, o: Expr) -> Expr { self.zip(&o, ops::$op) }
        }
        impl $trait<f64> for &Expr {
            type Output = Expr;
            fn $method(self, o: f64) -> Expr { self.zip(&self.weak(o), ops::$op) }
        }
        impl $trait<f64> for Expr {
            type Output = Expr;
            fn $method(self, o: f64) -> Expr { self.zip(&self.weak(o), ops::$op) }
        }
        impl $trait<Expr> for f64 {
            type Output = Expr;
            fn $method(self, o: Expr) -> Expr { o.weak(self).zip(&o, ops::$op) }
        }
        impl $trait<&Expr> for f64 {
            type Output = Expr;
            fn $method(self, o: &Expr) -> Expr { o.weak(self).zip(o, ops::$op) }
        }
    )*};
}
operators! { Add add add; Sub sub subtract; Mul mul multiply; Div div divide; }

impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        self.map(ops::negative)
    }
}
