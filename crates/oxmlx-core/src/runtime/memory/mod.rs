//! Buffers: reference-counted memory that is valid everywhere, and where it is so far.
//!
//! A buffer is born in one place, the host or a device. Arrays are immutable, so its copies elsewhere are a
//! cache: made when somebody there reads it, kept while it lives, and never written. Whoever reads asks with
//! [`Buffer::reach`] (a stream's kernels) or [`Buffer::host`] (the host); what has to be copied or waited for
//! is seen to there, and nowhere else.

mod pool;

pub(crate) use pool::Place;
pub use pool::{
    Usage, clear_cache, memory_limit, pinned_usage, reset_peak, set_cache_limit, set_memory_limit, usage,
};

use crate::backend::{self, Address, Event};
use crate::runtime::{eval, stream};
use oxmlx_types::{Device, Error, ErrorKind, Result, Stream};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Contents up to this size stay on the host until a kernel needs them, and go with its launch.
pub(crate) const INLINE: usize = 4096;

/// Reference-counted memory.
#[derive(Clone)]
pub struct Buffer(Arc<Block>);

struct Block {
    address: Address,
    bytes: usize,
    capacity: usize,
    place: Place,
    /// A writable view was exported: contents may change behind the engine's back, so it is never donated.
    escaped: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When the contents will be there, if they aren't yet.
    ready: Option<Arc<dyn Event>>,
    /// Streams other than its own whose kernels have read it, and copies out of or into it.
    used_by: SmallVec<[Stream; 1]>,
    used_until: Vec<Arc<dyn Event>>,
    /// Copies elsewhere.
    replicas: Vec<Buffer>,
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes at {:#x}, {:?})", self.0.bytes, self.0.address.0, self.0.place)
    }
}

impl Buffer {
    /// Host memory of at least `bytes`, with any contents.
    pub fn new(bytes: usize) -> Result<Buffer> {
        Buffer::at(Place::HOST, bytes)
    }

    /// Memory for results of a stream.
    pub(crate) fn on(stream: Stream, bytes: usize) -> Result<Buffer> {
        Buffer::at(Place::of(stream), bytes)
    }

    /// Host memory that a device copies from and to.
    pub(crate) fn pinned(device: Device, bytes: usize) -> Result<Buffer> {
        Buffer::at(Place::pinned(device), bytes)
    }

    fn at(place: Place, bytes: usize) -> Result<Buffer> {
        let (address, capacity) = pool::allocate(place, bytes)?;
        let (escaped, state) = (AtomicBool::new(false), Mutex::default());
        Ok(Buffer(Arc::new(Block { address, bytes, capacity, place, escaped, state })))
    }

