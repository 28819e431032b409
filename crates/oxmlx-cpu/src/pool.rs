//! The worker pool: one set of threads for the whole process, shared by every kernel.
//!
//! A parallel region must cost a few microseconds, or small kernels lose more than they gain; hence no
//! allocation, no channel and no lock on the hot path. Workers spin for some tens of microseconds after a
//! region, since the next one usually follows at once, and then park. A panic in a task becomes an error:
//! it must never unwind into a foreign caller. After a fork the child finds dead threads, and starts anew.

use oxmlx_types::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long an idle worker looks for work before it parks.
const SPIN: Duration = Duration::from_micros(40);

/// A region: the tasks' function, erased, and how many there are.
#[derive(Clone, Copy)]
struct Job {
    call: unsafe fn(*const (), usize),
    data: *const (),
    tasks: usize,
}

// SAFETY: `data` is a `&F` with `F: Sync` (see for_each_chunk), used only while its region is open.
unsafe impl Send for Job {}

/// What the caller and the workers share.
struct Shared {
    /// Odd while a region is open to workers; each region raises it by two.
    epoch: AtomicU64,
    /// The open region; read only after `joined` has been raised under an odd epoch.
    job: Mutex<Option<Job>>,
    next: AtomicUsize,
    /// Workers inside the open region.
    joined: AtomicUsize,
    panicked: AtomicBool,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

/// A set of worker threads.
pub struct Pool {
    shared: Arc<Shared>,
    threads: usize,
    /// Held by the thread whose region runs; others run inline.
    busy: AtomicBool,
    pid: u32,
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

static GLOBAL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());
/// Guards creation; holds the id of the process that is creating, so that a fork in between can't wedge it.
static CREATING: AtomicU32 = AtomicU32::new(0);

/// The process's pool. After a fork the child gets a new one; the old one's memory is left alone, since its
/// threads do not exist there.
pub fn global() -> &'static Pool {
    let pid = process_id();
    loop {
        let p = GLOBAL.load(Ordering::Acquire);
        if !p.is_null() {
            // SAFETY: pools in GLOBAL come from Box::leak below and are never freed.
            let pool: &'static Pool = unsafe { &*p };
            if pool.pid == pid {
                return pool;
            }
        }
        let owner = CREATING.load(Ordering::Acquire);
        if owner != pid && CREATING.compare_exchange(owner, pid, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            let fresh = GLOBAL.load(Ordering::Acquire);
            // SAFETY: as above.
            if fresh.is_null() || unsafe { (*fresh).pid } != pid {
                let pool = Box::leak(Box::new(Pool::with_threads(configured_threads())));
                GLOBAL.store(pool, Ordering::Release);
            }
            CREATING.store(0, Ordering::Release);
        } else {
            std::thread::yield_now();
        }
    }
}

/// How many threads work in a region of the global pool, the caller included.
pub fn threads() -> usize {
    global().threads
}

/// Runs `f(0) .. f(n - 1)` on the global pool, in any order, and waits for all.
pub fn for_each_chunk<F: Fn(usize) + Sync>(n: usize, f: F) -> Result<()> {
    global().for_each_chunk(n, f)
}

fn configured_threads() -> usize {
    let given = std::env::var("OXMLX_NUM_THREADS").ok().and_then(|v| v.trim().parse::<usize>().ok());
    match given {
        Some(n) if n > 0 => n.min(1024),
        _ => physical(std::thread::available_parallelism().map_or(1, |n| n.get())),
    }
}

/// Cores among `available` hardware threads: two threads of one core share its vector units, so a second one
/// only costs cache. Where nothing is known, every hardware thread counts.
fn physical(available: usize) -> usize {
    let smt = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list").ok();
    let siblings = smt.map_or(1, |s| siblings(s.trim()));
    available.div_ceil(siblings.max(1)).max(1)
}

/// Members of a kernel cpu list such as `0,64` or `0-1`.
fn siblings(list: &str) -> usize {
    list.split(',')
        .map(|part| match part.split_once('-') {
            Some((a, b)) => match (a.parse::<usize>(), b.parse::<usize>()) {
                (Ok(a), Ok(b)) if b >= a => b - a + 1,
                _ => 1,
            },
            None => 1,
        })
        .sum()
}

/// The process's id; a system call of some tens of nanoseconds, which is what makes forks visible.
fn process_id() -> u32 {
    std::process::id()
}

impl Pool {
    /// A pool in which `threads` threads work, the caller included.
    pub fn with_threads(threads: usize) -> Pool {
        let shared = Arc::new(Shared {
            epoch: AtomicU64::new(0),
            job: Mutex::new(None),
            next: AtomicUsize::new(0),
            joined: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        });
        let mut started = 1;
        for i in 1..threads.max(1) {
            let shared = Arc::clone(&shared);
            let name = format!("oxmlx-cpu-{i}");
            // A process at its thread limit still computes, with fewer threads.
            if std::thread::Builder::new().name(name).spawn(move || worker(&shared)).is_err() {
                break;
            }
            started += 1;
        }
        Pool { shared, threads: started, busy: AtomicBool::new(false), pid: process_id() }
    }

