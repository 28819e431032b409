//! A Program: the pending nodes behind some outputs, claimed by one eval, with their canonical encoding.
//!
//! The encoding is what two evals must share to share a plan: primitives, dtypes, dense operand ids, symbolic
//! lengths, which leaves are contiguous, which streams, which interiors are kept. Its hash is folded from the
//! nodes' cached local hashes; a plan is taken only if every node compares equal, never on the hash alone.

use crate::array::{Array, Inputs, Node, Status, Stored};
use crate::backend::Event;
use crate::plan::{Def, Graph, GraphNode, ONE, Sym, Value, ValueId, ZERO};
use crate::primitive::Primitive;
use crate::runtime::eval::Run;
use oxmlx_types::{Error, Result, Stream};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Held while pending nodes are claimed, and while finished ones are marked: the only lock over the graph.
static GRAPH: Mutex<()> = Mutex::new(());
static WALKS: AtomicU64 = AtomicU64::new(1);

/// A pending node whose operands have been taken over.
pub(crate) struct Claimed {
    pub node: Arc<Node>,
    pub inputs: Inputs,
    /// Whether the node has its operands still, since a transform may come back to it.
    pub retains: bool,
}

/// A number for a walk: never 0, in 31 bits.
fn next_walk() -> u64 {
    loop {
        let n = WALKS.fetch_add(1, Relaxed) & 0x7fff_ffff;
        if n != 0 {
            return n;
        }
    }
}

/// Marks of a walk that only visits; a walk that numbers values marks with `walk << 32 | id`.
const VISITED: u64 = 1 << 63;

/// What a walk found.
pub(crate) enum Gathered {
    /// Pending nodes, operands first; now claimed by the run.
    Claimed(Vec<Claimed>),
    /// Another run is computing something that is needed; wait for it and walk again.
    Wait(Arc<Run>),
}

struct Frame {
    claimed: Claimed,
    next: usize,
}

/// Claims all pending ancestors of `outputs` for `run`. `ready` says whether a value that another run has
/// bound but not computed may be used (that run comes first on the same stream).
pub(crate) fn gather(outputs: &[Array], run: &Arc<Run>, ready: &dyn Fn(&Run) -> bool) -> Result<Gathered> {
    let _graph = GRAPH.lock();
    let walk = VISITED | next_walk();
    let mut order: Vec<Claimed> = Vec::new();
    let mut stack: Vec<Frame> = Vec::new();
    let outcome = outputs.iter().try_for_each(|o| visit(o, walk, run, ready, &mut order, &mut stack));
    match outcome {
        Ok(()) => Ok(Gathered::Claimed(order)),
        Err(stop) => {
            order.extend(stack.into_iter().map(|f| f.claimed));
            release(order);
            stop
        }
    }
}

/// Puts claimed nodes back as they were; the graph lock is held.
fn release(order: Vec<Claimed>) {
    for c in order {
        let mut cell = c.node.cell.lock();
        if !c.retains {
            cell.inputs = c.inputs;
        }
        cell.status = Status::Pending;
    }
}

/// Puts claimed nodes back as they were.
pub(crate) fn unclaim(order: Vec<Claimed>) {
    let _graph = GRAPH.lock();
    release(order);
}

type Stop = std::result::Result<(), Result<Gathered>>;

/// Depth-first from one array, with an explicit stack: graphs are as deep as user programs are long.
fn visit(
    from: &Array,
    walk: u64,
    run: &Arc<Run>,
    ready: &dyn Fn(&Run) -> bool,
    order: &mut Vec<Claimed>,
    stack: &mut Vec<Frame>,
) -> Stop {
    if let Some(claimed) = claim(&from.node, walk, run, ready)? {
        stack.push(Frame { claimed, next: 0 });
    }
    while let Some(top) = stack.last_mut() {
        if top.next < top.claimed.inputs.len() {
            top.next += 1;
            let child = &top.claimed.inputs[top.next - 1].node;
            if child.mark.load(Relaxed) == walk {
                continue;
            }
            if let Some(claimed) = claim(child, walk, run, ready)? {
                stack.push(Frame { claimed, next: 0 });
            }
        } else if let Some(frame) = stack.pop() {
            order.push(frame.claimed);
        }
    }
    Ok(())
}

