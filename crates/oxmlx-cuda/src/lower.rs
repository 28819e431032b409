//! A plan on a GPU: encoded when its layouts are new, bound by filling in words, and launched kernel by kernel the
//! first time, as a graph from then on.
//!
//! The parameter block of a run is one array of words in device memory: the Program's run-time words, the record of
//! the signal, the records of all kernels, and small leaves that are on the host only. It is written by the run's
//! first kernel, whose arguments are the words; so a graph is used again whatever has changed in them.

use crate::clock::RunEvent;
use crate::device::{Gpu, StreamState, WORKSPACE, WORKSPACES};
use crate::driver::{Function, GraphHandle, NodeHandle};
use crate::fused::{self, FusedKernel};
use crate::order::Uses;
use crate::record::{Call, Encoding, Gemm, Grid, Kernel, Operand, Word};
use crate::{block, many, order, structured};
use oxmlx_core::backend::{Bindings, Event, Executable};
use oxmlx_core::plan::{Home, Plan, Step, ValueId};
use oxmlx_core::primitive::Op;
use oxmlx_core::runtime::{profile, stats};
use oxmlx_types::{Result, Stream};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// Encodings that a plan keeps on one stream, for different layouts.
const MAX_RECIPES: usize = 8;
/// Graphs that a plan keeps on one stream.
const MAX_GRAPHS: usize = 8;
/// Graphs of one encoding, which differ in the addresses that the matrix library's kernels were given.
const MAX_VARIANTS: usize = 4;

/// Where a value's elements are, behind all views.
#[derive(Clone, Copy, Debug)]
enum Root {
    /// In this value's buffer.
    Value(ValueId),
    /// In the parameter block.
    Param(u32),
    /// Nowhere: only its shape counts.
    Nowhere,
}

/// A lowered plan.
pub(crate) struct Lowered {
    gpu: Arc<Gpu>,
    plan: Arc<Plan>,
    /// Per step: the group's kernel, if it is one.
    fused: Vec<Option<FusedKernel>>,
    roots: Vec<Root>,
    /// Values whose layouts an encoding depends on.
    seen: Vec<ValueId>,
    /// Operand and result of steps that can work in place.
    in_place: Vec<(ValueId, ValueId)>,
    /// Steps that may be one launch.
    runs: Vec<Range<usize>>,
    /// Values in the arena: where they lie decides what may run side by side.
    placed: Vec<ValueId>,
    /// Words of the Program in the parameter block.
    instances: Mutex<Vec<(usize, Arc<Mutex<Instance>>)>>,
    what: Arc<dyn Fn() -> String + Send + Sync>,
}

/// A call whose kernel is loaded.
#[derive(Clone, PartialEq, Debug)]
enum Loaded {
    Kernel(Function, Grid, u32),
    Gemm(Gemm, u32),
}

/// Calls that belong to the same steps.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Part {
    steps: Range<usize>,
    calls: Range<usize>,
    /// Whether they use scratch memory.
    scratch: bool,
}

/// An encoding for certain layouts.
struct Recipe {
    key: Vec<u64>,
    calls: Arc<Vec<Loaded>>,
    parts: Vec<Part>,
    words: Vec<Word>,
    scratch: u64,
    runs: u64,
    used: u64,
}

struct Graph {
    calls: Arc<Vec<Loaded>>,
    /// Where intermediates lie: which steps have to wait for which depends on it.
    placed: Vec<u64>,
    /// Which `put` kernel, and how many.
    puts: (usize, usize),
    /// Addresses in the matrix products.
    addresses: Vec<u64>,
    handle: GraphHandle,
    used: u64,
}

/// What a lowered plan has on one stream.
#[derive(Default)]
struct Instance {
    /// The parameter block: address and bytes.
    block: (u64, usize),
    recipes: Vec<Recipe>,
    graphs: Vec<Graph>,
    clock: u64,
    /// Scratch of `run`, kept to spare allocations.
    key: Vec<u64>,
    words: Vec<u64>,
}

