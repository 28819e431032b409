//! Streams: sequences of work on a device, each with its arena and, once it is needed, its worker thread.
//!
//! Every thread has a default stream of its own, so that threads do not wait for each other. Work that its
//! caller waits for runs on the caller's thread when the stream is idle: handing a two-microsecond kernel to
//! another thread would cost more than the kernel.

use crate::backend;
use crate::runtime::memory::Buffer;
use crate::runtime::{profile, stats};
use oxmlx_types::{Device, DeviceKind, Result, Stream};
use parking_lot::{Condvar, Mutex, RwLock};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Work for a stream: gets the arena.
pub(crate) type Job = Box<dyn FnOnce(&mut Option<Buffer>) + Send>;

/// Runs that may wait in a stream's queue before `async_eval` waits, too.
const RUN_AHEAD: usize = 16;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: bool,
    has_worker: bool,
    /// The thread whose default stream this was has ended: the worker ends, too, once the queue is empty.
    closed: bool,
}

pub(crate) struct StreamState {
    stream: Stream,
    /// The stream's lock: whoever holds it may run on the stream.
    arena: Mutex<Option<Buffer>>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

struct Registry {
    /// The process that the states belong to: a forked child starts with none.
    pid: u32,
    states: HashMap<u32, Arc<StreamState>>,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

fn registry() -> &'static RwLock<Registry> {
    static REGISTRY: OnceLock<RwLock<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(|| RwLock::new(Registry { pid: std::process::id(), states: HashMap::new() }))
}

thread_local! {
    static CURRENT: Cell<Option<Stream>> = const { Cell::new(None) };
    static DEFAULTS: std::cell::RefCell<Defaults> = std::cell::RefCell::default();
}

/// A thread's default streams. Their arenas and workers go with the thread; a pending array that outlives it
/// finds a fresh state under the stream's number.
#[derive(Default)]
struct Defaults(HashMap<Device, Stream>);

impl Drop for Defaults {
    fn drop(&mut self) {
        let mut r = registry().write();
        if r.pid != std::process::id() {
            return;
        }
        for stream in self.0.values() {
            if let Some(state) = r.states.remove(&stream.index) {
                state.close();
            }
            if stream.device != Device::CPU
                && let Ok(device) = backend::backend(stream.device)
                && let Some(remote) = device.remote()
            {
                remote.retire(*stream);
            }
        }
    }
}

/// `None` until somebody asks: looking for a GPU takes time.
static DEFAULT_DEVICE: Mutex<Option<Device>> = Mutex::new(None);

/// The device that new work goes to: the first GPU, where there is one and nobody has said otherwise. Who asked for
/// a GPU gets it also where there is none, so that the first operation says so.
pub fn default_device() -> Device {
    if let Some(device) = *DEFAULT_DEVICE.lock() {
        return device;
    }
    let gpu = Device { kind: DeviceKind::Gpu, index: 0 };
    let device = match super::settings::get().device {
        Some(DeviceKind::Gpu) => gpu,
        None if backend::backend(gpu).is_ok() => gpu,
        Some(DeviceKind::Cpu) | None => Device::CPU,
    };
    *DEFAULT_DEVICE.lock().get_or_insert(device)
}

/// Sends new work to another device, which must exist.
pub fn set_default_device(device: Device) -> Result<()> {
    backend::backend(device)?;
    *DEFAULT_DEVICE.lock() = Some(device);
    CURRENT.with(|c| c.set(None));
    Ok(())
}

/// A new stream on a device.
pub fn new_stream(device: Device) -> Result<Stream> {
    backend::backend(device)?;
    Ok(Stream { index: NEXT.fetch_add(1, Relaxed), device })
}

/// This thread's default stream on a device.
pub fn default_stream(device: Device) -> Stream {
    DEFAULTS.with(|d| {
        *d.borrow_mut()
            .0
            .entry(device)
            .or_insert_with(|| Stream { index: NEXT.fetch_add(1, Relaxed), device })
    })
}

/// Makes a stream this thread's default on its device.
pub fn set_default_stream(stream: Stream) {
    DEFAULTS.with(|d| d.borrow_mut().0.insert(stream.device, stream));
    CURRENT.with(|c| c.set(None));
}

/// The stream on which a device's copies from and to the host run, beside its kernels.
pub(crate) fn copy_stream(device: Device) -> Stream {
    static STREAMS: Mutex<Vec<Stream>> = Mutex::new(Vec::new());
    let mut all = STREAMS.lock();
    match all.iter().find(|s| s.device == device) {
        Some(&s) => s,
        None => {
            all.push(Stream { index: NEXT.fetch_add(1, Relaxed), device });
            all[all.len() - 1]
        }
    }
}

/// The stream that a new node goes to.
#[inline]
pub fn current() -> Stream {
    if let Some(s) = CURRENT.with(Cell::get) {
        return s;
    }
    let s = default_stream(default_device());
    CURRENT.with(|c| c.set(Some(s)));
    s
}

/// While one of these lives, new nodes of its thread go to a stream.
pub struct Scope(Option<Stream>);

/// Sends this thread's new nodes to `stream` until the scope is dropped.
pub fn scope(stream: Stream) -> Scope {
    Scope(CURRENT.with(|c| c.replace(Some(stream))))
}

impl Drop for Scope {
    fn drop(&mut self) {
        CURRENT.with(|c| c.set(self.0));
    }
}

pub(crate) fn state(stream: Stream) -> Arc<StreamState> {
    {
        let r = registry().read();
        if r.pid == std::process::id()
            && let Some(s) = r.states.get(&stream.index)
        {
            return s.clone();
        }
    }
    let mut r = registry().write();
    if r.pid != std::process::id() {
        r.pid = std::process::id();
        // Leaked on purpose: their workers exist in the parent only, and a lock may have been held.
        std::mem::forget(std::mem::take(&mut r.states));
    }
    let new =
        || StreamState { stream, arena: Mutex::new(None), queue: Mutex::default(), changed: Condvar::new() };
    r.states.entry(stream.index).or_insert_with(|| Arc::new(new())).clone()
}

impl StreamState {
    /// Runs `job` on the calling thread if the stream is idle, else hands it back.
    pub fn try_run_here(&self, job: Job) -> std::result::Result<(), Job> {
        {
            let mut q = self.queue.lock();
            if q.running || !q.jobs.is_empty() {
                return Err(job);
            }
            q.running = true;
        }
        job(&mut self.arena.lock());
        let mut q = self.queue.lock();
        q.running = false;
        if !q.jobs.is_empty() {
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Hands work over to a device that queues by itself, under the stream's lock.
    pub fn hand_over<R>(&self, work: impl FnOnce(&mut Option<Buffer>) -> R) -> R {
        work(&mut self.arena.lock())
    }

    /// Puts `job` behind what is queued already; waits while too much is. `placed` is called once the job has
    /// its place and before it can run.
    pub fn enqueue(self: &Arc<Self>, job: Job, placed: impl FnOnce()) {
        let mut q = self.queue.lock();
        let _span = (q.jobs.len() >= RUN_AHEAD).then(|| profile::span("wait", "wait for room in the queue"));
        while q.jobs.len() >= RUN_AHEAD {
            stats::WAITS.add(1);
            self.changed.wait(&mut q);
        }
        q.jobs.push_back(job);
        placed();
        if !q.has_worker {
            q.has_worker = true;
            let me = self.clone();
            let spawned = std::thread::Builder::new().name("oxmlx-stream".into()).spawn(move || me.work());
            if spawned.is_err() {
                // No thread to be had: whoever waits runs the queue.
                q.has_worker = false;
                drop(q);
                self.drain();
                return;
            }
        }
        drop(q);
        self.changed.notify_all();
    }

    fn next(&self, block: bool) -> Option<Job> {
        let mut q = self.queue.lock();
        loop {
            if !q.running
                && let Some(job) = q.jobs.pop_front()
            {
                q.running = true;
                return Some(job);
            }
            if !block {
                return None;
            }
            if q.closed && q.jobs.is_empty() {
                q.has_worker = false;
                return None;
            }
            self.changed.wait(&mut q);
        }
    }

    fn close(&self) {
        self.queue.lock().closed = true;
        self.changed.notify_all();
    }

    fn finish_one(&self) {
        self.queue.lock().running = false;
        self.changed.notify_all();
    }

    fn drain(&self) {
        while let Some(job) = self.next(false) {
            job(&mut self.arena.lock());
            self.finish_one();
        }
    }

    fn work(&self) {
        while let Some(job) = self.next(true) {
            job(&mut self.arena.lock());
            self.finish_one();
        }
    }

    /// Waits until everything queued so far has run; `poll` is called every 20 ms.
    pub fn synchronize(&self, poll: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut span = None;
        loop {
            {
                let mut q = self.queue.lock();
                if !q.running && q.jobs.is_empty() {
                    return Ok(());
                }
                span.get_or_insert_with(|| profile::span("wait", "synchronize"));
                stats::WAITS.add(1);
                self.changed.wait_for(&mut q, std::time::Duration::from_millis(20));
            }
            // Without the lock: a signal handler may evaluate.
            poll()?;
        }
    }
}

/// Every stream that has had work, for `synchronize` without arguments.
pub(crate) fn all() -> Vec<Stream> {
    registry().read().states.values().map(|s| s.stream).collect()
}

/// Frees the arenas of idle streams.
pub(crate) fn release_arenas() {
    let states: Vec<Arc<StreamState>> = registry().read().states.values().cloned().collect();
    for s in states {
        if let Some(mut arena) = s.arena.try_lock() {
            *arena = None;
        }
    }
}
