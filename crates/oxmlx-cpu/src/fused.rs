//! Fused groups: chains of element-wise operations, with reductions along rows, as one kernel.
//!
//! Intermediate values never leave the cache: a group runs block by block, every step on a block that the
//! step before has just written. Lowering looks kernels up and gives registers their homes, once; a run only
//! computes addresses. Whatever the layout, the block size or the number of threads, each element goes
//! through the same operations in the same order, so that all ways to run a group give the same bits.

mod exec;
mod gather;
mod program;
pub mod reduce_row;
mod run;
mod scratch;

use gather::Source;
use oxmlx_core::backend::Bound;
use oxmlx_core::plan::{Extent, Group, ValueId};
use oxmlx_types::Result;
use program::Program;
use run::Run;
use smallvec::SmallVec;

/// A group, ready to run.
pub struct FusedKernel {
    domain: ValueId,
    row_axes: usize,
    inputs: Vec<(ValueId, Extent, usize)>,
    /// Results, with their element size and extent.
    outputs: Vec<(ValueId, Extent, usize)>,
    direct: Program,
    /// For runs in which a result takes an operand's memory.
    staged: Program,
}

/// Lowers a group: an error where an operation has no kernel for its dtype.
pub fn lower(group: &Group) -> Result<FusedKernel> {
    let regs = &group.regs;
    let inputs = group.inputs.iter().zip(regs).map(|(i, r)| (i.value, r.extent, r.dtype.size())).collect();
    let outputs = group
        .outputs
        .iter()
        .map(|o| (o.value, regs[o.reg as usize].extent, regs[o.reg as usize].dtype.size()))
        .collect();
    Ok(FusedKernel {
        domain: group.domain,
        row_axes: group.row_axes as usize,
        inputs,
        outputs,
        direct: Program::new(group, false)?,
        staged: Program::new(group, true)?,
    })
}

impl FusedKernel {
    /// Host bytes that the kernel holds, roughly.
    pub fn bytes(&self) -> usize {
        let steps: usize = self.direct.phases.iter().map(|p| p.row.len() + p.full.len()).sum();
        512 + 2
            * (steps * size_of::<program::Step>() + self.direct.regs.len() * size_of::<program::Register>())
    }

    /// Runs the group on the plan's values. Results are written row-major at their layout's offset. `poll` is
    /// called between parts of long runs; its error ends the run.
    ///
    /// # Safety
    /// Addresses and layouts of the group's operands and results are valid during the run, and nothing else
    /// writes to them. A result may share an operand's memory if it has the same layout and element size.
    pub unsafe fn run(&self, values: &[Bound], poll: &dyn Fn() -> Result<()>) -> Result<()> {
        let shape = &values[self.domain as usize].layout.shape;
        let split = if self.row_axes == 0 { 0 } else { shape.len().saturating_sub(self.row_axes) };
        let rows: usize = shape[..split].iter().product();
        let row_len: usize = shape[split..].iter().product();
        let sources: SmallVec<[Source; 8]> = self
            .inputs
            .iter()
            .map(|&(value, extent, size)| source(&values[value as usize], extent, size, shape, split))
            .collect();
        let outs: SmallVec<[*mut u8; 4]> = self
            .outputs
            .iter()
            .map(|&(value, _, size)| {
                let b = &values[value as usize];
                (b.base.0 + b.layout.offset * size) as *mut u8
            })
            .collect();
        let program = if self.overlaps(values, &outs, rows, row_len) { &self.staged } else { &self.direct };
        // SAFETY: the caller's promise.
        unsafe { Run::new(program, sources, outs, rows, row_len, self.row_axes > 0).go(poll) }
    }

    /// Whether a result shares memory with an operand.
    fn overlaps(&self, values: &[Bound], outs: &[*mut u8], rows: usize, row_len: usize) -> bool {
        outs.iter().zip(&self.outputs).any(|(&out, &(_, extent, size))| {
            let n = match extent {
                Extent::One => 1,
                Extent::Row => rows,
                Extent::Full => rows * row_len,
            };
            let (begin, end) = (out as usize, out as usize + n * size);
            self.inputs.iter().any(|&(value, _, size)| {
                let b = &values[value as usize];
                let Some((lo, hi)) = b.layout.extent() else { return false };
                b.base.0 + lo * size < end && begin < b.base.0 + (hi + 1) * size
            })
        })
    }
}

/// An operand over the domain, or over its rows.
fn source(b: &Bound, extent: Extent, size: usize, shape: &[usize], split: usize) -> Source {
    let base = (b.base.0 + b.layout.offset * size) as *const u8;
    match extent {
        Extent::One => Source::new(base, &Default::default(), &[], size),
        Extent::Full => Source::new(base, &b.layout, shape, size),
        Extent::Row => {
            let layout = &b.layout;
            // With the row's axes (of length 1), or without them.
            let lead = &shape[..split];
            let without = layout.ndim() <= split
                && layout.shape.iter().rev().zip(lead.iter().rev()).all(|(&n, &m)| n == m || n == 1);
            if without {
                return Source::new(base, layout, lead, size);
            }
            let keep = layout.ndim().saturating_sub(shape.len() - split);
            let cut = oxmlx_types::Layout {
                shape: layout.shape[..keep].into(),
                strides: layout.strides[..keep].into(),
                offset: layout.offset,
            };
            Source::new(base, &cut, lead, size)
        }
    }
}

#[cfg(test)]
mod tests;