fn claim(
    node: &Arc<Node>,
    walk: u64,
    run: &Arc<Run>,
    ready: &dyn Fn(&Run) -> bool,
) -> std::result::Result<Option<Claimed>, Result<Gathered>> {
    node.mark.store(walk, Relaxed);
    match node.op {
        Primitive::Constant | Primitive::Data => return Ok(None),
        Primitive::Placeholder => {
            return Err(Err(Error::invalid(
                "eval",
                "Attempting to eval an array during function transformations like compile or vmap is not allowed.",
            )));
        }
        _ => {}
    }
    let mut cell = node.cell.lock();
    match &cell.status {
        Status::Ready(_) => Ok(None),
        Status::Failed(e) => Err(Err((**e).clone())),
        Status::Claimed(other, _) if Arc::ptr_eq(other, run) => Ok(None),
        Status::Claimed(other, _) if other.is_foreign() => Err(Err(Error::new(
            oxmlx_types::ErrorKind::Backend,
            "eval",
            "The array was being computed by the parent when this process was forked.",
        ))),
        Status::Claimed(other, stored) if !stored.is_empty() && ready(other) => Ok(None),
        Status::Claimed(other, _) => Err(Ok(Gathered::Wait(other.clone()))),
        Status::Pending => {
            let retains = node.traced && crate::runtime::trace::is_any_tracing();
            let inputs = if retains { cell.inputs.clone() } else { std::mem::take(&mut cell.inputs) };
            cell.status = Status::Claimed(run.clone(), Box::new([]));
            Ok(Some(Claimed { node: node.clone(), inputs, retains }))
        }
    }
}

/// Gives the nodes of a run that others reference their contents; the rest dies with its readers.
pub(crate) fn finish(nodes: Vec<Claimed>, contents: Vec<(u32, Stored)>) {
    let mut kept = vec![false; nodes.len()];
    {
        let _graph = GRAPH.lock();
        for (n, stored) in contents {
            let c = &nodes[n as usize];
            c.node.cell.lock().status = Status::Ready(Box::new([stored]));
            if c.retains {
                crate::runtime::trace::retain(&c.node);
            }
            kept[n as usize] = true;
        }
    }
    // Readers first, outside the lock: a node that is held from here alone has its operands still held below, so
    // that nothing is dropped in depth.
    for (n, c) in nodes.into_iter().enumerate().rev() {
        if !kept[n] && Arc::strong_count(&c.node) > 1 {
            // Somebody came by a reference after all: it is left as it was found, to be computed again.
            unclaim(vec![c]);
        }
    }
}

/// Marks the nodes of a run that could not be undone as failed.
pub(crate) fn fail(nodes: Vec<Claimed>, failure: &Error) {
    {
        let _graph = GRAPH.lock();
        for c in &nodes {
            c.node.cell.lock().status = Status::Failed(Box::new(failure.clone()));
        }
    }
    drop(nodes);
}

/// Lets consumers bind to the buffers of a run that is not done yet.
pub(crate) fn publish(node: &Node, run: &Arc<Run>, stored: Stored) {
    node.cell.lock().status = Status::Claimed(run.clone(), Box::new([stored]));
}

/// The numbered form of some claimed nodes.
pub(crate) struct Program {
    pub nodes: Vec<Claimed>,
    pub defs: Vec<Source>,
    pub kept: Vec<ValueId>,
    /// Lengths by symbol.
    pub dims: Vec<usize>,
    /// The parameter block.
    pub params: Vec<u64>,
    /// Where all of it runs.
    pub stream: Stream,
    pub hash: u64,
    /// Per node: the value that it defines.
    pub node_values: Vec<ValueId>,
    /// Per node: end of its operands in `operands`.
    operand_ends: Vec<u32>,
    operands: Vec<ValueId>,
    node_params: Vec<u32>,
    /// Symbols of all values' lengths, one after the other, and each value's end.
    syms: Vec<Sym>,
    sym_ends: Vec<u32>,
    /// Per leaf value: how often the Program's nodes reference its node.
    pub leaf_uses: Vec<(ValueId, u32)>,
    /// Events of runs on the same stream, earlier, that compute some of the leaves.
    pub producers: Vec<Arc<dyn Event>>,
}

/// Where a value comes from, with its contents.
pub(crate) enum Source {
    Leaf { stored: Stored, dtype: oxmlx_types::Dtype },
    Immediate(u32, oxmlx_types::Dtype),
    Node(u32),
}

#[inline]
fn fold(hash: &mut u64, word: u64) {
    *hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
}

/// Finds the symbol of a length; small tables are searched, a direct-mapped memo answers most calls.
struct Symbols {
    memo: [(usize, Sym); 32],
}

impl Symbols {
    fn of(&mut self, dims: &mut Vec<usize>, length: usize) -> Sym {
        let slot = &mut self.memo[length & 31];
        if slot.0 == length && slot.1 != Sym::MAX {
            return slot.1;
        }
        let sym = dims.iter().position(|&d| d == length).unwrap_or_else(|| {
            dims.push(length);
            dims.len() - 1
        }) as Sym;
        *slot = (length, sym);
        sym
    }
}

