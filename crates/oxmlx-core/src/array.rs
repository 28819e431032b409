//! Arrays and the nodes behind them.
//!
//! An [`Array`] is an output of a [`Node`]; a node is one application of a primitive, or data. Nodes are
//! immutable but for one cell: what they still depend on and whether their contents exist. Evaluation fills
//! the cell and drops the dependencies; nothing else changes it. Making a node is the hot path of every
//! Python call, so it is one allocation and no global state.

use crate::primitive::{Params, Primitive};
use crate::runtime::eval::Run;
use crate::runtime::memory::Buffer;
use crate::runtime::{stats, trace};
use oxmlx_types::{Dtype, Error, Layout, Result, Scalar, Shape, Stream};
use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// An n-dimensional array, evaluated when its contents are needed. Cloning shares it.
#[derive(Clone)]
pub struct Array {
    pub(crate) node: Arc<Node>,
    pub(crate) index: u32,
}

/// Shape and element type of one output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Lengths of the axes.
    pub shape: Shape,
    /// Element type.
    pub dtype: Dtype,
}

/// Contents of one output.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub buffer: Buffer,
    pub layout: Layout,
}

/// Operands of a node.
pub(crate) type Inputs = SmallVec<[Array; 2]>;

/// Whether a node's contents exist.
pub(crate) enum Status {
    /// Not asked for yet.
    Pending,
    /// A run is computing it; the buffers are bound already.
    Claimed(Arc<Run>, Box<[Stored]>),
    /// There.
    Ready(Box<[Stored]>),
    /// A run that could not be undone failed.
    Failed(Box<Error>),
}

pub(crate) struct Cell {
    pub inputs: Inputs,
    pub status: Status,
}

/// One application of a primitive to operands, with its outputs.
pub struct Node {
    pub(crate) op: Primitive,
    pub(crate) params: Params,
    pub(crate) outs: SmallVec<[Spec; 1]>,
    pub(crate) stream: Stream,
    /// Hash of primitive, dtypes and ranks: what this node adds to its Program's key.
    pub(crate) local_hash: u64,
    /// Whether a transform is differentiating or tracing through it.
    pub(crate) traced: bool,
    /// Scratch of the walk that holds the graph lock: (walk number << 32) | dense id.
    pub(crate) mark: AtomicU64,
    pub(crate) cell: Mutex<Cell>,
}

impl Node {
    fn new(op: Primitive, params: Params, outs: SmallVec<[Spec; 1]>, inputs: Inputs, stream: Stream) -> Node {
        let mut h = rustc_hash::FxHasher::default();
        op.hash(&mut h);
        for o in &outs {
            h.write_u32((o.dtype as u32) << 8 | o.shape.len() as u32);
        }
        h.write_u32(params.values.len() as u32);
        Node {
            local_hash: h.finish(),
            traced: trace::is_tracing() && inputs.iter().any(|i| i.node.traced),
            op,
            params,
            outs,
            stream,
            mark: AtomicU64::new(0),
            cell: Mutex::new(Cell { inputs, status: Status::Pending }),
        }
    }
}

impl Node {
    /// Drops the operands of an evaluated node.
    pub(crate) fn let_go(&self) {
        let inputs = {
            let mut cell = self.cell.lock();
            match cell.status {
                Status::Ready(_) => std::mem::take(&mut cell.inputs),
                _ => return,
            }
        };
        drop(inputs);
    }
}

/// Dropping the last array of a long chain must not recurse once a node.
impl Drop for Node {
    fn drop(&mut self) {
        let inputs = std::mem::take(&mut self.cell.get_mut().inputs);
        // Nothing dies with this node if others hold all its operands. `x + x` holds x twice.
        let held = |a: &Array| inputs.iter().filter(|i| Arc::ptr_eq(&i.node, &a.node)).count();
        if inputs.len() <= 4 && inputs.iter().all(|i| Arc::strong_count(&i.node) > held(i)) {
            return;
        }
        let mut stack: Vec<Array> = inputs.into_vec();
        while let Some(array) = stack.pop() {
            if let Some(mut node) = Arc::into_inner(array.node) {
                stack.extend(std::mem::take(&mut node.cell.get_mut().inputs));
            }
        }
    }
}

impl Array {
    /// A pending application with one output.
    pub(crate) fn apply(op: Primitive, params: Params, shape: Shape, dtype: Dtype, inputs: Inputs) -> Array {
        let stream = crate::runtime::stream::current();
        Array::apply_on(stream, op, params, shape, dtype, inputs)
    }

    pub(crate) fn apply_on(
        stream: Stream,
        op: Primitive,
        params: Params,
        shape: Shape,
        dtype: Dtype,
        inputs: Inputs,
    ) -> Array {
        stats::NODES.add(1);
        let node = Node::new(op, params, smallvec![Spec { shape, dtype }], inputs, stream);
        Array { node: Arc::new(node), index: 0 }
    }

