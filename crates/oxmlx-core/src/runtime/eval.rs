//! From pending arrays to contents: claim, encode, plan or recognise, bind, run.
//!
//! An eval claims its whole Program under one short lock; other threads that need the same arrays wait for
//! its run. A Program of more than [`SEGMENT`] nodes is cut into pieces that are planned, cached and run one
//! after the other. In eager mode a piece is one node.

use crate::array::{Array, Node, Status};
use crate::backend::{self, Bindings, Event, Executable};
use crate::plan::{Plan, cache};
use crate::runtime::binder::{self, Binding};
use crate::runtime::memory::Buffer;
use crate::runtime::program::{self, Claimed, Gathered, Program};
use crate::runtime::{profile, settings, stats, stream};
use oxmlx_types::{Device, Error, ErrorKind, Result, Stream};
use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How often a long run asks whether the user interrupted.
const POLL: Duration = Duration::from_millis(20);

/// Nodes that are planned at once, at most.
pub const SEGMENT: usize = 4096;

/// One eval's work, as others see it.
pub struct Run {
    stream: Stream,
    /// The process that started it; a forked child can't wait for it.
    pid: u32,
    cancelled: AtomicBool,
    outcome: Mutex<Option<Result<()>>>,
    done: Condvar,
}

impl Run {
    fn new(stream: Stream) -> Arc<Run> {
        Arc::new(Run {
            stream,
            pid: std::process::id(),
            cancelled: AtomicBool::new(false),
            outcome: Mutex::new(None),
            done: Condvar::new(),
        })
    }

    /// Whether it belongs to the process that this one was forked from.
    pub(crate) fn is_foreign(&self) -> bool {
        self.pid != std::process::id()
    }

    /// Waits for somebody else's run: an interrupt ends the waiting, not the run.
    fn wait_for_other(&self) -> Result<()> {
        let _span = profile::span("wait", "wait for another eval");
        loop {
            if let Some(outcome) = self.wait_a_while() {
                return outcome;
            }
            interrupted()?;
        }
    }

    /// The outcome, if it comes within [`POLL`]. No lock is held afterwards: a signal handler may evaluate.
    fn wait_a_while(&self) -> Option<Result<()>> {
        let mut outcome = self.outcome.lock();
        if outcome.is_none() {
            stats::WAITS.add(1);
            self.done.wait_for(&mut outcome, POLL);
        }
        outcome.clone()
    }

    fn complete(&self, outcome: Result<()>) {
        *self.outcome.lock() = Some(outcome);
        self.done.notify_all();
    }

    /// Waits for the end; an interrupt cancels the run.
    fn wait(&self) -> Result<()> {
        let _span = (!self.is_done()).then(|| profile::span("wait", "wait"));
        loop {
            if let Some(outcome) = self.wait_a_while() {
                return outcome;
            }
            if let Err(e) = interrupted() {
                self.cancelled.store(true, Relaxed);
                // The run ends at its next poll; nothing may still write when this returns.
                while self.wait_a_while().is_none() {}
                return Err(e);
            }
        }
    }
}

