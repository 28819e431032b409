//! The rules of every primitive in one place each: which family's file answers for it.
//!
//! The matches are exhaustive: a primitive without an answer does not compile, so "not differentiable" is
//! always a written decision.

use crate::array::{Array, Inputs};
use crate::ops;
use crate::ops::{conv, elementwise, index, matmul, random, reduce, shape, slice};
use crate::primitive::{Op, Params, Primitive, View};
use oxmlx_types::{Error, Result, Shape};
use smallvec::smallvec;

/// An application as a rule sees it.
pub(crate) struct App<'a> {
    pub op: &'a Primitive,
    pub params: &'a Params,
    pub inputs: &'a [Array],
    pub out: &'a Array,
}

/// An operand under vmap: with the batch as its first axis, or shared by the whole batch.
#[derive(Clone)]
pub(crate) struct Batched {
    pub array: Array,
    pub batched: bool,
}

impl Batched {
    /// Rank of one example.
    pub fn rank(&self) -> usize {
        self.array.ndim() - usize::from(self.batched)
    }

    /// With axes of length 1 behind the batch axis until one example has this rank.
    pub fn aligned(&self, rank: usize) -> Result<Array> {
        if !self.batched || self.rank() >= rank {
            return Ok(self.array.clone());
        }
        let mut shape: Vec<i64> = vec![self.array.shape()[0] as i64];
        shape.extend(std::iter::repeat_n(1, rank - self.rank()));
        shape.extend(self.array.shape()[1..].iter().map(|&n| n as i64));
        ops::reshape(&self.array, &shape)
    }

    /// With a batch axis in any case.
    pub fn spread(&self, size: usize) -> Result<Array> {
        if self.batched {
            return Ok(self.array.clone());
        }
        let mut shape: Shape = smallvec![size];
        shape.extend_from_slice(self.array.shape());
        ops::broadcast_to(&self.array, &shape)
    }
}

impl App<'_> {
    /// The error of a family that was asked for a rule it does not have: never a silent zero.
    pub fn missing(&self, rule: &'static str) -> Error {
        Error::unsupported(rule, format!("{} has no such rule; please report this.", self.op.name()))
    }

    /// The same application to operands of the same shapes.
    pub fn reapply(&self, inputs: Inputs) -> Array {
        let spec = self.out.spec();
        let stream = self.out.stream();
        Array::apply_on(stream, self.op.clone(), self.params.clone(), spec.shape.clone(), spec.dtype, inputs)
    }

    /// The same application to a batch, where the operation does not care about leading axes.
    pub fn reapply_batched(&self, inputs: Inputs, size: usize) -> Result<Array> {
        let spec = self.out.spec();
        let mut shape: Shape = smallvec![size];
        shape.extend_from_slice(&spec.shape);
        let stream = self.out.stream();
        Ok(Array::apply_on(stream, self.op.clone(), self.params.clone(), shape, spec.dtype, inputs))
    }
}

/// Cotangent of operand `by`, or `None` where nothing flows back.
pub(crate) fn vjp(app: &App<'_>, by: usize, g: &Array) -> Result<Option<Array>> {
    match app.op {
        Primitive::Unary(_) | Primitive::Binary(_) | Primitive::Select | Primitive::Cast => {
            elementwise::vjp(app, by, g)
        }
        Primitive::View(View::Slice(_)) | Primitive::Op(Op::SliceUpdate { .. }) => slice::vjp(app, by, g),
        Primitive::View(_) | Primitive::Op(Op::Contiguous | Op::Concat { .. }) => shape::vjp(app, by, g),
        Primitive::Reduce(..) => reduce::vjp(app, g),
        Primitive::Op(
            Op::Gather { .. } | Op::GatherAxis { .. } | Op::Scatter { .. } | Op::ScatterAxis { .. },
        ) => index::vjp(app, by, g),
        Primitive::Op(Op::Matmul) => matmul::vjp(app, by, g),
        Primitive::Op(Op::Conv(_)) => conv::vjp(app, by, g),
        // Steps and constants: small changes of their operands change nothing.
        Primitive::Op(Op::ArgReduce { .. } | Op::RandomBits { .. } | Op::Arange) => Ok(None),
        Primitive::Data | Primitive::Constant | Primitive::Placeholder => Ok(None),
    }
}

