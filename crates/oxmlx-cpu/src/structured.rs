//! From an operation of a plan to its kernel: an exhaustive match, so that a new operation without a kernel
//! does not compile.

use crate::par::Poll;
use crate::view::{View, ViewMut};
use crate::{copy, create, index, matmul, random, shape};
use oxmlx_core::primitive::Op;
use oxmlx_types::{Error, Layout, Result};

pub use crate::reduce::reduce;

/// Runs one structured operation. `params` begins with the operation's own run-time words. Where the output
/// is operand 0's very memory (slice updates and scatters), operand 0 is not copied.
pub fn run(
    op: &Op,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
    params: &[u64],
    poll: Poll<'_>,
) -> Result<()> {
    let operand = |i: usize| inputs.get(i).ok_or_else(|| Error::invalid("", "An operand is missing."));
    match op {
        Op::Arange => match params {
            [start, step, ..] => create::arange(*start, *step, out, poll),
            _ => Err(Error::invalid("arange", "The start or the step is missing.")),
        },
        Op::Contiguous => {
            // The output may bear another shape (a reshape of what isn't row-major): the order is the operand's.
            let input = operand(0)?;
            let offset = out.layout.offset;
            let layout = Layout { offset, ..Layout::contiguous(input.shape()) };
            copy::contiguous(input, &mut ViewMut { layout: &layout, ..*out }, poll)
        }
        Op::Concat { axis } => shape::concat(*axis, inputs, out, poll),
        Op::SliceUpdate { steps } => {
            let in_place = copy::is_same(operand(0)?, out);
            let starts = &params[..params.len().min(out.shape().len())];
            copy::slice_update(operand(0)?, operand(1)?, steps, starts, out, in_place, poll)
        }
        Op::Gather { axes } => index::gather(operand(0)?, &inputs[1..], axes, out, poll),
        Op::Scatter { axes, mode } => {
            let last = operand(axes.len() + 1)?;
            index::scatter(operand(0)?, &inputs[1..=axes.len()], last, axes, *mode, out, poll)
        }
        Op::GatherAxis { axis } => index::gather_axis(operand(0)?, operand(1)?, *axis, out, poll),
        Op::ScatterAxis { axis, mode } => {
            index::scatter_axis(operand(0)?, operand(1)?, operand(2)?, *axis, *mode, out, poll)
        }
        Op::ArgReduce { max, axis } => crate::reduce::arg_reduce(*max, *axis, operand(0)?, out, poll),
        Op::Matmul => matmul::matmul(operand(0)?, operand(1)?, out, poll),
        Op::Conv(geometry) => crate::conv::conv(geometry, operand(0)?, operand(1)?, out, poll),
        Op::RandomBits { key_ndim } => random::random_bits(operand(0)?, *key_ndim, out, poll),
    }
}