    /// A copy of bytes, near where the calling thread's work runs: large ones start their way to a device here.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Buffer> {
        let device = stream::current().device;
        let backend = backend::backend(device)?;
        let Some(remote) = backend.remote().filter(|_| bytes.len() > INLINE) else {
            let buffer = Buffer::new(bytes.len())?;
            buffer.fill_with(|out| out.copy_from_slice(bytes));
            return Ok(buffer);
        };
        let copies = stream::copy_stream(device);
        let buffer = Buffer::on(copies, bytes.len())?;
        let event = remote.upload(bytes, buffer.address(), copies)?;
        buffer.set_ready(Some(event));
        Ok(buffer)
    }

    /// Contents that `fill` writes, near where the calling thread's work runs.
    pub(crate) fn from_fill(bytes: usize, fill: impl FnOnce(&mut [u8])) -> Result<Buffer> {
        let device = stream::current().device;
        let backend = backend::backend(device)?;
        let Some(remote) = backend.remote().filter(|_| bytes > INLINE) else {
            let buffer = Buffer::new(bytes)?;
            buffer.fill_with(fill);
            return Ok(buffer);
        };
        let staging = Buffer::pinned(device, bytes)?;
        staging.fill_with(fill);
        let copies = stream::copy_stream(device);
        let buffer = Buffer::on(copies, bytes)?;
        let event = remote.upload_pinned(staging.address(), buffer.address(), bytes, copies)?;
        staging.0.state.lock().used_until.push(event.clone());
        buffer.set_ready(Some(event));
        Ok(buffer)
    }

    /// Address of the first byte, where it was born.
    pub fn address(&self) -> Address {
        self.0.address
    }

    /// Bytes asked for.
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }

    /// Bytes that it really takes.
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// How many hold it.
    pub fn owners(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Whether nothing outside the engine can see or change the contents.
    pub fn is_private(&self) -> bool {
        !self.0.escaped.load(Relaxed)
    }

    /// Records that a writable view of [`Buffer::host`]'s memory left the engine.
    pub fn mark_escaped(&self) {
        self.0.escaped.store(true, Relaxed);
    }

    /// Where it was born.
    pub(crate) fn device(&self) -> Device {
        if self.is_host() { Device::CPU } else { self.0.place.stream.device }
    }

    /// Whether the host may read it where it was born.
    pub(crate) fn is_host(&self) -> bool {
        self.0.place.is_host()
    }

    /// Whether a stream may overwrite it: it is memory of the stream's own, and the host sees no other copy.
    pub(crate) fn may_become_result_of(&self, stream: Stream) -> bool {
        if self.0.place == Place::HOST {
            return stream.device == Device::CPU;
        }
        let state = self.0.state.lock();
        !self.0.place.pinned
            && self.0.place.stream == stream
            && state.used_by.is_empty()
            && state.used_until.iter().all(|e| e.is_done())
    }

    /// New contents: whatever copies there were are of the old ones.
    pub(crate) fn renew(&self) {
        if self.0.place != Place::HOST {
            self.0.state.lock().replicas.clear();
        }
    }

    /// Says when the contents will be there.
    pub(crate) fn set_ready(&self, event: Option<Arc<dyn Event>>) {
        self.0.state.lock().ready = event;
    }

    /// A pinned copy that the run which fills this buffer fills as well.
    pub(crate) fn add_mirror(&self, mirror: Buffer) {
        self.0.state.lock().replicas.push(mirror);
    }

    /// Waits until the contents are there; `poll` is asked every 20 ms.
    pub(crate) fn wait(&self, poll: &dyn Fn() -> Result<()>) -> Result<()> {
        let ready = self.0.state.lock().ready.clone();
        let Some(event) = ready else { return Ok(()) };
        eval::wait_on(&*event, poll)?;
        let mut state = self.0.state.lock();
        if state.ready.as_ref().is_some_and(|e| Arc::ptr_eq(e, &event)) {
            state.ready = None;
        }
        Ok(())
    }

    /// The address at which a stream's kernels read it; the stream is put behind whatever brings the contents
    /// there. Host memory may have to be waited for.
    pub(crate) fn reach(&self, by: Stream) -> Result<Address> {
        if by.device == Device::CPU {
            return if self.0.place == Place::HOST { Ok(self.0.address) } else { Ok(self.host()?.address()) };
        }
        if !self.is_host() && self.0.place.stream.device == by.device {
            if self.is_private() {
                self.order(by)?;
            } else {
                self.send_again(by)?;
            }
            return Ok(self.0.address);
        }
        let replica = self.replica(|r| r.device() == by.device);
        let replica = match replica {
            Some(r) if self.is_private() => r,
            found => self.copy_to(by, found)?,
        };
        replica.order(by)?;
        Ok(replica.address())
    }

    /// Puts a stream behind the contents, and notes that it reads them.
    fn order(&self, by: Stream) -> Result<()> {
        let own = self.0.place.stream == by;
        let mut state = self.0.state.lock();
        if !own && !state.used_by.contains(&by) {
            state.used_by.push(by);
        }
        // What the stream itself was given comes before what it is given next.
        let waits = state.ready.as_ref().is_some_and(|e| !e.is_done());
        if !waits {
            return Ok(());
        }
        if let Some(event) = &state.ready
            && let Some(remote) = backend::backend(by.device)?.remote()
        {
            remote.order(by, &**event)?;
        }
        Ok(())
    }

    fn replica(&self, suits: impl Fn(&Buffer) -> bool) -> Option<Buffer> {
        self.0.state.lock().replicas.iter().find(|r| suits(r)).cloned()
    }

    /// Copies the contents to a stream's device, into `to` if there is a copy already.
    fn copy_to(&self, by: Stream, to: Option<Buffer>) -> Result<Buffer> {
        let backend = backend::backend(by.device)?;
        let Some(remote) = backend.remote() else {
            return Err(Error::new(ErrorKind::Backend, "copy", "the device has no memory of its own"));
        };
        let is_new = to.is_none();
        let target = match to {
            Some(r) => r,
            None => Buffer::on(by, self.0.bytes)?,
        };
        let event = if self.is_host() {
            self.wait(&eval::interrupted)?;
            remote.upload(self.bytes(), target.address(), by)?
        } else {
            if let Some(event) = self.0.state.lock().ready.clone() {
                remote.order(by, &*event)?;
            }
            let from = self.0.place.stream.device;
            let event = remote.copy_from(from, self.0.address, target.address(), self.0.bytes, by)?;
            self.0.state.lock().used_until.push(event.clone());
            event
        };
        target.set_ready(Some(event));
        if is_new {
            self.0.state.lock().replicas.push(target.clone());
        }
        Ok(target)
    }

    /// A view of the host's copy can be written to: what is there counts.
    fn send_again(&self, by: Stream) -> Result<()> {
        let host = self.host()?;
        // One owner is `host`, one the list of copies: nobody has a view any more, and this was the last time.
        if host.owners() == 2 {
            self.0.escaped.store(false, Relaxed);
        }
        if let Some(remote) = backend::backend(by.device)?.remote() {
            let event = remote.upload(host.bytes(), self.0.address, by)?;
            self.set_ready(Some(event));
        }
        Ok(())
    }

    /// The contents in memory that the host reads, there when this returns.
    ///
    /// # Errors
    /// A failure of the work that makes them, exhausted memory, an interrupt.
    pub fn host(&self) -> Result<Buffer> {
        self.wait(&eval::interrupted)?;
        if self.is_host() {
            return Ok(self.clone());
        }
        if let Some(mirror) = self.replica(Buffer::is_host) {
            mirror.wait(&eval::interrupted)?;
            return Ok(mirror);
        }
        let device = self.0.place.stream.device;
        let backend = backend::backend(device)?;
        let Some(remote) = backend.remote() else {
            return Err(Error::new(ErrorKind::Backend, "copy", "the device has no memory of its own"));
        };
        let mirror = Buffer::pinned(device, self.0.bytes)?;
        if self.0.bytes > 0 {
            let copies = stream::copy_stream(device);
            let event = remote.download(self.0.address, mirror.address(), self.0.bytes, copies)?;
            mirror.set_ready(Some(event.clone()));
            self.0.state.lock().used_until.push(event);
        }
        let mirror = {
            let mut state = self.0.state.lock();
            match state.replicas.iter().find(|r| r.is_host()) {
                // Another thread was faster.
                Some(other) => other.clone(),
                None => {
                    state.replicas.push(mirror.clone());
                    mirror
                }
            }
        };
        mirror.wait(&eval::interrupted)?;
        Ok(mirror)
    }

    /// Lets `fill` write the whole of a new buffer on the host.
    pub(crate) fn fill_with(&self, fill: impl FnOnce(&mut [u8])) {
        assert!(self.is_host());
        // SAFETY: the block holds `bytes` bytes (any bit pattern is a u8) that the host may write, and is new,
        // so nobody else has it.
        fill(unsafe { std::slice::from_raw_parts_mut(self.0.address.0 as *mut u8, self.0.bytes) });
    }

    /// The bytes, for reading contents that are on the host: see [`Buffer::host`].
    pub fn bytes(&self) -> &[u8] {
        assert!(self.is_host(), "the contents are on a device");
        // SAFETY: the block holds `bytes` initialised bytes that the host may read, and lives as long as
        // `self`. Contents are written only by donation, which needs sole ownership, or through an escaped
        // view by the user.
        unsafe { std::slice::from_raw_parts(self.0.address.0 as *const u8, self.0.bytes) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let mut after: Vec<Arc<dyn Event>> = std::mem::take(&mut state.used_until);
        after.retain(|e| !e.is_done());
        // A copy into this buffer that nobody waited for may still be on its way.
        if self.place.pinned || state.used_by.is_empty() {
            after.extend(state.ready.take().filter(|e| self.place.pinned && !e.is_done()));
        }
        if !state.used_by.is_empty()
            && let Ok(backend) = backend::backend(self.place.stream.device)
            && let Some(remote) = backend.remote()
        {
            after.extend(state.used_by.iter().filter_map(|&s| remote.mark(s).ok()));
        }
        pool::release(self.place, self.address, self.capacity, after);
    }
}