thread_local! {
    /// Runs that this thread is in the middle of: more than one when a signal handler evaluates.
    static ACTIVE: std::cell::RefCell<Vec<Arc<Run>>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// While one of these lives, its thread is inside the run.
struct Active;

impl Active {
    fn enter(run: &Arc<Run>) -> Active {
        ACTIVE.with(|a| a.borrow_mut().push(run.clone()));
        Active
    }

    fn contains(run: &Arc<Run>) -> bool {
        ACTIVE.with(|a| a.borrow().iter().any(|r| Arc::ptr_eq(r, run)))
    }

    fn on_stream(stream: Stream) -> bool {
        ACTIVE.with(|a| a.borrow().iter().any(|r| r.stream == stream))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        ACTIVE.with(|a| a.borrow_mut().pop());
    }
}

impl Event for Run {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn is_done(&self) -> bool {
        self.outcome.lock().is_some()
    }

    fn wait_a_while(&self) -> Option<Result<()>> {
        Run::wait_a_while(self)
    }
}

/// Waits for an event; `poll` is asked every 20 ms, and an error from it ends the waiting.
pub(crate) fn wait_on(event: &dyn Event, poll: &dyn Fn() -> Result<()>) -> Result<()> {
    if event.is_done() && !event.as_any().is::<Run>() {
        return event.wait_a_while().unwrap_or(Ok(()));
    }
    let _span = profile::span("wait", "wait");
    loop {
        if let Some(outcome) = event.wait_a_while() {
            return outcome;
        }
        poll()?;
    }
}

static INTERRUPT: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the question "did the user interrupt?", which long runs ask about every 20 ms.
pub fn set_interrupt_hook(hook: fn() -> bool) {
    let _ = INTERRUPT.set(hook);
}

pub(crate) fn interrupted() -> Result<()> {
    match INTERRUPT.get() {
        Some(hook) if hook() => Err(Error::new(ErrorKind::Interrupted, "eval", "interrupted")),
        _ => Ok(()),
    }
}

/// Computes arrays and waits for them.
///
/// # Errors
/// What an operation refuses, exhausted memory, an interrupt. The arrays stay pending and can be evaluated
/// again.
pub fn eval(outputs: &[Array]) -> Result<()> {
    evaluate(outputs, true)
}

/// Starts to compute arrays.
pub fn async_eval(outputs: &[Array]) -> Result<()> {
    evaluate(outputs, false)
}

/// Starts to compute arrays that are about to be read on the host: what a device computes is waited for by
/// whoever reads it.
pub(crate) fn start(outputs: &[Array]) -> Result<()> {
    evaluate(outputs, outputs.iter().any(|a| a.node.stream.device == Device::CPU))
}

/// Waits until all work on a stream, or on all streams, has been done; raises an asynchronous failure.
pub fn synchronize(of: Option<Stream>) -> Result<()> {
    for s in of.map_or_else(stream::all, |s| vec![s]) {
        stream::state(s).synchronize(&interrupted)?;
        if s.device != Device::CPU
            && let Some(remote) = backend::backend(s.device)?.remote()
        {
            wait_on(&*remote.mark(s)?, &interrupted)?;
        }
    }
    match ASYNC_FAILURE.lock().take() {
        Some(e) => Err(e),
        None => Ok(()),
    }
}

/// The first failure of an asynchronous run that nobody has been told of yet.
static ASYNC_FAILURE: Mutex<Option<Error>> = Mutex::new(None);

fn evaluate(outputs: &[Array], wait: bool) -> Result<()> {
    loop {
        let Some(first) = outputs.iter().find(|a| !a.is_evaluated() && !a.node.op.is_leaf()) else {
            check_placeholders(outputs)?;
            return if wait { wait_for_contents(outputs) } else { Ok(()) };
        };
        let run = Run::new(first.node.stream);
        match program::gather(outputs, &run, &|other| other.stream == run.stream)? {
            Gathered::Wait(other) if Active::contains(&other) => {
                let text = "The array is being computed by the very eval that this code interrupts.";
                return Err(Error::new(ErrorKind::Backend, "eval", text));
            }
            Gathered::Wait(other) => {
                // Its failure is its caller's; this eval claims the arrays itself on the next turn.
                if let Err(e) = other.wait_for_other()
                    && e.kind == ErrorKind::Interrupted
                {
                    return Err(e);
                }
            }
            Gathered::Claimed(order) if order.is_empty() => {
                if !wait {
                    return Ok(());
                }
                wait_for(outputs)?;
            }
            Gathered::Claimed(order) => {
                execute(order, &run, wait)?;
                if !wait {
                    return Ok(());
                }
            }
        }
    }
}

fn check_placeholders(outputs: &[Array]) -> Result<()> {
    if outputs.iter().any(|a| a.node.op == crate::Primitive::Placeholder) {
        let text = "Attempting to eval an array during function transformations like compile or vmap is not allowed.";
        return Err(Error::invalid("eval", text));
    }
    Ok(())
}

/// Waits until the contents of evaluated arrays are there: a device may still be at work on them.
fn wait_for_contents(outputs: &[Array]) -> Result<()> {
    for a in outputs.iter().filter(|a| a.node.stream.device != Device::CPU) {
        if let Some(stored) = a.stored() {
            stored.buffer.wait(&interrupted)?;
        }
    }
    Ok(())
}

/// Waits for the runs that compute these arrays.
fn wait_for(outputs: &[Array]) -> Result<()> {
    for a in outputs {
        let run = match &a.node.cell.lock().status {
            Status::Claimed(run, _) => run.clone(),
            _ => continue,
        };
        run.wait_for_other()?;
    }
    Ok(())
}

fn execute(order: Vec<Claimed>, run: &Arc<Run>, wait: bool) -> Result<()> {
    let mut pieces = pieces(order);
    let many = pieces.len() > 1;
    let mut asked = Instant::now();
    // Whether a worker thread is left to complete the run.
    let mut left = false;
    while let Some(piece) = pieces.pop_front() {
        // A piece may be too short to ask by itself whether the user interrupted.
        let mut outcome = Ok(());
        if many && asked.elapsed() > POLL {
            asked = Instant::now();
            outcome = interrupted();
        }
        let outcome = match outcome {
            Ok(()) => prepare(piece, run).and_then(|work| submit(work, run, wait || many)),
            Err(e) => {
                program::unclaim(piece);
                Err(e)
            }
        };
        match outcome {
            Ok(waits) => left = waits,
            Err(e) => {
                program::unclaim(pieces.into_iter().flatten().collect());
                run.complete(Err(e.clone()));
                return Err(e);
            }
        }
    }
    if !left {
        run.complete(Ok(()));
    }
    Ok(())
}

/// Cuts the nodes into Programs: each on one stream, and of bounded length. What one needs of another is an
/// extra result of that one.
fn pieces(order: Vec<Claimed>) -> VecDeque<Vec<Claimed>> {
    let length = if settings::get().eager { 1 } else { SEGMENT };
    let first = order.first().map(|c| c.node.stream);
    let on_streams = match first {
        Some(s) if order.iter().any(|c| c.node.stream != s) => by_stream(order),
        _ => vec![order],
    };
    let mut all = VecDeque::new();
    for mut rest in on_streams {
        while rest.len() > length {
            let tail = rest.split_off(length);
            all.push_back(std::mem::replace(&mut rest, tail));
        }
        all.push_back(rest);
    }
    all
}

/// Sorts nodes into runs of one stream each: a node's rank is how often the longest way to it changes streams.
fn by_stream(order: Vec<Claimed>) -> Vec<Vec<Claimed>> {
    let mut rank_of: HashMap<*const Node, u32> = HashMap::with_capacity(order.len());
    let mut runs: BTreeMap<(u32, u32), Vec<Claimed>> = BTreeMap::new();
    for c in order {
        let own = c.node.stream;
        let behind = |a: &Array| {
            let rank = rank_of.get(&Arc::as_ptr(&a.node))?;
            Some(rank + u32::from(a.node.stream != own))
        };
        let rank = c.inputs.iter().filter_map(behind).max().unwrap_or(0);
        rank_of.insert(Arc::as_ptr(&c.node), rank);
        runs.entry((rank, own.index)).or_default().push(c);
    }
    runs.into_values().collect()
}

/// A Program that is ready to run.
struct Work {
    program: Program,
    plan: Arc<Plan>,
    executable: Arc<dyn Executable>,
    binding: Binding,
    /// The run whose waiter may cancel this work.
    run: Arc<Run>,
    /// Whether a kernel may have written to memory that an input lent.
    started: bool,
}

/// Encodes, plans and binds; on failure the nodes are pending again.
fn prepare(piece: Vec<Claimed>, run: &Arc<Run>) -> Result<Work> {
    let program = Program::encode(piece).map_err(|(e, piece)| {
        program::unclaim(piece);
        e
    })?;
    stats::PROGRAMS.add(1);
    stats::PROGRAM_NODES.add(program.nodes.len() as u64);
    let bound = cache::find(&program).and_then(|found| {
        let _span = profile::span("host", "bind").number("values", found.plan.homes.len());
        let binding = binder::bind(&program, &found.plan, &found.arena)?;
        Ok((found, binding))
    });
    match bound {
        Ok((found, binding)) => Ok(Work {
            program,
            plan: found.plan,
            executable: found.executable,
            binding,
            run: run.clone(),
            started: false,
        }),
        Err(e) => {
            program::unclaim(program.nodes);
            Err(e)
        }
    }
}

/// Runs the work here or on the stream's thread, or hands it to its device. Says whether a worker thread will
/// complete `run`.
fn submit(mut work: Work, run: &Arc<Run>, wait: bool) -> Result<bool> {
    let stream = work.program.stream;
    let state = stream::state(stream);
    if stream.device != Device::CPU {
        return state.hand_over(|arena| perform(work, arena)).map(|()| false);
    }
    if !wait {
        // Others may bind to the buffers once the work has its place in the queue, and not before.
        let outputs: Vec<_> = work.published().collect();
        let publish = {
            let run = run.clone();
            move || outputs.into_iter().for_each(|(node, stored)| program::publish(&node, &run, stored))
        };
        let run = run.clone();
        let job: stream::Job = Box::new(move |arena| {
            let outcome = perform(work, arena);
            if let Err(e) = &outcome {
                ASYNC_FAILURE.lock().get_or_insert_with(|| e.clone());
            }
            run.complete(outcome);
        });
        state.enqueue(job, publish);
        return Ok(true);
    }
    let piece = Run::new(stream);
    work.run = piece.clone();
    let result = piece.clone();
    let nested = Active::on_stream(stream);
    let _active = (Active::enter(run), Active::enter(&piece));
    if nested {
        // A signal handler in the middle of a kernel's poll: the stream is ours, its arena is not.
        result.complete(perform(work, &mut None));
    } else {
        let job: stream::Job = Box::new(move |arena| result.complete(perform(work, arena)));
        if let Err(job) = state.try_run_here(job) {
            state.enqueue(job, || ());
        }
    }
    let outcome = piece.wait();
    if outcome.is_err() {
        run.cancelled.store(true, Relaxed);
    }
    outcome.map(|()| false)
}

impl Work {
    /// The nodes whose contents the caller keeps, with their buffers.
    fn published(&self) -> impl Iterator<Item = (Arc<crate::array::Node>, crate::array::Stored)> + '_ {
        self.plan.outputs.iter().zip(&self.binding.outputs).filter_map(|(&v, stored)| {
            match self.program.defs[v as usize] {
                program::Source::Node(n) => {
                    Some((self.program.nodes[n as usize].node.clone(), stored.clone()))
                }
                _ => None,
            }
        })
    }
}

