//! What the planner sees of a Program: plain data, with lengths as symbols.
//!
//! A symbol stands for a length; equal lengths have one symbol, and 1 and 0 have symbols of their own. Two
//! Programs with equal graphs differ only in the lengths that their symbols stand for and in run-time words,
//! and share a plan.

use super::ValueId;
use crate::primitive::Primitive;
use oxmlx_types::Dtype;
use smallvec::SmallVec;

/// A symbolic length.
pub type Sym = u32;
/// The symbol of length 1.
pub const ONE: Sym = 0;
/// The symbol of length 0.
pub const ZERO: Sym = 1;

/// A Program's structure.
#[derive(Debug, PartialEq, Eq, Clone, Default)]
pub struct Graph {
    /// Every array of the Program; a node's operands come before its output.
    pub values: Vec<Value>,
    /// Applications, in an order in which operands are defined before they are used.
    pub nodes: Vec<GraphNode>,
    /// Values that someone outside the Program references.
    pub kept: Vec<ValueId>,
}

/// An array of a Program.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Value {
    /// Its lengths.
    pub shape: SmallVec<[Sym; 4]>,
    /// Its element type.
    pub dtype: Dtype,
    /// Where it comes from.
    pub def: Def,
}

/// Where a value comes from.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Def {
    /// It exists before the run.
    Leaf {
        /// Whether its elements lie in row-major order without gaps.
        contiguous: bool,
    },
    /// It is a word of the parameter block.
    Immediate(u32),
    /// The output of a node.
    Node(u32),
}

/// An application.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct GraphNode {
    /// What is applied.
    pub op: Primitive,
    /// To what.
    pub inputs: SmallVec<[ValueId; 3]>,
    /// Defined value.
    pub out: ValueId,
    /// First run-time word in the parameter block.
    pub params: u32,
    /// Number of run-time words.
    pub n_params: u8,
}

impl Graph {
    /// The lengths of a value.
    pub fn shape(&self, v: ValueId) -> &[Sym] {
        &self.values[v as usize].shape
    }

    /// The node that defines a value, if one does.
    pub fn node_of(&self, v: ValueId) -> Option<(usize, &GraphNode)> {
        match self.values[v as usize].def {
            Def::Node(n) => Some((n as usize, &self.nodes[n as usize])),
            _ => None,
        }
    }

    /// Bytes on the host, for the plan cache's limit.
    pub fn bytes(&self) -> usize {
        self.values.len() * size_of::<Value>() + self.nodes.len() * size_of::<GraphNode>()
    }
}
