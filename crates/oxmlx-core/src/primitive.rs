//! What a node can be: a closed set, so that a backend which forgets an operation does not compile.
//!
//! **Only structural parameters live in these enums.** Equality and hashing are derived, and they are the
//! level-1 plan key: two nodes with equal primitives run the same kernel. What changes from call to call
//! is elsewhere: *sizes* are the shapes of operands and outputs (the level-2 key), *values* are the node's
//! [`Params`], which are part of no key and reach the kernel through the parameter block.

use crate::ops::elementwise::{BinaryOp, UnaryOp};
use smallvec::SmallVec;

/// A short list of axes or steps.
pub type Axes = SmallVec<[u8; 6]>;

/// The run-time words of a node.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Params {
    /// Run-time words: immediates' bits, slice starts, arange's start and step. In no plan key.
    pub values: SmallVec<[u64; 2]>,
}

impl Params {
    /// No parameters.
    pub fn none() -> Params {
        Params::default()
    }

    /// Run-time words.
    pub fn values(values: impl IntoIterator<Item = u64>) -> Params {
        Params { values: values.into_iter().collect() }
    }
}

/// One kind of application.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Primitive {
    /// An array that was born with its contents; never pending.
    Data,
    /// A 0-d immediate. Values: its bits.
    Constant,
    /// The stand-in for an argument while a function is traced; can't be evaluated.
    Placeholder,
    /// One operand, element by element.
    Unary(UnaryOp),
    /// Two operands of one dtype, which broadcast to the output's shape.
    Binary(BinaryOp),
    /// `where(condition, a, b)`; the operands broadcast to the output's shape.
    Select,
    /// Conversion to the output's dtype.
    Cast,
    /// A reduction; the reduced axes stay with length 1.
    Reduce(ReduceOp, Axes),
    /// A re-reading of the operand's buffer: no work, resolved when a run is bound.
    View(View),
    /// Everything else: one kernel of its own.
    Op(Op),
}

/// Ways to read a buffer again without touching it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum View {
    /// The operand itself; hides it from differentiation if `stop` is set.
    Identity {
        /// Whether gradients stop here.
        stop: bool,
    },
    /// Lengths of 1 stretch to the output's shape.
    Broadcast,
    /// The same elements, row-major, under the output's shape.
    Reshape,
    /// Axes in another order: output axis i is input axis `axes[i]`.
    Transpose(Axes),
    /// The same bytes as elements of the output's dtype; with another element size, the last axis scales.
    Bitcast,
    /// Every `steps[i]`-th element along axis i. Values: the start of each axis.
    Slice(SmallVec<[i32; 4]>),
}

/// How elements are combined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    Prod,
    Max,
    Min,
    /// Logical and of bools.
    All,
    /// Logical or of bools.
    Any,
}

/// What a scatter does where an element is already there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum ScatterMode {
    /// The last update wins.
    Assign,
    Sum,
    Prod,
    Max,
    Min,
}

/// The geometry of a convolution: one entry a spatial axis. Structural: an algorithm is chosen by it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub struct ConvGeometry {
    pub stride: SmallVec<[u32; 3]>,
    /// Zeros before each spatial axis; negative crops.
    pub padding_lo: SmallVec<[i32; 3]>,
    /// Zeros after each spatial axis; negative crops.
    pub padding_hi: SmallVec<[i32; 3]>,
    pub kernel_dilation: SmallVec<[u32; 3]>,
    pub input_dilation: SmallVec<[u32; 3]>,
    pub groups: u32,
    /// Whether the kernel is read backwards (a convolution in the mathematical sense).
    pub flip: bool,
}