/// The run itself; the caller holds the stream. A panic in a kernel is a bug, and an error like any other.
fn perform(mut work: Work, arena: &mut Option<Buffer>) -> Result<()> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_steps(&mut work, arena)));
    let outcome = caught.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Backend, "eval", "A kernel panicked; please report this."))
    });
    let Work { program, plan, binding, started, .. } = work;
    match outcome {
        Ok(()) => {
            let node = |v: u32| match program.defs[v as usize] {
                program::Source::Node(n) => Some(n),
                _ => None,
            };
            let outputs = plan.outputs.iter().zip(binding.outputs);
            let contents = outputs.filter_map(|(&v, s)| node(v).map(|n| (n, s))).collect();
            program::finish(program.nodes, contents);
            Ok(())
        }
        Err(e) if binding.donated && started => {
            program::fail(program.nodes, &e);
            Err(e)
        }
        Err(e) => {
            program::unclaim(program.nodes);
            Err(e)
        }
    }
}

fn run_steps(work: &mut Work, arena: &mut Option<Buffer>) -> Result<()> {
    let stream = work.program.stream;
    // Earlier work of this stream is done by now; what it failed to write must not be read.
    for producer in &work.program.producers {
        debug_assert!(producer.is_done());
        wait_on(&**producer, &interrupted)?;
    }
    let need = work.binding.arena_bytes;
    if need > 0 {
        if arena.as_ref().is_none_or(|a| a.len() < need) {
            *arena = None;
            *arena = Some(Buffer::on(stream, need)?);
        }
        if let Some(a) = arena.as_ref() {
            work.binding.place_arena(a.address());
        }
    }
    work.started = true;
    let last = std::cell::Cell::new(Instant::now());
    let run = &work.run;
    // What has begun to overwrite its inputs can't be undone: it runs to its end, and its waiter is
    // interrupted then.
    let final_run = work.binding.donated;
    let poll = || {
        if final_run {
            return Ok(());
        }
        if run.cancelled.load(Relaxed) {
            return Err(Error::new(ErrorKind::Interrupted, "eval", "interrupted"));
        }
        if last.get().elapsed() > POLL {
            last.set(Instant::now());
            return interrupted();
        }
        Ok(())
    };
    let binding = &work.binding;
    let mirrors: SmallVec<[_; 4]> = binding.mirrors.iter().map(|(v, m)| (*v, m.address())).collect();
    let bindings = Bindings {
        values: &binding.values,
        params: &work.program.params,
        inline: &binding.inline(),
        mirrors: &mirrors,
    };
    stats::KERNELS.add(work.plan.steps.len() as u64);
    let span = profile::span("run", "run")
        .text("device", || stream.device.to_string())
        .number("stream", stream.index as usize)
        .number("nodes", work.program.nodes.len())
        .text("steps", || work.plan.summary());
    let done = backend::backend(stream.device)?.run(&*work.executable, &bindings, stream, &poll)?;
    drop(span);
    if stream.device != Device::CPU {
        for buffer in &binding.owned {
            buffer.renew();
            buffer.set_ready(done.clone());
        }
        for (v, mirror) in &binding.mirrors {
            mirror.set_ready(done.clone());
            if let Some(at) = work.plan.owned.iter().position(|o| o == v) {
                binding.owned[at].add_mirror(mirror.clone());
            }
        }
    }
    if settings::get().check_nans {
        check_nans(work)?;
    }
    Ok(())
}

/// In eager mode each piece is one node, so that the node's own name can be given.
fn check_nans(work: &Work) -> Result<()> {
    for (&v, stored) in work.plan.outputs.iter().zip(&work.binding.outputs) {
        let program::Source::Node(n) = work.program.defs[v as usize] else { continue };
        let node = &work.program.nodes[n as usize].node;
        if crate::read::has_nan(stored, node.outs[0].dtype)? {
            let shape = oxmlx_types::format_shape(&node.outs[0].shape);
            let message = format!("The result, of shape {shape}, holds a NaN (OXMLX_CHECK_NANS is set).");
            return Err(Error::new(ErrorKind::Backend, node.op.name(), message));
        }
    }
    Ok(())
}
