//! Derivatives and vectorisation of element-wise operations, from their rows.

use super::{BinaryOp, Expr, UnaryOp};
use crate::array::Array;
use crate::ops;
use crate::primitive::Primitive;
use crate::transforms::rules::{App, Batched};
use oxmlx_types::{Dtype, Result};

type Unary = fn(&Expr, &Expr, Expr) -> Expr;
type Binary = fn(&Expr, &Expr, &Expr, Expr) -> Expr;

/// What a row says about one operand.
enum Rule<F> {
    Zero,
    Special,
    Of(F),
}

macro_rules! rule {
    ((zero)) => {
        Rule::Zero
    };
    ((special)) => {
        Rule::Special
    };
    (($($f:tt)*)) => {
        Rule::Of($($f)*)
    };
}

macro_rules! unary_rules {
    ($($(#[$doc:meta])* $variant:ident $name:ident $dtype:ident $derivative:tt;)*) => {
        fn unary_rule(op: UnaryOp) -> Rule<Unary> { match op { $(UnaryOp::$variant => rule!($derivative),)* } }
    };
}
unary_table!(unary_rules);

macro_rules! binary_rules {
    ($($(#[$doc:meta])* $variant:ident $name:ident $dtype:ident $da:tt $db:tt;)*) => {
        fn binary_rule(op: BinaryOp, by: usize) -> Rule<Binary> {
            match (op, by) { $((BinaryOp::$variant, 0) => rule!($da), (BinaryOp::$variant, _) => rule!($db),)* }
        }
    };
}
binary_table!(binary_rules);

/// g times the derivative, conjugated for complex operands.
fn pull(app: &App<'_>, by: usize, g: &Array) -> Result<Option<Array>> {
    let complex = g.dtype() == Dtype::Complex64;
    let g = Expr::from(g);
    let back = push(app, by, if complex { g.conjugate() } else { g })?;
    Ok(match back {
        Some(e) if complex => Some(e.conjugate().0?),
        Some(e) => Some(e.0?),
        None => None,
    })
}

/// t times the derivative.
fn push(app: &App<'_>, by: usize, t: Expr) -> Result<Option<Expr>> {
    let x: Vec<Expr> = app.inputs.iter().map(Expr::from).collect();
    let y = Expr::from(app.out);
    Ok(match app.op {
        Primitive::Unary(op) => match unary_rule(*op) {
            Rule::Of(f) => Some(f(&x[0], &y, t)),
            Rule::Zero | Rule::Special => None,
        },
        Primitive::Binary(op) => match binary_rule(*op, by) {
            Rule::Of(f) => Some(f(&x[0], &x[1], &y, t)),
            Rule::Zero | Rule::Special => None,
        },
        Primitive::Select if by == 1 => Some(t.masked(x[0].clone())),
        Primitive::Select if by == 2 => {
            let not = Expr(ops::logical_not(&app.inputs[0]));
            Some(t.masked(not))
        }
        Primitive::Cast => Some(t.cast(app.out.dtype())),
        _ => None,
    })
}

/// Operations whose derivative isn't a multiple of g: those between complex and real.
fn special(app: &App<'_>, g: &Array, forward: bool) -> Option<Result<Array>> {
    let Primitive::Unary(op) = app.op else { return None };
    let x = Expr::from(&app.inputs[0]);
    let complex = app.inputs[0].dtype() == Dtype::Complex64;
    let g = Expr::from(g);
    let out = match op {
        // d|z| = Re(conj(sign z) dz), and backwards g * sign z.
        UnaryOp::Abs if complex && forward => (x.sign().conjugate() * g).real(),
        UnaryOp::Abs => g * x.sign(),
        UnaryOp::Conjugate => g.conjugate(),
        UnaryOp::Real if forward => g.real(),
        UnaryOp::Real => g.cast(Dtype::Complex64),
        UnaryOp::Imag if forward => Expr(g.0.and_then(|g| ops::imag(&g))),
        UnaryOp::Imag => {
            let i = Array::scalar(oxmlx_types::Scalar::from_complex(0.0, 1.0, Dtype::Complex64));
            g.cast(Dtype::Complex64) * Expr(Ok(i))
        }
        _ => return None,
    };
    Some(out.0)
}

/// Cotangent of operand `by`.
pub(crate) fn vjp(app: &App<'_>, by: usize, g: &Array) -> Result<Option<Array>> {
    let back = match app.op {
        Primitive::Cast => Some(ops::astype(g, app.inputs[0].dtype())?),
        _ => match special(app, g, false) {
            Some(r) => Some(r?),
            None => pull(app, by, g)?,
        },
    };
    back.map(|b| ops::sum_to(&b, app.inputs[by].shape())).transpose()
}

/// Tangent of the output.
pub(crate) fn jvp(app: &App<'_>, tangents: &[Option<Array>]) -> Result<Option<Array>> {
    let mut sum: Option<Array> = None;
    for (by, t) in tangents.iter().enumerate() {
        let Some(t) = t else { continue };
        let part = match special(app, t, true) {
            Some(r) => Some(r?),
            None => push(app, by, Expr::from(t))?.map(|e| e.0).transpose()?,
        };
        sum = match (sum, part) {
            (Some(a), Some(b)) => Some(ops::add(&a, &b)?),
            (a, b) => a.or(b),
        };
    }
    sum.map(|s| ops::broadcast_to(&s, app.out.shape())).transpose()
}

/// Batched operands get axes of length 1 behind the batch axis, up to the output's rank.
pub(crate) fn vmap(app: &App<'_>, inputs: &[Batched], size: usize) -> Result<Array> {
    let rank = app.out.ndim();
    let mut lined = crate::array::Inputs::new();
    for b in inputs {
        lined.push(b.aligned(rank)?);
    }
    app.reapply_batched(lined, size)
}
