//! What a Program becomes before a device sees it: a list of kernels over numbered values.
//!
//! Everything in this folder is a pure function of plain data; it is tested without arrays and without a
//! device. A plan holds no sizes, no run-time words and no buffers: the binder takes those from the nodes of
//! each run, so that one plan serves every length of a growing cache and every value of a learning rate.

mod build;
pub mod cache;
pub mod dump;
mod fuse;
mod graph;
mod layout;
mod memory;
mod schedule;
mod simplify;

pub use graph::{Def, Graph, GraphNode, ONE, Sym, Value, ZERO};
pub use layout::view_layout;
pub use memory::{Arena, arena};
pub use schedule::plan;

use crate::ops::elementwise::{BinaryOp, UnaryOp};
use crate::primitive::{Op, ReduceOp, View};
use oxmlx_types::Dtype;

/// Number of a value (an array) inside one Program or plan.
pub type ValueId = u32;
/// Number of a register inside one group.
pub type Reg = u16;

/// A Program's kernels in the order in which they run.
#[derive(Debug, Default)]
pub struct Plan {
    /// Views, in an order in which each one's base is defined before it.
    pub views: Vec<ViewDef>,
    /// Kernels, in order.
    pub steps: Vec<Step>,
    /// Where each value lives; indexed by [`ValueId`].
    pub homes: Vec<Home>,
    /// Element type of each value.
    pub dtypes: Vec<Dtype>,
    /// Values in the arena, with the steps between which the memory is theirs.
    pub slots: Vec<Slot>,
    /// Values with a buffer of their own: kept ones, and the bases of kept views.
    pub owned: Vec<ValueId>,
    /// Values handed to the caller, in the Program's order of kept values.
    pub outputs: Vec<ValueId>,
    /// An owned value may take the leaf's buffer if nobody else owns that: (leaf value, owned value).
    pub aliases: Vec<(ValueId, ValueId)>,
    /// Whether a kernel may refuse its operands' contents (an index out of range).
    pub fallible: bool,
    /// Values without memory whose shape is a group's domain; ascending.
    pub domains: Vec<ValueId>,
}

/// A value that reads another value's buffer.
#[derive(Debug, Clone)]
pub struct ViewDef {
    /// The view.
    pub view: View,
    /// Read value.
    pub input: ValueId,
    /// Defined value.
    pub out: ValueId,
    /// First run-time word (slice starts) in the parameter block.
    pub params: u32,
}

/// A piece of the arena: one value, or several that follow each other in place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The values, all of one size.
    pub values: Vec<ValueId>,
    /// First step that writes it.
    pub first: u32,
    /// Last step that reads it.
    pub last: u32,
}

/// Where a value's elements are during a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// Nowhere: it lives in a group's registers only, or nothing needs it.
    Nowhere,
    /// The buffer of a leaf: this value is one.
    Leaf,
    /// The parameter block, at this word.
    Param(u32),
    /// The n-th slot of the arena, while it lives.
    Arena(u32),
    /// The n-th buffer of its own.
    Owned(u32),
    /// Another value's buffer, read through a view.
    ViewOf(ValueId),
    /// Exactly another value.
    Same(ValueId),
}

/// One kernel of a plan.
#[derive(Debug)]
pub enum Step {
    /// One fused kernel.
    Group(Group),
    /// One structured kernel.
    Op {
        /// What it does.
        op: Op,
        /// Read values.
        inputs: Vec<ValueId>,
        /// Written value.
        out: ValueId,
        /// First run-time word in the parameter block.
        params: u32,
    },
    /// A reduction along axes that are not the last ones (those are groups).
    Reduce {
        /// How elements are combined.
        op: ReduceOp,
        /// Reduced axes, ascending.
        axes: crate::primitive::Axes,
        /// Read value.
        input: ValueId,
        /// Written value.
        out: ValueId,
    },
}

impl Step {
    /// Values that this step reads, in order.
    pub fn inputs(&self) -> Vec<ValueId> {
        match self {
            Step::Reduce { input, .. } => vec![*input],
            Step::Op { inputs, .. } => inputs.clone(),
            Step::Group(g) => g.inputs.iter().map(|i| i.value).collect(),
        }
    }