impl Lowered {
    pub fn new(gpu: Arc<Gpu>, plan: &Arc<Plan>) -> Result<Lowered> {
        let lower = |s: &Step| match s {
            Step::Group(g) => fused::lower(g).map(Some),
            Step::Op { .. } | Step::Reduce { .. } => Ok(None),
        };
        let fused = plan.steps.iter().map(lower).collect::<Result<_>>()?;
        let mut seen: Vec<ValueId> = Vec::new();
        let mut in_place = Vec::new();
        for step in &plan.steps {
            seen.extend(step.inputs());
            seen.extend(step.outputs());
            match step {
                Step::Group(g) => seen.push(g.domain),
                Step::Op {
                    op: Op::SliceUpdate { .. } | Op::Scatter { .. } | Op::ScatterAxis { .. },
                    inputs,
                    out,
                    ..
                } => in_place.push((inputs[0], *out)),
                _ => {}
            }
        }
        seen.sort_unstable();
        seen.dedup();
        let described = plan.clone();
        let roots: Vec<Root> = (0..plan.homes.len()).map(|v| root(plan, v as ValueId)).collect();
        let of = |v: ValueId| match roots[v as usize] {
            Root::Value(r) => Some(r),
            Root::Param(_) | Root::Nowhere => None,
        };
        let runs = many::runs(plan, &of);
        let in_arena = |v: &ValueId| matches!(plan.homes[*v as usize], Home::Arena(_));
        let placed = (0..plan.homes.len() as ValueId).filter(in_arena).collect();
        Ok(Lowered {
            gpu,
            plan: plan.clone(),
            fused,
            roots,
            seen,
            in_place,
            runs,
            placed,
            instances: Mutex::default(),
            what: Arc::new(move || described.summary()),
        })
    }

    fn instance(&self, state: &StreamState) -> Arc<Mutex<Instance>> {
        let mut all = self.instances.lock();
        match all.iter().find(|i| i.0 == state.handle.0) {
            Some(found) => found.1.clone(),
            None => {
                all.push((state.handle.0, Arc::default()));
                all[all.len() - 1].1.clone()
            }
        }
    }

    /// Hands one run to the stream, which the caller holds.
    pub fn run(
        &self,
        state: &Arc<StreamState>,
        _stream: Stream,
        bindings: &Bindings<'_>,
    ) -> Result<Arc<dyn Event>> {
        let instance = self.instance(state);
        let mut instance = instance.lock();
        let number = state.clock.next();
        let run = Run { lowered: self, state, bindings, number, block: 0, inline: SmallVec::new() };
        run.go(&mut instance)?;
        Ok(Arc::new(RunEvent {
            gpu: self.gpu.clone(),
            clock: state.clock.clone(),
            number,
            what: self.what.clone(),
        }))
    }
}

impl Executable for Lowered {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn bytes(&self) -> usize {
        let fused: usize = self.fused.iter().flatten().map(FusedKernel::bytes).sum();
        // A graph's node takes about 1 KiB of host memory; words and keys are small beside that.
        fused + self.plan.steps.len() * 2048 + self.roots.len() * 64
    }
}

impl Drop for Lowered {
    fn drop(&mut self) {
        if self.gpu.shared().is_err() {
            return;
        }
        for (stream, instance) in std::mem::take(self.instances.get_mut()) {
            let mut instance = instance.lock();
            for graph in instance.graphs.drain(..) {
                self.gpu.driver().destroy_graph(graph.handle);
            }
            if instance.block.0 != 0 {
                self.gpu.driver().free(instance.block.0, crate::driver::StreamHandle(stream));
            }
        }
    }
}

fn root(plan: &Plan, mut v: ValueId) -> Root {
    loop {
        match plan.homes[v as usize] {
            Home::ViewOf(of) | Home::Same(of) => v = of,
            Home::Param(word) => return Root::Param(word),
            Home::Nowhere => return Root::Nowhere,
            Home::Leaf | Home::Arena(_) | Home::Owned(_) => return Root::Value(v),
        }
    }
}

/// One run on its way.
struct Run<'a> {
    lowered: &'a Lowered,
    state: &'a Arc<StreamState>,
    bindings: &'a Bindings<'a>,
    number: u64,
    /// Address of the parameter block.
    block: u64,
    /// Leaves in the parameter block, with their words' offset from its begin in bytes.
    inline: SmallVec<[(ValueId, u64); 8]>,
}

/// Words of the signal's record.
const SIGNAL: usize = 16;

