//! Graphs by hand: the planner's input with shapes as numbers, so that tests read like programs.

use oxmlx_core::ops::{BinaryOp, UnaryOp};
use oxmlx_core::plan::{Def, Graph, GraphNode, Step, Sym, Value, ValueId};
use oxmlx_core::primitive::{Op, Primitive, ReduceOp, View};
use oxmlx_types::{Dtype, broadcast_shapes};

/// A graph that grows, with the lengths behind its symbols and its run-time words.
#[derive(Clone, Debug)]
pub struct Graphs {
    pub graph: Graph,
    pub dims: Vec<usize>,
    pub words: Vec<u64>,
}

impl Graphs {
    pub fn new() -> Graphs {
        Graphs { graph: Graph::default(), dims: vec![1, 0], words: Vec::new() }
    }

    fn sym(&mut self, length: usize) -> Sym {
        let found = self.dims.iter().position(|&d| d == length);
        found.unwrap_or_else(|| {
            self.dims.push(length);
            self.dims.len() - 1
        }) as Sym
    }

    fn value(&mut self, shape: &[usize], dtype: Dtype, def: Def) -> ValueId {
        let shape = shape.iter().map(|&d| self.sym(d)).collect();
        self.graph.values.push(Value { shape, dtype, def });
        self.graph.values.len() as ValueId - 1
    }

    pub fn shape(&self, v: ValueId) -> Vec<usize> {
        self.graph.shape(v).iter().map(|&s| self.dims[s as usize]).collect()
    }

    pub fn dtype(&self, v: ValueId) -> Dtype {
        self.graph.values[v as usize].dtype
    }

    pub fn leaf(&mut self, shape: &[usize]) -> ValueId {
        self.value(shape, Dtype::Float32, Def::Leaf { contiguous: true })
    }

    pub fn strided_leaf(&mut self, shape: &[usize]) -> ValueId {
        self.value(shape, Dtype::Float32, Def::Leaf { contiguous: false })
    }

    pub fn immediate(&mut self, value: f32) -> ValueId {
        self.words.push(value.to_bits() as u64);
        let word = self.words.len() as u32 - 1;
        self.value(&[], Dtype::Float32, Def::Immediate(word))
    }

    /// Any application; `words` are its run-time words.
    pub fn node(
        &mut self,
        op: Primitive,
        inputs: &[ValueId],
        shape: &[usize],
        dtype: Dtype,
        words: &[u64],
    ) -> ValueId {
        let node = self.graph.nodes.len() as u32;
        let out = self.value(shape, dtype, Def::Node(node));
        let params = self.words.len() as u32;
        self.words.extend_from_slice(words);
        let n_params = words.len() as u8;
        self.graph.nodes.push(GraphNode { op, inputs: inputs.into(), out, params, n_params });
        out
    }

    fn like(&mut self, op: Primitive, inputs: &[ValueId], shape: &[usize]) -> ValueId {
        let dtype = self.dtype(inputs[0]);
        self.node(op, inputs, shape, dtype, &[])
    }

    pub fn unary(&mut self, op: UnaryOp, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        self.like(Primitive::Unary(op), &[x], &shape)
    }

    pub fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
        let shape = broadcast_shapes(&self.shape(a), &self.shape(b)).unwrap();
        self.like(Primitive::Binary(op), &[a, b], &shape)
    }

    pub fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(BinaryOp::Add, a, b)
    }

    pub fn sub(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(BinaryOp::Subtract, a, b)
    }

    pub fn mul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(BinaryOp::Multiply, a, b)
    }

    pub fn exp(&mut self, x: ValueId) -> ValueId {
        self.unary(UnaryOp::Exp, x)
    }

    pub fn cast(&mut self, x: ValueId, dtype: Dtype) -> ValueId {
        let shape = self.shape(x);
        self.node(Primitive::Cast, &[x], &shape, dtype, &[])
    }

    /// A reduction; the axes stay with length 1.
    pub fn reduce(&mut self, op: ReduceOp, x: ValueId, axes: &[u8]) -> ValueId {
        let mut shape = self.shape(x);
        axes.iter().for_each(|&a| shape[a as usize] = 1);
        self.like(Primitive::Reduce(op, axes.into()), &[x], &shape)
    }

    pub fn sum(&mut self, x: ValueId, axes: &[u8]) -> ValueId {
        self.reduce(ReduceOp::Sum, x, axes)
    }

    pub fn reshape(&mut self, x: ValueId, shape: &[usize]) -> ValueId {
        self.like(Primitive::View(View::Reshape), &[x], shape)
    }

    pub fn broadcast(&mut self, x: ValueId, shape: &[usize]) -> ValueId {
        self.like(Primitive::View(View::Broadcast), &[x], shape)
    }

    pub fn transpose(&mut self, x: ValueId, axes: &[u8]) -> ValueId {
        let from = self.shape(x);
        let shape: Vec<usize> = axes.iter().map(|&a| from[a as usize]).collect();
        self.like(Primitive::View(View::Transpose(axes.into())), &[x], &shape)
    }

    /// `steps` are positive here.
    pub fn slice(&mut self, x: ValueId, start: &[u64], shape: &[usize], steps: &[i32]) -> ValueId {
        let dtype = self.dtype(x);
        self.node(Primitive::View(View::Slice(steps.into())), &[x], shape, dtype, start)
    }

    pub fn matmul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let (x, y) = (self.shape(a), self.shape(b));
        self.like(Primitive::Op(Op::Matmul), &[a, b], &[x[0], y[1]])
    }

    pub fn keep(&mut self, v: ValueId) {
        self.graph.kept.push(v);
    }

    /// `exp(x - max) / sum` along the last axis, as the engine writes it.
    pub fn softmax(&mut self, x: ValueId) -> ValueId {
        let last = self.shape(x).len() as u8 - 1;
        let top = self.reduce(ReduceOp::Max, x, &[last]);
        let top = self.like(Primitive::View(View::Identity { stop: true }), &[top], &self.shape(top));
        let shifted = self.sub(x, top);
        let e = self.exp(shifted);
        let total = self.sum(e, &[last]);
        self.binary(BinaryOp::Divide, e, total)
    }
}

/// The kind of each step, for asserting on a plan at a glance.
pub fn kinds(steps: &[Step]) -> Vec<&'static str> {
    let kind = |s: &Step| match s {
        Step::Group(g) if g.row_axes > 0 => "rows",
        Step::Group(_) => "points",
        Step::Reduce { .. } => "reduce",
        Step::Op { op: Op::Contiguous, .. } => "copy",
        Step::Op { .. } => "op",
    };
    steps.iter().map(kind).collect()
}