impl Program {
    /// Numbers the values of claimed nodes, all of one stream, and encodes them. The nodes' order is kept.
    ///
    /// # Errors
    /// A failed operand; the nodes are handed back.
    pub fn encode(claimed: Vec<Claimed>) -> std::result::Result<Program, (Error, Vec<Claimed>)> {
        // Marks are shared scratch: no other walk may run until every operand has its number.
        let _graph = GRAPH.lock();
        let n = claimed.len();
        let stream = claimed.first().map_or_else(crate::runtime::stream::current, |c| c.node.stream);
        let walk = next_walk();
        let mut p = Program {
            nodes: claimed,
            defs: Vec::with_capacity(2 * n),
            kept: Vec::new(),
            dims: vec![1, 0],
            params: Vec::with_capacity(n),
            stream,
            hash: stream.device.index as u64 | (stream.device.kind as u64) << 32,
            node_values: Vec::with_capacity(n),
            operand_ends: Vec::with_capacity(n),
            operands: Vec::with_capacity(2 * n),
            node_params: Vec::with_capacity(n),
            syms: Vec::with_capacity(6 * n),
            sym_ends: Vec::with_capacity(2 * n),
            leaf_uses: Vec::new(),
            producers: Vec::new(),
        };
        debug_assert!(p.dims[ONE as usize] == 1 && p.dims[ZERO as usize] == 0);
        let mut symbols = Symbols { memo: [(0, Sym::MAX); 32] };
        let mut uses: Vec<u32> = Vec::with_capacity(2 * n);
        let nodes = std::mem::take(&mut p.nodes);
        for (i, c) in nodes.iter().enumerate() {
            if let Err(e) = p.encode_node(i, c, walk, &mut symbols, &mut uses) {
                return Err((e, nodes));
            }
        }
        for (i, c) in nodes.iter().enumerate() {
            let v = p.node_values[i];
            // One reference is this Program's; the rest of the inside ones were counted. A transform may
            // come back to what it traced.
            if Arc::strong_count(&c.node) > 1 + uses[v as usize] as usize || c.retains {
                p.kept.push(v);
                fold(&mut p.hash, v as u64);
            }
        }
        for (v, def) in p.defs.iter().enumerate() {
            if matches!(def, Source::Leaf { .. }) {
                p.leaf_uses.push((v as ValueId, uses[v]));
            }
        }
        p.nodes = nodes;
        Ok(p)
    }

    fn encode_node(
        &mut self,
        i: usize,
        c: &Claimed,
        walk: u64,
        syms: &mut Symbols,
        uses: &mut Vec<u32>,
    ) -> Result<()> {
        let mut h = self.hash;
        fold(&mut h, c.node.local_hash);
        for input in &c.inputs {
            let mark = input.node.mark.load(Relaxed);
            let v = if mark >> 32 == walk {
                (mark & 0xffff_ffff) as ValueId
            } else {
                let v = self.encode_leaf(input, syms, &mut h)?;
                uses.push(0);
                input.node.mark.store(walk << 32 | v as u64, Relaxed);
                v
            };
            // An operand that the node retains is referenced twice from inside.
            uses[v as usize] += 1 + u32::from(c.retains);
            self.operands.push(v);
            fold(&mut h, v as u64);
        }
        self.operand_ends.push(self.operands.len() as u32);
        let spec = &c.node.outs[0];
        let v = self.push_value(&spec.shape, syms, &mut h);
        self.defs.push(Source::Node(i as u32));
        uses.push(0);
        c.node.mark.store(walk << 32 | v as u64, Relaxed);
        self.node_values.push(v);
        self.node_params.push(self.params.len() as u32);
        self.params.extend_from_slice(&c.node.params.values);
        self.hash = h;
        Ok(())
    }

    fn push_value(&mut self, shape: &[usize], syms: &mut Symbols, h: &mut u64) -> ValueId {
        for &d in shape {
            let sym = syms.of(&mut self.dims, d);
            self.syms.push(sym);
            fold(h, sym as u64);
        }
        self.sym_ends.push(self.syms.len() as u32);
        self.sym_ends.len() as ValueId - 1
    }

