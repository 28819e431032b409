//! Joining arrays: operands are copies into windows of the output, several a launch.

use crate::copy::{Job, Place, rows, strided};
use crate::record::{Encoding, Operand};
use crate::walk::Walk;
use oxmlx_types::{Result, contiguous_strides};

/// Jobs of one launch.
const JOBS: usize = 64;
/// Operands above this many bytes get the kernel that suits them best, which one launch for all cannot be.
const LARGE: usize = 1 << 22;

/// The operands one after the other along an axis.
pub(crate) fn concat(axis: u8, inputs: &[Operand<'_>], out: &Operand<'_>, e: &mut Encoding) -> Result<()> {
    let (axis, size) = (axis as usize, out.dtype.size());
    let strides = contiguous_strides(out.shape());
    let mut first = 0;
    let mut small: Vec<Job<'_>> = Vec::new();
    for input in inputs {
        let job = Job {
            shape: input.shape(),
            from: Place::of(input),
            from_strides: input.strides(),
            to: Place::of(out).plus(first * strides[axis] as usize * size),
            to_strides: &strides,
            starts: Vec::new(),
            start_unit: 16,
        };
        first += input.shape()[axis];
        if input.size() == 0 {
            continue;
        }
        if input.size() * size >= LARGE {
            strided(&job, size, e)?;
        } else {
            small.push(job);
        }
    }
    for jobs in small.chunks(JOBS) {
        if let [job] = jobs {
            strided(job, size, e)?;
            continue;
        }
        let jobs: Vec<_> =
            jobs.iter().map(|j| (Walk::new(j.shape, [j.from_strides, j.to_strides]), j)).collect();
        rows(&jobs, size, e)?;
    }
    Ok(())
}
