//! From an operation of a plan to its encoder: an exhaustive match, so that a new operation without a kernel
//! does not compile.

use crate::record::{Encoding, Operand};
use crate::{conv, copy, create, index, matmul, random, shape};
use oxmlx_core::primitive::Op;
use oxmlx_types::{Error, Result};

pub(crate) use crate::reduce::reduce;

/// Adds the launches of one structured operation. `params` is the number of its first run-time word. Where
/// the output is operand 0's very memory (slice updates and scatters), operand 0 is not copied.
pub(crate) fn encode(
    op: &Op,
    inputs: &[Operand<'_>],
    out: &Operand<'_>,
    params: u32,
    e: &mut Encoding,
) -> Result<()> {
    let operand = |i: usize| inputs.get(i).ok_or_else(|| Error::invalid("", "An operand is missing."));
    match op {
        Op::Arange => create::arange(params, out, e),
        Op::Contiguous => copy::contiguous(operand(0)?, out, e),
        Op::Concat { axis } => shape::concat(*axis, inputs, out, e),
        Op::SliceUpdate { steps } => copy::slice_update(operand(0)?, operand(1)?, steps, params, out, e),
        Op::Gather { axes } => index::gather(operand(0)?, &inputs[1..], axes, out, e),
        Op::Scatter { axes, mode } => {
            let updates = operand(axes.len() + 1)?;
            index::scatter(operand(0)?, &inputs[1..=axes.len()], updates, axes, *mode, out, e)
        }
        Op::GatherAxis { axis } => index::gather_axis(operand(0)?, operand(1)?, *axis, out, e),
        Op::ScatterAxis { axis, mode } => {
            index::scatter_axis(operand(0)?, operand(1)?, operand(2)?, *axis, *mode, out, e)
        }
        Op::ArgReduce { max, axis } => crate::reduce::arg_reduce(*max, *axis, operand(0)?, out, e),
        Op::Matmul => matmul::encode(operand(0)?, operand(1)?, out, e),
        Op::Conv(geometry) => conv::conv(geometry, operand(0)?, operand(1)?, out, e),
        Op::RandomBits { key_ndim } => random::random_bits(operand(0)?, *key_ndim, out, e),
    }
}