/// Tangent of the output, or `None` where it is zero.
pub(crate) fn jvp(app: &App<'_>, tangents: &[Option<Array>]) -> Result<Option<Array>> {
    let linear = |t: &Option<Array>| t.as_ref().map(|t| app.reapply(smallvec![t.clone()]));
    match app.op {
        Primitive::Unary(_) | Primitive::Binary(_) | Primitive::Select | Primitive::Cast => {
            elementwise::jvp(app, tangents)
        }
        Primitive::View(View::Identity { stop: true } | View::Bitcast) => Ok(None),
        Primitive::View(_) | Primitive::Op(Op::Contiguous) => Ok(linear(&tangents[0])),
        Primitive::Op(Op::Concat { .. } | Op::SliceUpdate { .. }) => {
            let mut all = Inputs::new();
            for (t, x) in tangents.iter().zip(app.inputs) {
                all.push(match t {
                    Some(t) => t.clone(),
                    None => ops::zeros_like(x)?,
                });
            }
            Ok(Some(app.reapply(all)))
        }
        Primitive::Reduce(..) => match &tangents[0] {
            Some(t) => reduce::jvp(app, t),
            None => Ok(None),
        },
        Primitive::Op(
            Op::Gather { .. } | Op::GatherAxis { .. } | Op::Scatter { .. } | Op::ScatterAxis { .. },
        ) => index::jvp(app, tangents),
        Primitive::Op(Op::Matmul) => matmul::jvp(app, tangents),
        Primitive::Op(Op::Conv(_)) => conv::jvp(app, tangents),
        Primitive::Op(Op::ArgReduce { .. } | Op::RandomBits { .. } | Op::Arange) => Ok(None),
        Primitive::Data | Primitive::Constant | Primitive::Placeholder => Ok(None),
    }
}

/// The application to a whole batch; the batch is the first axis of the result.
pub(crate) fn vmap(app: &App<'_>, inputs: &[Batched], size: usize) -> Result<Array> {
    match app.op {
        Primitive::Unary(_) | Primitive::Binary(_) | Primitive::Select | Primitive::Cast => {
            elementwise::vmap(app, inputs, size)
        }
        Primitive::View(View::Slice(_)) | Primitive::Op(Op::SliceUpdate { .. }) => {
            slice::vmap(app, inputs, size)
        }
        Primitive::View(_) | Primitive::Op(Op::Contiguous | Op::Concat { .. }) => {
            shape::vmap(app, inputs, size)
        }
        Primitive::Reduce(..) | Primitive::Op(Op::ArgReduce { .. }) => reduce::vmap(app, &inputs[0]),
        Primitive::Op(
            Op::Gather { .. } | Op::GatherAxis { .. } | Op::Scatter { .. } | Op::ScatterAxis { .. },
        ) => index::vmap(app, inputs, size),
        Primitive::Op(Op::Matmul) => matmul::vmap(inputs),
        Primitive::Op(Op::RandomBits { .. }) => random::vmap(app, &inputs[0], size),
        Primitive::Op(Op::Conv(_)) => one_by_one(app, inputs, size),
        Primitive::Op(Op::Arange) | Primitive::Data | Primitive::Constant | Primitive::Placeholder => {
            Ok(app.out.clone())
        }
    }
}

/// A batch as a loop: slow, but right for everything.
fn one_by_one(app: &App<'_>, inputs: &[Batched], size: usize) -> Result<Array> {
    let mut outs = Vec::with_capacity(size);
    for i in 0..size {
        let mut one = Inputs::new();
        for b in inputs {
            one.push(if b.batched {
                ops::squeeze(&crate::ops::window(&b.array, 0, i as i64, i as i64 + 1)?, Some(&[0]))?
            } else {
                b.array.clone()
            });
        }
        outs.push(app.reapply(one));
    }
    if outs.is_empty() {
        let mut shape: Shape = smallvec![0];
        shape.extend_from_slice(app.out.shape());
        return ops::zeros(&shape, app.out.dtype());
    }
    ops::stack(&outs, 0)
}