    /// A 0-d immediate: known to the host, in no buffer until it is asked for.
    pub fn scalar(value: Scalar) -> Array {
        Array::apply(
            Primitive::Constant,
            Params::values([value.bits]),
            Shape::new(),
            value.dtype,
            Inputs::new(),
        )
    }

    /// A 0-d float immediate.
    pub fn from_f64(value: f64, dtype: Dtype) -> Array {
        Array::scalar(Scalar::from_f64(value, dtype))
    }

    /// An array that owns a filled buffer.
    pub(crate) fn ready(buffer: Buffer, layout: Layout, dtype: Dtype) -> Array {
        let spec = Spec { shape: layout.shape.clone(), dtype };
        let mut node = Node::new(
            Primitive::Data,
            Params::none(),
            smallvec![spec],
            Inputs::new(),
            crate::runtime::stream::current(),
        );
        node.cell.get_mut().status = Status::Ready(Box::new([Stored { buffer, layout }]));
        Array { node: Arc::new(node), index: 0 }
    }

    /// A row-major array from its elements' bytes, which are copied.
    pub fn from_bytes(bytes: &[u8], shape: &[usize], dtype: Dtype) -> Result<Array> {
        let n = checked_size(shape, dtype)?;
        if n != bytes.len() {
            let message = format!("{} bytes do not make an array of {n} bytes.", bytes.len());
            return Err(Error::invalid("array", message));
        }
        let buffer = Buffer::from_bytes(bytes)?;
        Ok(Array::ready(buffer, Layout::contiguous(shape), dtype))
    }

    /// A row-major array whose bytes `fill` writes; the fast path for imports.
    pub fn from_fill(shape: &[usize], dtype: Dtype, fill: impl FnOnce(&mut [u8])) -> Result<Array> {
        let buffer = Buffer::from_fill(checked_size(shape, dtype)?, fill)?;
        Ok(Array::ready(buffer, Layout::contiguous(shape), dtype))
    }

    /// The stand-in for an argument while a function is traced.
    pub(crate) fn placeholder(spec: Spec) -> Array {
        let mut array =
            Array::apply(Primitive::Placeholder, Params::none(), spec.shape, spec.dtype, Inputs::new());
        if let Some(node) = Arc::get_mut(&mut array.node) {
            node.traced = true;
        }
        array
    }

    /// The same array as a variable that gradients can be taken by.
    pub(crate) fn tracer(of: &Array) -> Array {
        let op = Primitive::View(crate::primitive::View::Identity { stop: false });
        let mut array =
            Array::apply(op, Params::none(), of.shape().into(), of.dtype(), smallvec![of.clone()]);
        if let Some(node) = Arc::get_mut(&mut array.node) {
            node.traced = true;
        }
        array
    }

    pub(crate) fn spec(&self) -> &Spec {
        &self.node.outs[self.index as usize]
    }

    /// Lengths of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.spec().shape
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.spec().dtype
    }

    /// Number of axes.
    pub fn ndim(&self) -> usize {
        self.spec().shape.len()
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        self.shape().iter().product()
    }

    /// Bytes of the elements.
    pub fn nbytes(&self) -> usize {
        self.size() * self.dtype().size()
    }

    /// The stream on which it is or was computed.
    pub fn stream(&self) -> Stream {
        self.node.stream
    }

    /// The operands that are still referenced: none once evaluated.
    pub(crate) fn inputs(&self) -> Inputs {
        self.node.cell.lock().inputs.clone()
    }

    /// Whether a transform is going through this array now.
    pub fn is_traced(&self) -> bool {
        self.node.traced && trace::is_tracing()
    }

    /// The value, if the host knows it without waiting or computing: immediates.
    pub fn known_scalar(&self) -> Option<Scalar> {
        match self.node.op {
            Primitive::Constant => Some(Scalar { dtype: self.dtype(), bits: self.node.params.values[0] }),
            _ => None,
        }
    }

    /// Whether the contents exist.
    pub fn is_evaluated(&self) -> bool {
        matches!(self.node.cell.lock().status, Status::Ready(_))
    }

    /// An identity that is stable while the array lives and unique among live arrays.
    pub fn id(&self) -> (usize, u32) {
        (Arc::as_ptr(&self.node) as usize, self.index)
    }

    pub(crate) fn stored(&self) -> Option<Stored> {
        match &self.node.cell.lock().status {
            Status::Ready(s) => Some(s[self.index as usize].clone()),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Array {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Array({:?}, {}, {})", self.shape(), self.dtype(), self.node.op.name())
    }
}

/// Bytes of an array, or an out-of-memory error where no machine could hold it.
pub(crate) fn checked_size(shape: &[usize], dtype: Dtype) -> Result<usize> {
    shape
        .iter()
        .try_fold(dtype.size(), |n, &d| n.checked_mul(d))
        .filter(|&n| n <= isize::MAX as usize)
        .ok_or_else(|| {
            let shape = oxmlx_types::format_shape(shape);
            Error::new(
                oxmlx_types::ErrorKind::OutOfMemory,
                "array",
                format!("An array of shape {shape} and type {dtype} is larger than any memory."),
            )
        })
}