/// Operations with a kernel of their own in every backend. Operands may have any layout; the output is
/// written row-major unless said otherwise.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// `start + i * step` along one axis. Values: start and step, each a float64's bits for floating output
    /// types and an int64's for integers.
    Arange,
    /// The operand's elements in row-major order; the output's shape may be another one of that size.
    Contiguous,
    /// Operands joined along an axis.
    Concat {
        /// The axis.
        axis: u8,
    },
    /// Operand 0 with operand 1 written into a strided window. Values: the start of each axis.
    SliceUpdate {
        /// Distance between written elements along each axis; may be negative.
        steps: SmallVec<[i32; 4]>,
    },
    /// `out[i.., r..] = src[.. indices_k[i..] at axes[k] .., r..]`: operand 0 is the source, operands 1.. are
    /// integer index arrays of one shape I; the output's shape is I followed by the source's other axes.
    /// Negative indices count from the end once.
    Gather {
        /// Indexed axes, ascending; one index operand each.
        axes: Axes,
    },
    /// The reverse: operand 0 is the destination, then the index arrays, last the updates of shape I followed
    /// by the other axes; duplicates are combined in row-major order of I.
    Scatter {
        /// Indexed axes, ascending.
        axes: Axes,
        /// What happens where an element is already there.
        mode: ScatterMode,
    },
    /// `take_along_axis`: operand 1 has operand 0's rank and the output's shape; the other axes are equal.
    GatherAxis {
        /// The axis.
        axis: u8,
    },
    /// Operand 0 with operand 2 written at operand 1's positions along an axis.
    ScatterAxis {
        /// The axis.
        axis: u8,
        /// What happens where an element is already there.
        mode: ScatterMode,
    },
    /// Position (uint32) of the largest or smallest element along an axis, which stays with length 1. The
    /// first of equals wins; a NaN is larger and smaller than everything.
    ArgReduce {
        /// True: the largest.
        max: bool,
        /// The axis.
        axis: u8,
    },
    /// `[.., M, K] x [.., K, N]`; leading axes are equal. Inexact types; halves accumulate in float32.
    Matmul,
    /// `[N, spatial.., C] * [O, kernel.., C/groups] -> [N, spatial.., O]`.
    Conv(Box<ConvGeometry>),
    /// Threefry-2x32 words: operand 0 holds keys `[K.., 2]` (uint32), the output is `[K.., S..]`, uint8/16/32
    /// by its dtype.
    RandomBits {
        /// Rank of `K..`.
        key_ndim: u8,
    },
}

impl Primitive {
    /// The name that errors, plan dumps and graphs show.
    pub fn name(&self) -> &'static str {
        match self {
            Primitive::Data => "data",
            Primitive::Constant => "constant",
            Primitive::Placeholder => "placeholder",
            Primitive::Unary(op) => op.name(),
            Primitive::Binary(op) => op.name(),
            Primitive::Select => "where",
            Primitive::Cast => "astype",
            Primitive::Reduce(op, _) => op.name(),
            Primitive::View(v) => v.name(),
            Primitive::Op(op) => op.name(),
        }
    }

    /// Whether the output at a position depends on the operands at that position alone.
    pub fn is_elementwise(&self) -> bool {
        matches!(self, Primitive::Unary(_) | Primitive::Binary(_) | Primitive::Select | Primitive::Cast)
    }

    /// Whether a node of this kind has nothing to run.
    pub fn is_leaf(&self) -> bool {
        matches!(self, Primitive::Data | Primitive::Constant | Primitive::Placeholder)
    }
}

impl View {
    fn name(&self) -> &'static str {
        match self {
            View::Identity { stop: true } => "stop_gradient",
            View::Identity { stop: false } => "identity",
            View::Broadcast => "broadcast_to",
            View::Reshape => "reshape",
            View::Bitcast => "view",
            View::Transpose(_) => "transpose",
            View::Slice(_) => "slice",
        }
    }
}

impl ReduceOp {
    /// The public name.
    pub fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Prod => "prod",
            ReduceOp::Max => "max",
            ReduceOp::Min => "min",
            ReduceOp::All => "all",
            ReduceOp::Any => "any",
        }
    }
}

impl Op {
    fn name(&self) -> &'static str {
        match self {
            Op::Arange => "arange",
            Op::Contiguous => "contiguous",
            Op::Concat { .. } => "concatenate",
            Op::SliceUpdate { .. } => "slice_update",
            Op::Gather { .. } => "gather",
            Op::Scatter { .. } => "scatter",
            Op::GatherAxis { .. } => "take_along_axis",
            Op::ScatterAxis { .. } => "put_along_axis",
            Op::ArgReduce { max: true, .. } => "argmax",
            Op::ArgReduce { max: false, .. } => "argmin",
            Op::Matmul => "matmul",
            Op::Conv(_) => "conv",
            Op::RandomBits { .. } => "random_bits",
        }
    }
}
