//! When a stream's work is done: a counter in pinned memory that the last kernel of each run sets, which the host
//! reads without asking the driver, and events of the driver for copies.

use crate::device::Gpu;
use crate::driver::{Driver, EventHandle, StreamHandle};
use oxmlx_core::backend::Event;
use oxmlx_core::runtime::stats;
use oxmlx_types::{Error, Result};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a wait reads the counter without giving the processor away, and then without sleeping.
const SPIN: Duration = Duration::from_micros(200);
const YIELD: Duration = Duration::from_millis(4);
/// One turn of a wait.
const TURN: Duration = Duration::from_millis(20);

/// A stream's counter.
pub(crate) struct Clock {
    /// Address of the counter, in pinned memory that lives as long as the process.
    flag: usize,
    /// Number of the last run that was handed over.
    handed: AtomicU64,
    pub stream: StreamHandle,
    /// What the stream's work failed with, once it has.
    failure: Mutex<Option<Error>>,
}

impl Clock {
    pub fn new(flag: usize, stream: StreamHandle) -> Clock {
        Clock { flag, handed: AtomicU64::new(0), stream, failure: Mutex::new(None) }
    }

    /// Address of the counter.
    pub fn flag(&self) -> u64 {
        self.flag as u64
    }

    /// The number of the next run; the caller holds the stream.
    pub fn next(&self) -> u64 {
        self.handed.fetch_add(1, Relaxed) + 1
    }

    fn shows(&self) -> u64 {
        // SAFETY: the flag is 8 aligned bytes of pinned memory that is never freed; the device writes them as
        // one word.
        unsafe { &*(self.flag as *const AtomicU64) }.load(Acquire)
    }
}

/// The end of one run.
pub(crate) struct RunEvent {
    pub gpu: Arc<Gpu>,
    pub clock: Arc<Clock>,
    pub number: u64,
    /// What ran, for the message should it fail.
    pub what: Arc<dyn Fn() -> String + Send + Sync>,
}

impl RunEvent {
    /// What became of the work, after a failure of the device.
    fn failure(&self, e: Error) -> Error {
        let mut known = self.clock.failure.lock();
        let text = format!("{} The work was: {}.", e.message, (self.what)());
        known.get_or_insert(Error { message: text, ..e }).clone()
    }
}

impl Event for RunEvent {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_done(&self) -> bool {
        self.clock.shows() >= self.number
    }

    fn wait_a_while(&self) -> Option<Result<()>> {
        if self.is_done() {
            return Some(Ok(()));
        }
        stats::WAITS.add(1);
        wait(&|| Ok(self.is_done()), &|| {
            // A stream that is idle but has not set its counter has failed.
            match self.gpu.driver().is_idle(self.clock.stream) {
                Ok(_) => Ok(()),
                Err(e) => Err(self.failure(e)),
            }
        })
    }
}

/// The end of a copy.
pub(crate) struct CopyEvent {
    gpu: Arc<Gpu>,
    event: EventHandle,
    pub stream: StreamHandle,
    /// A copy that is known to be done need not be asked about again.
    done: std::sync::atomic::AtomicBool,
}

impl CopyEvent {
    /// An event behind everything that the stream has been given.
    pub fn record(gpu: &Arc<Gpu>, stream: StreamHandle) -> Result<CopyEvent> {
        let event = gpu.events().take(gpu.driver())?;
        gpu.driver().record(event, stream)?;
        Ok(CopyEvent { gpu: gpu.clone(), event, stream, done: false.into() })
    }

    /// The driver's event.
    pub fn handle(&self) -> EventHandle {
        self.event
    }

    fn ask(&self) -> Result<bool> {
        if self.done.load(Relaxed) {
            return Ok(true);
        }
        let done = self.gpu.driver().is_done(self.event)?;
        self.done.store(done, Relaxed);
        Ok(done)
    }
}

impl Event for CopyEvent {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_done(&self) -> bool {
        // A failed copy is done, too: whoever waits gets the failure.
        self.ask().unwrap_or(true)
    }

    fn wait_a_while(&self) -> Option<Result<()>> {
        match self.ask() {
            Ok(true) => return Some(Ok(())),
            Err(e) => return Some(Err(e)),
            Ok(false) => {}
        }
        stats::WAITS.add(1);
        wait(&|| self.ask(), &|| Ok(()))
    }
}

impl Drop for CopyEvent {
    fn drop(&mut self) {
        self.gpu.events().give(self.event);
    }
}

/// Waits for one turn: first as closely as possible, then more and more politely. `look` is called now and then.
fn wait(done: &dyn Fn() -> Result<bool>, look: &dyn Fn() -> Result<()>) -> Option<Result<()>> {
    let begin = Instant::now();
    let mut looked = Duration::ZERO;
    loop {
        for _ in 0..64 {
            match done() {
                Ok(true) => return Some(Ok(())),
                Err(e) => return Some(Err(e)),
                Ok(false) => std::hint::spin_loop(),
            }
        }
        let passed = begin.elapsed();
        if passed > YIELD {
            std::thread::sleep(Duration::from_micros(50));
        } else if passed > SPIN {
            std::thread::yield_now();
        }
        if passed > looked + Duration::from_millis(2) {
            looked = passed;
            if let Err(e) = look() {
                return Some(Err(e));
            }
        }
        if passed > TURN {
            return None;
        }
    }
}

/// Events of the driver that nobody uses now.
#[derive(Default)]
pub(crate) struct Events(Mutex<Vec<EventHandle>>);

impl Events {
    fn take(&self, driver: &dyn Driver) -> Result<EventHandle> {
        match self.0.lock().pop() {
            Some(event) => Ok(event),
            None => driver.create_event(),
        }
    }

    fn give(&self, event: EventHandle) {
        self.0.lock().push(event);
    }

    /// Lets `stream` wait for all that `other` has been given.
    pub fn order(&self, driver: &dyn Driver, stream: StreamHandle, other: StreamHandle) -> Result<()> {
        let event = self.take(driver)?;
        let outcome = driver.record(event, other).and_then(|()| driver.wait(stream, event));
        // What waits has taken note of the event's state: it may be recorded again.
        self.give(event);
        outcome
    }
}