    fn encode_leaf(&mut self, input: &Array, syms: &mut Symbols, h: &mut u64) -> Result<ValueId> {
        let v = self.push_value(input.shape(), syms, h);
        let def = if input.node.op == Primitive::Constant {
            self.params.push(input.node.params.values[0]);
            fold(h, 1 << 16 | input.dtype() as u64);
            Source::Immediate(self.params.len() as u32 - 1, input.dtype())
        } else {
            let cell = input.node.cell.lock();
            let stored = match &cell.status {
                Status::Ready(s) => s[input.index as usize].clone(),
                Status::Claimed(run, s) if !s.is_empty() => {
                    let event: Arc<dyn Event> = run.clone();
                    if !self.producers.iter().any(|p| std::ptr::addr_eq(Arc::as_ptr(p), Arc::as_ptr(&event)))
                    {
                        self.producers.push(event);
                    }
                    s[input.index as usize].clone()
                }
                Status::Failed(e) => return Err((**e).clone()),
                _ => return Err(Error::invalid("eval", "Attempting to eval an array without a primitive.")),
            };
            fold(h, 2 << 16 | (stored.layout.is_contiguous() as u64) << 8 | input.dtype() as u64);
            Source::Leaf { stored, dtype: input.dtype() }
        };
        self.defs.push(def);
        Ok(v)
    }

    pub fn operands(&self, node: usize) -> &[ValueId] {
        let begin = if node == 0 { 0 } else { self.operand_ends[node - 1] as usize };
        &self.operands[begin..self.operand_ends[node] as usize]
    }

    fn symbols(&self, v: usize) -> &[Sym] {
        let begin = if v == 0 { 0 } else { self.sym_ends[v - 1] as usize };
        &self.syms[begin..self.sym_ends[v] as usize]
    }

    /// Whether a stored graph is exactly this Program's structure.
    pub fn matches(&self, graph: &Graph) -> bool {
        graph.nodes.len() == self.nodes.len()
            && graph.values.len() == self.defs.len()
            && graph.kept == self.kept
            && graph.nodes.iter().enumerate().all(|(i, g)| {
                let node = &self.nodes[i].node;
                g.op == node.op
                    && g.out == self.node_values[i]
                    && g.params == self.node_params[i]
                    && g.n_params as usize == node.params.values.len()
                    && g.inputs.as_slice() == self.operands(i)
            })
            && graph.values.iter().enumerate().all(|(v, g)| {
                g.shape.as_slice() == self.symbols(v) && g.dtype == self.dtype(v) && g.def == self.def(v)
            })
    }

    fn dtype(&self, v: usize) -> oxmlx_types::Dtype {
        match &self.defs[v] {
            Source::Node(i) => self.nodes[*i as usize].node.outs[0].dtype,
            Source::Leaf { dtype, .. } => *dtype,
            Source::Immediate(_, dtype) => *dtype,
        }
    }

    fn def(&self, v: usize) -> Def {
        match &self.defs[v] {
            Source::Node(i) => Def::Node(*i),
            Source::Leaf { stored, .. } => Def::Leaf { contiguous: stored.layout.is_contiguous() },
            Source::Immediate(p, _) => Def::Immediate(*p),
        }
    }

    /// The structure as the planner's input.
    pub fn graph(&self) -> Graph {
        let values = (0..self.defs.len()).map(|v| Value {
            shape: self.symbols(v).into(),
            dtype: self.dtype(v),
            def: self.def(v),
        });
        let nodes = self.nodes.iter().enumerate().map(|(i, c)| GraphNode {
            op: c.node.op.clone(),
            inputs: self.operands(i).into(),
            out: self.node_values[i],
            params: self.node_params[i],
            n_params: c.node.params.values.len() as u8,
        });
        Graph { values: values.collect(), nodes: nodes.collect(), kept: self.kept.clone() }
    }

    /// Whether a leaf's buffer may become an output's: same size, and referenced by this Program alone.
    pub fn may_donate(&self, leaf: ValueId, out: ValueId) -> bool {
        let Source::Leaf { stored, dtype, .. } = &self.defs[leaf as usize] else { return false };
        let uses = self.leaf_uses.binary_search_by_key(&leaf, |l| l.0).map_or(0, |at| self.leaf_uses[at].1);
        let Source::Node(n) = self.defs[out as usize] else { return false };
        let bytes =
            self.shape(out).iter().product::<usize>() * self.nodes[n as usize].node.outs[0].dtype.size();
        let owner = self.nodes.iter().flat_map(|c| &c.inputs).zip(&self.operands).find(|(_, v)| **v == leaf);
        stored.buffer.is_private()
            && stored.buffer.may_become_result_of(self.stream)
            && stored.layout.offset == 0
            && stored.buffer.len() == bytes
            && stored.layout.size() * dtype.size() == bytes
            // One owner is the node that the leaf belongs to, one this Program.
            && stored.buffer.owners() == 2
            && owner.is_some_and(|(a, _)| Arc::strong_count(&a.node) == uses as usize)
    }

    /// The shape of a value in this run.
    pub fn shape(&self, v: ValueId) -> SmallVec<[usize; 4]> {
        self.symbols(v as usize).iter().map(|&s| self.dims[s as usize]).collect()
    }
}