    /// How many threads work in a region, the caller included.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `f(0) .. f(n - 1)` in any order and waits for all. Regions inside regions, and regions that find
    /// the pool taken by another thread, run on the caller alone.
    pub fn for_each_chunk<F: Fn(usize) + Sync>(&self, n: usize, f: F) -> Result<()> {
        if n <= 1 || self.threads <= 1 || INSIDE.with(Cell::get) || self.busy.swap(true, Ordering::Acquire) {
            return inline(n, &f);
        }
        unsafe fn call<F: Fn(usize) + Sync>(data: *const (), i: usize) {
            // SAFETY: `data` is the `f` of the region, which outlives it: the caller waits for all workers.
            unsafe { (*data.cast::<F>())(i) }
        }
        let job = Job { call: call::<F>, data: (&raw const f).cast(), tasks: n };
        let s = &*self.shared;
        s.next.store(0, Ordering::Relaxed);
        s.panicked.store(false, Ordering::Relaxed);
        *s.job.lock() = Some(job);
        s.epoch.fetch_add(1, Ordering::SeqCst);
        if s.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = s.lock.lock();
            s.wake.notify_all();
        }
        INSIDE.with(|c| c.set(true));
        work(s, job);
        INSIDE.with(|c| c.set(false));
        // Closed: nobody joins any more; those inside are waited for.
        s.epoch.fetch_add(1, Ordering::SeqCst);
        let mut spins = 0u32;
        while s.joined.load(Ordering::SeqCst) != 0 {
            spins += 1;
            if spins < 4096 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let failed = s.panicked.load(Ordering::Acquire);
        self.busy.store(false, Ordering::Release);
        if failed { Err(panic_error()) } else { Ok(()) }
    }
}

fn panic_error() -> Error {
    Error::new(ErrorKind::Backend, "", "A kernel of the CPU backend panicked; this is a bug.")
}

fn inline(n: usize, f: &impl Fn(usize)) -> Result<()> {
    catch_unwind(AssertUnwindSafe(|| (0..n).for_each(f))).map_err(|_| panic_error())
}

/// Takes tasks until none is left. After a panic the rest is dropped.
fn work(s: &Shared, job: Job) {
    let run = || {
        loop {
            let i = s.next.fetch_add(1, Ordering::Relaxed);
            if i >= job.tasks {
                break;
            }
            // SAFETY: `job` belongs to the open region, whose caller waits for us.
            unsafe { (job.call)(job.data, i) }
        }
    };
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        s.panicked.store(true, Ordering::Release);
        s.next.store(job.tasks, Ordering::Relaxed);
    }
}

/// Looks for an open region that this worker has not seen.
fn find(s: &Shared, seen: u64) -> Option<u64> {
    let e = s.epoch.load(Ordering::SeqCst);
    (e % 2 == 1 && e != seen).then_some(e)
}

fn worker(s: &Shared) {
    INSIDE.with(|c| c.set(true));
    let mut seen = 0u64;
    loop {
        let epoch = wait(s, seen);
        seen = epoch;
        // Joining before looking again at the epoch: either the caller sees us and waits, or we see that the
        // region was closed.
        s.joined.fetch_add(1, Ordering::SeqCst);
        if s.epoch.load(Ordering::SeqCst) == epoch {
            let job = *s.job.lock();
            if let Some(job) = job {
                work(s, job);
            }
        }
        s.joined.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Spins, then sleeps, until there is a region to join.
fn wait(s: &Shared, seen: u64) -> u64 {
    let begin = Instant::now();
    loop {
        for _ in 0..64 {
            if let Some(e) = find(s, seen) {
                return e;
            }
            std::hint::spin_loop();
        }
        if begin.elapsed() > SPIN {
            break;
        }
    }
    s.sleepers.fetch_add(1, Ordering::SeqCst);
    let mut guard = s.lock.lock();
    let epoch = loop {
        if let Some(e) = find(s, seen) {
            break e;
        }
        s.wake.wait(&mut guard);
    };
    drop(guard);
    s.sleepers.fetch_sub(1, Ordering::SeqCst);
    epoch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once_and_nested_regions_run_inline() {
        let pool = Pool::with_threads(3);
        for n in [0, 1, 2, 7, 1000] {
            let hits: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            pool.for_each_chunk(n, |i| {
                hits[i].fetch_add(1, Ordering::Relaxed);
                pool.for_each_chunk(3, |_| {
                    hits[i].fetch_add(1, Ordering::Relaxed);
                })
                .unwrap();
            })
            .unwrap();
            assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 4));
        }
    }

    #[test]
    fn a_panic_is_an_error_and_the_pool_lives_on() {
        let pool = Pool::with_threads(2);
        for n in [1, 64] {
            let e = pool.for_each_chunk(n, |i| assert!(i != n - 1, "expected in this test"));
            assert_eq!(e.unwrap_err().kind, ErrorKind::Backend);
            assert!(pool.for_each_chunk(64, |_| {}).is_ok());
        }
    }

    #[test]
    fn several_callers_at_once() {
        let pool = Pool::with_threads(2);
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        pool.for_each_chunk(8, |_| {
                            total.fetch_add(1, Ordering::Relaxed);
                        })
                        .unwrap();
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), 4 * 500 * 8);
    }

    #[test]
    fn sibling_lists() {
        assert_eq!((siblings("0"), siblings("0,64"), siblings("0-1"), siblings("0-1,8-9")), (1, 2, 2, 4));
    }

    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(code: i32) -> !;
    }

    #[test]
    fn a_forked_child_gets_workers_of_its_own() {
        for_each_chunk(16, |_| {}).unwrap();
        // SAFETY: the child only uses the pool and leaves by _exit.
        unsafe {
            let pid = fork();
            if pid == 0 {
                let n = AtomicUsize::new(0);
                let ok = for_each_chunk(100, |_| {
                    n.fetch_add(1, Ordering::Relaxed);
                });
                _exit(if ok.is_ok() && n.load(Ordering::Relaxed) == 100 { 0 } else { 1 });
            }
            let mut status = -1;
            assert_eq!(waitpid(pid, &raw mut status, 0), pid);
            assert_eq!(status, 0);
        }
    }
}