impl Run<'_> {
    fn go(mut self, instance: &mut Instance) -> Result<()> {
        instance.clock += 1;
        self.key(&mut instance.key);
        let now = instance.clock;
        let at = match instance.recipes.iter().position(|r| r.key == instance.key) {
            Some(at) => at,
            None => self.encode(instance)?,
        };
        let recipe = &mut instance.recipes[at];
        recipe.used = now;
        recipe.runs += 1;
        let total = self.place(recipe.words.len());
        self.make_room(instance, total)?;
        let Instance { recipes, words, .. } = instance;
        let recipe = &recipes[at];
        self.fill(recipe, total, words)?;
        self.hand_over(instance, at, total)
    }

    /// First word of the kernels' records.
    fn records(&self) -> usize {
        self.bindings.params.len() + SIGNAL
    }

    /// Gives the small leaves their places; words in all.
    fn place(&mut self, records: usize) -> usize {
        let mut at = (self.records() + records).next_multiple_of(2);
        for &(v, bytes) in self.bindings.inline {
            self.inline.push((v, 8 * at as u64));
            at += bytes.len().div_ceil(8).next_multiple_of(2);
        }
        at
    }

    /// Everything that an encoding depends on.
    fn key(&self, key: &mut Vec<u64>) {
        key.clear();
        for &v in &self.lowered.seen {
            let layout = &self.bindings.values[v as usize].layout;
            key.push(layout.shape.len() as u64 | u64::from(self.alignment(v)) << 32);
            key.extend(layout.shape.iter().map(|&d| d as u64));
            key.extend(layout.strides.iter().map(|&s| s as u64));
        }
        for &(a, b) in &self.lowered.in_place {
            key.push(u64::from(self.base(a) == self.base(b)));
        }
        key.extend(self.placed());
    }

    /// Where intermediates lie, seen from the first of them.
    fn placed(&self) -> impl Iterator<Item = u64> + '_ {
        let first = self.lowered.placed.first().map_or(0, |&v| self.base(v));
        self.lowered.placed.iter().map(move |&v| self.base(v).wrapping_sub(first) as u64)
    }

    /// Adds the launches of one step.
    fn encode_step(&self, i: usize, e: &mut Encoding) -> Result<()> {
        e.next_step();
        match (&self.lowered.plan.steps[i], &self.lowered.fused[i]) {
            (Step::Group(_), Some(kernel)) => kernel.encode(&|v| self.operand(v), e),
            (Step::Group(_), None) => Ok(()),
            (Step::Op { op, inputs, out, params }, _) => {
                let operands: SmallVec<[Operand<'_>; 4]> = inputs.iter().map(|&v| self.operand(v)).collect();
                structured::encode(op, &operands, &self.operand(*out), *params, e)
            }
            (Step::Reduce { op, axes, input, out }, _) => {
                structured::reduce(*op, axes, &self.operand(*input), &self.operand(*out), e)
            }
        }
    }

    /// Bytes that a value takes from where its buffer begins.
    fn range(&self, v: ValueId) -> Range<usize> {
        let size: usize = self.bindings.values[v as usize].layout.size();
        let base = self.base(v);
        base..base + size * self.lowered.plan.dtypes[v as usize].size()
    }

    /// How many steps from `begin` on, of a run, write no memory that another one of them uses.
    fn apart(&self, run: Range<usize>) -> usize {
        let of = |v: ValueId| match self.lowered.roots[v as usize] {
            Root::Value(r) => Some(r),
            Root::Param(_) | Root::Nowhere => None,
        };
        let (mut reads, mut writes): (Vec<Range<usize>>, Vec<Range<usize>>) = (Vec::new(), Vec::new());
        let meets =
            |all: &[Range<usize>], r: &Range<usize>| all.iter().any(|o| o.start < r.end && r.start < o.end);
        for i in run.clone() {
            let sides = many::in_arena(&self.lowered.plan, &self.lowered.plan.steps[i], &of);
            let [inputs, outputs] = sides.map(|s| s.into_iter().map(|v| self.range(v)).collect::<Vec<_>>());
            let clash = inputs.iter().any(|r| meets(&writes, r))
                || outputs.iter().any(|r| meets(&writes, r) || meets(&reads, r));
            if clash {
                return i - run.start;
            }
            reads.extend(inputs);
            writes.extend(outputs);
        }
        run.len()
    }

    fn base(&self, v: ValueId) -> usize {
        match self.lowered.roots[v as usize] {
            Root::Value(r) => self.bindings.values[r as usize].base.0,
            Root::Param(_) | Root::Nowhere => 0,
        }
    }

    /// Bytes of a value's offset in its buffer.
    fn offset(&self, v: ValueId) -> u64 {
        let size = self.lowered.plan.dtypes[v as usize].size();
        (self.bindings.values[v as usize].layout.offset * size) as u64
    }

    /// The largest power of two, 16 at most, that divides the address of a value's first element. What is in the
    /// parameter block lies at multiples of 16, immediates at multiples of 8.
    fn alignment(&self, v: ValueId) -> u32 {
        let address = match self.lowered.roots[v as usize] {
            Root::Value(r) => self.bindings.values[r as usize].base.0 as u64 + self.offset(v),
            Root::Param(_) => 8,
            Root::Nowhere => 0,
        };
        1 << address.trailing_zeros().min(4)
    }

    fn operand(&self, v: ValueId) -> Operand<'_> {
        Operand {
            value: v,
            dtype: self.lowered.plan.dtypes[v as usize],
            layout: &self.bindings.values[v as usize].layout,
            alignment: self.alignment(v),
            base: self.base(v),
        }
    }

    /// Adds a recipe for the layouts of this run.
    fn encode(&self, instance: &mut Instance) -> Result<usize> {
        stats::ENCODINGS.add(1);
        let _span = profile::span("host", "encode").number("steps", self.lowered.plan.steps.len());
        let mut e = Encoding::default();
        let mut parts = Vec::new();
        let mut i = 0;
        while i < self.lowered.plan.steps.len() {
            let run = self.lowered.runs.iter().find(|r| r.contains(&i)).map_or(i..i + 1, |r| i..r.end);
            let count = if run.len() > 1 { self.apart(run) } else { 1 };
            let first = e.calls.len();
            let scratch = std::mem::take(&mut e.scratch);
            if count > 1 {
                let mut all = Vec::with_capacity(count);
                for step in i..i + count {
                    let mut part = Encoding::default();
                    self.encode_step(step, &mut part)?;
                    all.push(part);
                }
                many::append(all, &mut e);
            } else {
                self.encode_step(i, &mut e)?;
            }
            let steps = i..i + count.max(1);
            i = steps.end;
            parts.push(Part { steps, calls: first..e.calls.len(), scratch: e.scratch > 0 });
            e.scratch = e.scratch.max(scratch);
        }
        let calls = self.load(&e.calls)?;
        // Other lengths may make the very same launches: then it is their next run.
        let (calls, runs) = match instance.recipes.iter().filter(|r| *r.calls == calls).max_by_key(|r| r.runs)
        {
            Some(like) => (like.calls.clone(), like.runs),
            None => (Arc::new(calls), 0),
        };
        let key = instance.key.clone();
        let recipe = Recipe { key, calls, parts, words: e.words, scratch: e.scratch, runs, used: 0 };
        if instance.recipes.len() >= MAX_RECIPES
            && let Some(oldest) = (0..instance.recipes.len()).min_by_key(|&i| instance.recipes[i].used)
        {
            instance.recipes.swap_remove(oldest);
        }
        instance.recipes.push(recipe);
        Ok(instance.recipes.len() - 1)
    }

    /// Loads the kernels of all calls, compiling what is new on several threads.
    fn load(&self, calls: &[Call]) -> Result<Vec<Loaded>> {
        let driver = self.lowered.gpu.driver();
        let mut new: Vec<(&Arc<Kernel>, u32)> = Vec::new();
        for call in calls {
            if let Call::Kernel { kernel, grid, .. } = call
                && !driver.is_loaded(kernel)
                && !new.iter().any(|(k, _)| k.name == kernel.name)
            {
                new.push((kernel, grid.shared));
            }
        }
        if new.len() > 1 {
            let next = std::sync::atomic::AtomicUsize::new(0);
            let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(new.len()).min(8);
            // Failures come back below, in order.
            let work = || {
                while let Some((k, s)) = new.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let _ = driver.function(k, *s);
                }
            };
            if block::any_is_generated(new.iter().map(|n| &**n.0)) {
                std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
            }
        }
        let load = |call: &Call| match call {
            Call::Kernel { kernel, grid, record } => {
                block::note(kernel);
                Ok(Loaded::Kernel(driver.function(kernel, grid.shared)?, *grid, *record))
            }
            Call::Gemm { gemm, record } => Ok(Loaded::Gemm(gemm.clone(), *record)),
        };
        calls.iter().map(load).collect()
    }

    /// Sees to it that the parameter block has room; graphs know its address.
    fn make_room(&mut self, instance: &mut Instance, words: usize) -> Result<()> {
        let need = 8 * words;
        if instance.block.1 < need {
            let driver = self.lowered.gpu.driver();
            for graph in instance.graphs.drain(..) {
                driver.destroy_graph(graph.handle);
            }
            if instance.block.0 != 0 {
                driver.free(instance.block.0, self.state.handle);
            }
            instance.block = (0, 0);
            let capacity = need.next_power_of_two().max(1024);
            instance.block = (driver.allocate(capacity, self.state.handle)?, capacity);
        }
        self.block = instance.block.0;
        Ok(())
    }

    /// The address of a value's first element in this run.
    fn address(&self, v: ValueId) -> u64 {
        match self.lowered.roots[v as usize] {
            Root::Param(word) => self.block + 8 * u64::from(word) + self.offset(v),
            Root::Value(r) => {
                let base = self.bindings.values[r as usize].base.0 as u64;
                let base = if base == 0 { self.inlined(r) } else { base };
                base + self.offset(v)
            }
            Root::Nowhere => 0,
        }
    }

    fn inlined(&self, v: ValueId) -> u64 {
        self.inline.iter().find(|i| i.0 == v).map_or(0, |i| self.block + i.1)
    }

    /// Writes the words of this run.
    fn fill(&self, recipe: &Recipe, total: usize, words: &mut Vec<u64>) -> Result<()> {
        let scratch = match recipe.scratch {
            0 => 0,
            bytes => self.state.scratch(self.lowered.gpu.driver(), bytes as usize)?,
        };
        words.clear();
        words.extend_from_slice(self.bindings.params);
        words.push(self.state.clock.flag());
        words.push(self.number);
        words.push(self.bindings.mirrors.len() as u64);
        for &(v, to) in self.bindings.mirrors {
            let layout = &self.bindings.values[v as usize].layout;
            let bytes = layout.size() * self.lowered.plan.dtypes[v as usize].size();
            words.extend_from_slice(&[to.0 as u64, self.address(v), bytes as u64]);
        }
        words.resize(self.records(), 0);
        words.extend(recipe.words.iter().map(|w| match *w {
            Word::Const(c) => c,
            Word::Address { value, bytes } => self.address(value) + bytes,
            Word::Scratch(at) => scratch + at,
            Word::Param(p) => self.bindings.params.get(p as usize).copied().unwrap_or(0),
        }));
        words.resize(total, 0);
        for (&(_, at), (_, bytes)) in self.inline.iter().zip(self.bindings.inline) {
            for (word, part) in words[at as usize / 8..].iter_mut().zip(bytes.chunks(8)) {
                let mut whole = [0u8; 8];
                whole[..part.len()].copy_from_slice(part);
                *word = u64::from_le_bytes(whole);
            }
        }
        // A `put` kernel reads as many words as its arguments hold.
        let unit = block::UNITS[block::unit(total)];
        words.resize(total.next_multiple_of(unit), 0);
        Ok(())
    }

    /// The addresses that the matrix products get.
    fn products(&self, calls: &[Loaded], words: &[u64]) -> Vec<u64> {
        let records = self.records();
        let of = |c: &Loaded| match c {
            Loaded::Gemm(_, record) => Some(*record as usize + records),
            Loaded::Kernel(..) => None,
        };
        calls.iter().filter_map(of).flat_map(|at| words[at..at + 3].iter().copied()).collect()
    }

    fn hand_over(&self, instance: &mut Instance, recipe: usize, total: usize) -> Result<()> {
        let (driver, stream) = (self.lowered.gpu.driver(), self.state.handle);
        let recipe = &instance.recipes[recipe];
        let calls = &recipe.calls;
        let unit = block::unit(total);
        let puts = (unit, total.div_ceil(block::UNITS[unit]));
        let addresses = self.products(calls, &instance.words);
        let same = |g: &Graph| Arc::ptr_eq(&g.calls, calls) || g.calls == *calls;
        let placed = |g: &Graph| self.placed().eq(g.placed.iter().copied());
        let fits = |g: &Graph| g.puts == puts && g.addresses == addresses && same(g) && placed(g);
        let found = instance.graphs.iter().position(fits);
        if let Some(at) = found {
            instance.graphs[at].used = instance.clock;
            stats::GRAPH_LAUNCHES.add(1);
            let _span = profile::span("launch", "launch graph").number("kernels", calls.len());
            return self.launch(&instance.graphs[at], &instance.words, total);
        }
        let variants = instance.graphs.iter().filter(|g| g.puts == puts && same(g)).count();
        if recipe.runs < 2 || variants >= MAX_VARIANTS {
            let _span = profile::span("launch", "launch").number("kernels", calls.len());
            return self.direct(recipe, None, &instance.words, total);
        }
        let _span = profile::span("launch", "capture and launch graph").number("kernels", calls.len());
        // The workspace and the kernels that the capture needs are made before it begins.
        if !addresses.is_empty() {
            self.state.workspace(driver)?;
        }
        let put = block::put(driver, unit)?;
        block::signal(driver)?;
        let waits = order::order(&self.uses(recipe));
        driver.begin_capture(stream)?;
        let launched = self.direct(recipe, Some(&waits), &instance.words, total);
        let captured = driver.end_capture(stream, put);
        launched?;
        let handle = captured?;
        stats::INSTANTIATIONS.add(1);
        if instance.graphs.len() >= MAX_GRAPHS
            && let Some(oldest) = (0..instance.graphs.len()).min_by_key(|&i| instance.graphs[i].used)
        {
            driver.destroy_graph(instance.graphs.swap_remove(oldest).handle);
        }
        let placed = self.placed().collect();
        let calls = calls.clone();
        let graph = Graph { calls, placed, puts, addresses, handle, used: instance.clock };
        instance.graphs.push(graph);
        stats::GRAPH_LAUNCHES.add(1);
        self.launch(&instance.graphs[instance.graphs.len() - 1], &instance.words, total)
    }

    /// What each part of a recipe uses.
    fn uses(&self, recipe: &Recipe) -> Vec<Uses> {
        let plan = &self.lowered.plan;
        let of = |v: ValueId| match self.lowered.roots[v as usize] {
            Root::Value(r) if self.bindings.values[r as usize].base.0 != 0 => Some(r),
            _ => None,
        };
        let mut products = 0;
        let part = |part: &Part| {
            let mut uses = Uses::default();
            for step in &plan.steps[part.steps.clone()] {
                uses.reads.extend(step.inputs().into_iter().filter_map(of).map(|r| self.range(r)));
                for r in step.outputs().into_iter().filter_map(of) {
                    uses.writes.push(self.range(r));
                    // In another run it may take this leaf's buffer.
                    let lent = plan.aliases.iter().filter(|a| a.1 == r).map(|a| self.range(a.0));
                    uses.writes.extend(lent);
                }
            }
            if recipe.calls[part.calls.clone()].iter().any(|c| matches!(c, Loaded::Gemm(..))) {
                uses.shares |= 2 << (products % WORKSPACES);
                products += 1;
            }
            uses.shares |= u32::from(part.scratch);
            uses
        };
        recipe.parts.iter().map(part).collect()
    }

    /// Launches everything one by one; while capturing, so that each part waits for those that it has to only.
    fn direct(
        &self,
        recipe: &Recipe,
        waits: Option<&[Vec<usize>]>,
        words: &[u64],
        total: usize,
    ) -> Result<()> {
        let (driver, stream) = (self.lowered.gpu.driver(), self.state.handle);
        let unit = block::unit(total);
        let put = block::put(driver, unit)?;
        for (i, part) in words[..total].chunks(block::UNITS[unit]).enumerate() {
            let (mut to, mut count) = (self.block + (8 * i * block::UNITS[unit]) as u64, part.len() as u32);
            let mut arguments =
                [(&raw mut to).cast(), part.as_ptr().cast_mut().cast(), (&raw mut count).cast()];
            // SAFETY: the kernel takes an address with room for the words, the words (as many as its unit, which
            // the padded vector has) and a count.
            unsafe { driver.launch(put, &block::put_grid(unit), &mut arguments, stream)? };
        }
        stats::LAUNCHES.add(recipe.calls.len() as u64 + 2);
        let begin = if waits.is_some() { driver.captured(stream)? } else { Vec::new() };
        let mut last: Vec<Vec<NodeHandle>> = Vec::with_capacity(recipe.parts.len());
        let mut ends = vec![true; recipe.parts.len()];
        let mut products = 0;
        for (i, part) in recipe.parts.iter().enumerate() {
            if let Some(waits) = waits {
                let mut nodes: Vec<NodeHandle> = Vec::new();
                for &w in &waits[i] {
                    ends[w] = false;
                    let new: Vec<NodeHandle> =
                        last[w].iter().filter(|n| !nodes.contains(n)).copied().collect();
                    nodes.extend(new);
                }
                driver.capture_after(stream, if nodes.is_empty() { &begin } else { &nodes })?;
            }
            self.launch_calls(&recipe.calls[part.calls.clone()], words, &mut products)?;
            if waits.is_some() {
                last.push(driver.captured(stream)?);
            }
        }
        if waits.is_some() {
            let ending = last.iter().zip(&ends).filter(|l| *l.1);
            let mut all: Vec<NodeHandle> = ending.flat_map(|l| l.0.iter().copied()).collect();
            all.sort_unstable_by_key(|n| n.0);
            all.dedup();
            driver.capture_after(stream, if all.is_empty() { &begin } else { &all })?;
        }
        let mut address = self.block + 8 * self.bindings.params.len() as u64;
        let signal = block::signal(driver)?;
        // SAFETY: as for the other kernels.
        unsafe { driver.launch(signal, &block::ONE, &mut [(&raw mut address).cast()], stream) }
    }

    /// Launches the calls of one part; `products` counts the parts that have matrix products.
    fn launch_calls(&self, calls: &[Loaded], words: &[u64], products: &mut usize) -> Result<()> {
        let (driver, stream) = (self.lowered.gpu.driver(), self.state.handle);
        let records = self.records();
        let record_address = |record: u32| self.block + 8 * (records as u64 + u64::from(record));
        let slot = *products % WORKSPACES;
        *products += usize::from(calls.iter().any(|c| matches!(c, Loaded::Gemm(..))));
        for call in calls {
            match call {
                Loaded::Kernel(function, grid, record) => {
                    let mut address = record_address(*record);
                    // SAFETY: every kernel of ours takes the address of its record, which `put` has written.
                    unsafe { driver.launch(*function, grid, &mut [(&raw mut address).cast()], stream)? };
                }
                Loaded::Gemm(gemm, record) => {
                    let at = records + *record as usize;
                    let addresses = [words[at], words[at + 1], words[at + 2]];
                    let begin = self.state.workspace(driver)? + (slot * WORKSPACE) as u64;
                    let workspace = (begin, WORKSPACE);
                    // SAFETY: the binder gave operands and result buffers that outlive the run.
                    unsafe { driver.gemm(gemm, addresses, workspace, stream)? };
                }
            }
        }
        Ok(())
    }

    /// Launches a graph with this run's words.
    fn launch(&self, graph: &Graph, words: &[u64], total: usize) -> Result<()> {
        let driver = self.lowered.gpu.driver();
        let (unit, _) = graph.puts;
        let put = block::put(driver, unit)?;
        for (i, part) in words[..total].chunks(block::UNITS[unit]).enumerate() {
            let (mut to, mut count) = (self.block + (8 * i * block::UNITS[unit]) as u64, part.len() as u32);
            let mut arguments =
                [(&raw mut to).cast(), part.as_ptr().cast_mut().cast(), (&raw mut count).cast()];
            // SAFETY: as in `direct`.
            unsafe {
                driver.set_arguments(&graph.handle, i, put, &block::put_grid(unit), &mut arguments)?;
            }
        }
        // SAFETY: as in `direct`, for every node.
        unsafe { driver.launch_graph(&graph.handle, self.state.handle) }
    }
}
