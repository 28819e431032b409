//! A traced function: its nodes, kept, so that a call makes them again without running the function.

use super::rules::App;
use super::tape::{Entry, address, tape};
use crate::array::{Array, Inputs, Spec};
use crate::ops;
use crate::runtime::trace::Tracing;
use oxmlx_types::{Error, Result, Shape};
use rustc_hash::FxHashMap;

/// What a function does to arrays of certain shapes and dtypes.
pub struct Traced {
    arguments: Vec<Array>,
    outputs: Vec<Array>,
    tape: Vec<Entry>,
}

/// Where an operand of a traced node comes from at a call.
impl Traced {
    /// Runs `f` once on stand-ins for arrays like `examples`.
    pub fn trace(f: &mut dyn FnMut(&[Array]) -> Result<Vec<Array>>, examples: &[Array]) -> Result<Traced> {
        let _tracing = Tracing::new();
        let arguments: Vec<Array> = examples.iter().map(|e| Array::placeholder(e.spec().clone())).collect();
        let outputs = f(&arguments)?;
        let tape = tape(&outputs, &arguments);
        Ok(Traced { arguments, outputs, tape })
    }

    /// Shapes and dtypes of the arguments.
    pub fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.arguments.iter().map(Array::spec)
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.tape.len()
    }

    /// Whether the function does nothing but hand arguments and constants on.
    pub fn is_empty(&self) -> bool {
        self.tape.is_empty()
    }

    /// The function's results for `args`. With `shapeless`, shapes are inferred anew.
    pub fn call(&self, args: &[Array], shapeless: bool) -> Result<Vec<Array>> {
        if args.len() != self.arguments.len() {
            let message = format!("Traced with {} arrays, called with {}.", self.arguments.len(), args.len());
            return Err(Error::invalid("compile", message));
        }
        let mut known: FxHashMap<usize, Array> = FxHashMap::default();
        known.reserve(self.tape.len() + args.len());
        for (p, a) in self.arguments.iter().zip(args) {
            known.insert(address(&p.node), a.clone());
        }
        let find = |known: &FxHashMap<usize, Array>, a: &Array| {
            if a.node.traced {
                known.get(&address(&a.node)).cloned().unwrap_or_else(|| a.clone())
            } else {
                a.clone()
            }
        };
        for entry in &self.tape {
            let inputs: Inputs = entry.inputs.iter().map(|i| find(&known, i)).collect();
            let node = &entry.out.node;
            let app = App { op: &node.op, params: &node.params, inputs: &entry.inputs, out: &entry.out };
            let unchanged = inputs.iter().zip(&entry.inputs).all(|(a, b)| a.shape() == b.shape());
            let out = if unchanged || !shapeless { app.reapply(inputs) } else { app.reshaped(inputs)? };
            known.insert(address(node), out);
        }
        Ok(self.outputs.iter().map(|o| find(&known, o)).collect())
    }
}

impl App<'_> {
    /// The same application to operands of other shapes, where the output's shape follows from theirs.
    fn reshaped(&self, inputs: Inputs) -> Result<Array> {
        use crate::primitive::{Op, Primitive, View};
        let shape: Shape = match self.op {
            Primitive::Unary(_) | Primitive::Cast | Primitive::Binary(_) | Primitive::Select => {
                let mut shape = Shape::new();
                for i in &inputs {
                    shape = oxmlx_types::broadcast_shapes(&shape, i.shape())?;
                }
                shape
            }
            Primitive::Reduce(_, axes) => inputs[0]
                .shape()
                .iter()
                .enumerate()
                .map(|(i, &n)| if axes.contains(&(i as u8)) { 1 } else { n })
                .collect(),
            Primitive::View(View::Identity { .. }) | Primitive::Op(Op::Contiguous) => {
                inputs[0].shape().into()
            }
            Primitive::View(View::Transpose(axes)) => {
                axes.iter().map(|&a| inputs[0].shape()[a as usize]).collect()
            }
            // A broadcast to the shape of a traced operand follows its lengths; others stay as written.
            Primitive::View(View::Broadcast) => self.follow(&inputs[0]),
            Primitive::View(View::Reshape) => {
                return ops::reshape(&inputs[0], &self.reshape_target(&inputs[0]));
            }
            Primitive::Op(Op::Matmul) => return ops::matmul(&inputs[0], &inputs[1]),
            Primitive::Op(Op::Concat { axis }) => return ops::concatenate(&inputs, *axis as i64),
            _ => {
                let message =
                    format!("{} cannot infer output shapes when compiled without shapes.", self.op.name());
                return Err(Error::invalid("compile", message));
            }
        };
        let out = self.out.dtype();
        Ok(Array::apply(self.op.clone(), self.params.clone(), shape, out, inputs))
    }

    fn follow(&self, input: &Array) -> Shape {
        let old = &self.inputs[0];
        let lead = self.out.ndim() - old.ndim();
        let length = |i: usize| {
            if i >= lead && old.shape()[i - lead] == self.out.shape()[i] {
                input.shape()[i - lead]
            } else {
                self.out.shape()[i]
            }
        };
        (0..self.out.ndim()).map(length).collect()
    }

    /// The traced target, with the one length free that must change.
    fn reshape_target(&self, input: &Array) -> Vec<i64> {
        let mut target: Vec<i64> = self.out.shape().iter().map(|&n| n as i64).collect();
        if input.size() != self.out.size() {
            let changed: Vec<usize> = (0..target.len()).filter(|&i| target[i] != 1).collect();
            let fits = |i: usize| {
                let rest: usize = (0..target.len()).filter(|&j| j != i).map(|j| target[j] as usize).product();
                rest > 0 && input.size().is_multiple_of(rest)
            };
            if let Some(&i) = changed.iter().find(|&&i| fits(i)) {
                target[i] = -1;
            }
        }
        target
    }
}
