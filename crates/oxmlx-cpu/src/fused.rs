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

/// An operand of a group.
struct Input {
    value: ValueId,
    extent: Extent,
    /// Element size in bytes.
    size: usize,
    /// Whether its shape lacks the row axes.
    squeezed: bool,
}

/// A group, ready to run.
pub struct FusedKernel {
    domain: ValueId,
    row_axes: usize,
    inputs: Vec<Input>,
    /// Results, with their element size and extent.
    outputs: Vec<(ValueId, Extent, usize)>,
    direct: Program,
    /// For runs in which a result takes an operand's memory.
    staged: Program,
}

/// Lowers a group: an error where an operation has no kernel for its dtype.
pub fn lower(group: &Group) -> Result<FusedKernel> {
    let regs = &group.regs;
    let inputs = group
        .inputs
        .iter()
        .zip(regs)
        .map(|(i, r)| Input { value: i.value, extent: r.extent, size: r.dtype.size(), squeezed: i.squeezed })
        .collect();
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
        let sources: SmallVec<[Source; 8]> =
            self.inputs.iter().map(|i| source(&values[i.value as usize], i, shape, split)).collect();
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
            self.inputs.iter().any(|i| {
                let (b, size) = (&values[i.value as usize], i.size);
                let Some((lo, hi)) = b.layout.extent() else { return false };
                b.base.0 + lo * size < end && begin < b.base.0 + (hi + 1) * size
            })
        })
    }
}

/// An operand over the domain, or over its rows.
fn source(b: &Bound, input: &Input, shape: &[usize], split: usize) -> Source {
    let (layout, size) = (&b.layout, input.size);
    let base = (b.base.0 + layout.offset * size) as *const u8;
    match input.extent {
        Extent::One => Source::new(base, &Default::default(), &[], size),
        Extent::Full => Source::new(base, layout, shape, size),
        Extent::Row if input.squeezed => Source::new(base, layout, &shape[..split], size),
        Extent::Row => {
            let keep = layout.ndim().saturating_sub(shape.len() - split);
            let cut = oxmlx_types::Layout {
                shape: layout.shape[..keep].into(),
                strides: layout.strides[..keep].into(),
                offset: layout.offset,
            };
            Source::new(base, &cut, &shape[..split], size)
        }
    }
}

#[cfg(test)]
mod tests;