    /// Values that this step writes.
    pub fn outputs(&self) -> Vec<ValueId> {
        match self {
            Step::Reduce { out, .. } | Step::Op { out, .. } => vec![*out],
            Step::Group(g) => g.outputs.iter().map(|o| o.value).collect(),
        }
    }
}

/// How many elements of the group's domain a register holds one of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Extent {
    /// One for the whole kernel.
    One,
    /// One a row.
    Row,
    /// One an element of the domain.
    Full,
}

/// A chain of element-wise operations, with reductions along rows, that runs as one kernel.
///
/// The domain is a shape of `rows x row_len`: the lengths of its last `row_axes` axes multiply to `row_len`,
/// the others to `rows`. A pointwise group has `row_axes == 0` and no row registers. Registers are in static
/// single assignment; each register has one dtype and one extent. Every result is rounded to its register's
/// dtype, so that fused and unfused runs give the same bits.
#[derive(Debug, Clone)]
pub struct Group {
    /// A value (input or output of the group, or a member) whose shape is the domain.
    pub domain: ValueId,
    /// How many trailing axes make up a row; 0 for a pointwise group.
    pub row_axes: u8,
    /// Registers, by number.
    pub regs: Vec<RegInfo>,
    /// Loads, in order of their registers: input i fills register i.
    pub inputs: Vec<GroupInput>,
    /// The program.
    pub instrs: Vec<Instr>,
    /// Stores.
    pub outputs: Vec<GroupOutput>,
    /// Whether a register of extent Row, made by a reduction, is used by an instruction of extent Full: then
    /// a row must stay in scratch memory until its reduction is known.
    pub respreads: bool,
}

/// Type and extent of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegInfo {
    /// Element type.
    pub dtype: Dtype,
    /// How many there are.
    pub extent: Extent,
}

/// One operand of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupInput {
    /// The value. With extent Full its layout broadcasts to the domain; with extent Row it broadcasts to the
    /// domain with rows of length 1; with extent One it has one element.
    pub value: ValueId,
    /// With extent Row: whether the value's shape lacks the row axes, so that it broadcasts to the domain
    /// without them.
    pub squeezed: bool,
}

/// One result of a group, written row-major.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupOutput {
    /// From this register.
    pub reg: Reg,
    /// To this value.
    pub value: ValueId,
}

/// One operation of a group. Operands may have smaller extents than the result: a row's value, or the one
/// value, stands for each element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Instr {
    /// `dst = op(src)`; the operand's dtype is the source register's.
    Unary { op: UnaryOp, src: Reg, dst: Reg },
    /// `dst = op(a, b)`; a and b have one dtype.
    Binary { op: BinaryOp, a: Reg, b: Reg, dst: Reg },
    /// `dst = cond ? a : b`.
    Select { cond: Reg, a: Reg, b: Reg, dst: Reg },
    /// `dst = src`, converted to dst's dtype.
    Cast { src: Reg, dst: Reg },
    /// `dst` (extent Row) `= op over the row of src` (extent Full, same dtype).
    Reduce { op: ReduceOp, src: Reg, dst: Reg },
}

impl Instr {
    /// The written register.
    pub fn dst(&self) -> Reg {
        match *self {
            Instr::Unary { dst, .. }
            | Instr::Binary { dst, .. }
            | Instr::Select { dst, .. }
            | Instr::Cast { dst, .. }
            | Instr::Reduce { dst, .. } => dst,
        }
    }

    /// The read registers.
    pub fn srcs(&self) -> smallvec::SmallVec<[Reg; 3]> {
        match *self {
            Instr::Unary { src, .. } | Instr::Cast { src, .. } | Instr::Reduce { src, .. } => {
                smallvec::smallvec![src]
            }
            Instr::Binary { a, b, .. } => smallvec::smallvec![a, b],
            Instr::Select { cond, a, b, .. } => smallvec::smallvec![cond, a, b],
        }
    }
}
