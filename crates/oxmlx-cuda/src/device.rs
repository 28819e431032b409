//! A GPU as the engine sees it: its memory, its streams, and the seam over which plans come.

use crate::clock::{Clock, CopyEvent, Events, RunEvent};
use crate::driver::{Driver, StreamHandle};
use crate::lower::Lowered;
use crate::staging::{self, Staging};
use oxmlx_core::Primitive;
use oxmlx_core::backend::{Address, Backend, Bindings, Event, Executable, Remote, Residency};
use oxmlx_core::plan::Plan;
use oxmlx_core::runtime::profile::Span;
use oxmlx_core::runtime::{profile, stats};
use oxmlx_types::{Device, DeviceKind, Dtype, Error, ErrorKind, Result, Scalar, Stream};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock, Weak};

/// Bytes that a stream lends the matrix library for a product.
pub(crate) const WORKSPACE: usize = 32 << 20;
/// Products that may run at once.
pub(crate) const WORKSPACES: usize = 4;
/// Pinned memory is asked for in such slabs, from which small pieces are cut: asking takes long.
const SLAB: usize = 1 << 20;
/// Pieces up to this come from slabs.
const SMALL: usize = 16 << 10;

/// A stream with what belongs to it.
pub(crate) struct StreamState {
    pub handle: StreamHandle,
    pub clock: Arc<Clock>,
    /// The matrix library's memory, made on first use; it never moves, since graphs know its address.
    pub workspace: OnceLock<u64>,
    /// Scratch memory: address and bytes.
    pub scratch: Mutex<(u64, usize)>,
}

/// One GPU.
pub(crate) struct Gpu {
    me: Weak<Gpu>,
    device: Device,
    driver: Arc<dyn Driver>,
    /// The process that may use it: a forked child may not.
    pid: u32,
    streams: RwLock<FxHashMap<u32, Arc<StreamState>>>,
    events: Events,
    staging: Staging,
    slab: Mutex<(usize, usize)>,
    /// Streams whose threads have ended, for the next thread.
    spare: Mutex<Vec<Arc<StreamState>>>,
}

impl Gpu {
    pub fn new(index: u16, driver: Arc<dyn Driver>) -> Arc<Gpu> {
        Arc::new_cyclic(|me| Gpu {
            me: me.clone(),
            device: Device { kind: DeviceKind::Gpu, index },
            driver,
            pid: std::process::id(),
            streams: RwLock::default(),
            events: Events::default(),
            staging: Staging::default(),
            slab: Mutex::default(),
            spare: Mutex::default(),
        })
    }

    pub fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    pub fn events(&self) -> &Events {
        &self.events
    }

    pub fn staging(&self) -> &Staging {
        &self.staging
    }

    /// Itself, unless this is a forked child.
    pub fn shared(&self) -> Result<Arc<Gpu>> {
        let alive = self.me.upgrade().filter(|_| self.pid == std::process::id());
        alive.ok_or_else(|| {
            Error::new(
                ErrorKind::Backend,
                "cuda",
                "A forked child can't use the GPU of its parent: start workers with the spawn method, or do GPU \
                 work only in them.",
            )
        })
    }

    /// The state of a stream, made on first use.
    pub fn stream(&self, stream: Stream) -> Result<Arc<StreamState>> {
        if self.pid != std::process::id() {
            self.shared()?;
        }
        if let Some(s) = self.streams.read().get(&stream.index) {
            return Ok(s.clone());
        }
        let mut all = self.streams.write();
        if let Some(s) = all.get(&stream.index) {
            return Ok(s.clone());
        }
        if let Some(state) = self.spare.lock().pop() {
            all.insert(stream.index, state.clone());
            return Ok(state);
        }
        let handle = self.driver.create_stream()?;
        let flag = self.allocate_pinned(64)?.0;
        // SAFETY: eight bytes of pinned memory that nobody else has.
        unsafe { (flag as *mut u64).write(0) };
        let state = Arc::new(StreamState {
            handle,
            clock: Arc::new(Clock::new(flag, handle)),
            workspace: OnceLock::new(),
            scratch: Mutex::new((0, 0)),
        });
        all.insert(stream.index, state.clone());
        Ok(state)
    }

    fn copy_event(&self, stream: StreamHandle) -> Result<Arc<dyn Event>> {
        Ok(Arc::new(CopyEvent::record(&self.shared()?, stream)?))
    }
}

impl StreamState {
    /// The matrix library's memory.
    pub fn workspace(&self, driver: &dyn Driver) -> Result<u64> {
        if let Some(&address) = self.workspace.get() {
            return Ok(address);
        }
        let address = driver.allocate(WORKSPACES * WORKSPACE, self.handle)?;
        Ok(*self.workspace.get_or_init(|| address))
    }

    /// Scratch memory of at least `bytes`; earlier work keeps what it has until it is done.
    pub fn scratch(&self, driver: &dyn Driver, bytes: usize) -> Result<u64> {
        let mut scratch = self.scratch.lock();
        if scratch.1 < bytes {
            if scratch.0 != 0 {
                driver.free(scratch.0, self.handle);
            }
            *scratch = (0, 0);
            let capacity = bytes.next_power_of_two().max(1 << 20).min(bytes.max(256 << 20));
            *scratch = (driver.allocate(capacity, self.handle)?, capacity);
        }
        Ok(scratch.0)
    }
}

/// The time that the host spends on a copy; the copy itself comes when it is the stream's turn.
fn copy(name: &'static str, bytes: usize, stream: Stream) -> Span {
    profile::span("copy", name).number("bytes", bytes).number("stream", stream.index as usize)
}

impl Residency for Gpu {
    fn allocate(&self, bytes: usize, stream: Stream) -> Result<Address> {
        let state = self.stream(stream)?;
        match self.driver.allocate(bytes, state.handle) {
            Err(e) if e.kind == ErrorKind::OutOfMemory => {
                // Memory that was freed on other streams may be had once their work is done.
                self.driver.trim();
                self.driver.allocate(bytes, state.handle)
            }
            other => other,
        }
        .map(|a| Address(a as usize))
    }

    fn free(&self, address: Address, _bytes: usize, stream: Stream) {
        if let Ok(state) = self.stream(stream) {
            self.driver.free(address.0 as u64, state.handle);
        }
    }

    fn total_memory(&self) -> usize {
        self.driver.info().memory
    }

    fn remote(&self) -> Option<&dyn Remote> {
        Some(self)
    }
}

impl Remote for Gpu {
    fn allocate_pinned(&self, bytes: usize) -> Result<Address> {
        if bytes > SMALL {
            self.shared()?;
            return self.driver.allocate_pinned(bytes).map(Address);
        }
        let bytes = bytes.next_multiple_of(64);
        let mut slab = self.slab.lock();
        if slab.1 < bytes {
            self.shared()?;
            *slab = (self.driver.allocate_pinned(SLAB)?, SLAB);
        }
        let address = slab.0;
        *slab = (slab.0 + bytes, slab.1 - bytes);
        Ok(Address(address))
    }

    fn free_pinned(&self, address: Address, bytes: usize) {
        // Pieces of slabs stay where they are: the engine's pool keeps them for reuse.
        if bytes > SMALL && self.shared().is_ok() {
            self.driver.free_pinned(address.0);
        }
    }

    fn upload(&self, from: &[u8], to: Address, stream: Stream) -> Result<Arc<dyn Event>> {
        let state = self.stream(stream)?;
        stats::UPLOADED.add(from.len() as u64);
        let _span = copy("copy to the device", from.len(), stream);
        staging::upload(&self.shared()?, from, to.0 as u64, state.handle)?;
        self.copy_event(state.handle)
    }

    fn upload_pinned(
        &self,
        from: Address,
        to: Address,
        bytes: usize,
        stream: Stream,
    ) -> Result<Arc<dyn Event>> {
        let state = self.stream(stream)?;
        stats::UPLOADED.add(bytes as u64);
        let _span = copy("copy to the device (pinned)", bytes, stream);
        self.driver.copy_in(from.0, to.0 as u64, bytes, state.handle)?;
        self.copy_event(state.handle)
    }

    fn download(&self, from: Address, to: Address, bytes: usize, stream: Stream) -> Result<Arc<dyn Event>> {
        let state = self.stream(stream)?;
        stats::DOWNLOADED.add(bytes as u64);
        let _span = copy("copy to the host", bytes, stream);
        self.driver.copy_out(from.0 as u64, to.0, bytes, state.handle)?;
        self.copy_event(state.handle)
    }

    fn copy_from(
        &self,
        device: Device,
        from: Address,
        to: Address,
        bytes: usize,
        stream: Stream,
    ) -> Result<Arc<dyn Event>> {
        let state = self.stream(stream)?;
        let _span = copy("copy between devices", bytes, stream).number("from", device.index.into());
        self.driver.copy_peer(device.index, from.0 as u64, to.0 as u64, bytes, state.handle)?;
        self.copy_event(state.handle)
    }

    fn order(&self, stream: Stream, after: &dyn Event) -> Result<()> {
        let state = self.stream(stream)?;
        let any = after.as_any();
        if let Some(run) = any.downcast_ref::<RunEvent>() {
            if run.clock.stream == state.handle && run.gpu.device == self.device {
                return Ok(());
            }
            return run.gpu.events.order(self.driver(), state.handle, run.clock.stream);
        }
        if let Some(copy) = any.downcast_ref::<CopyEvent>() {
            if copy.stream == state.handle {
                return Ok(());
            }
            return self.driver.wait(state.handle, copy.handle());
        }
        // Work of the host: nothing on the device can wait for it.
        while after.wait_a_while().transpose()?.is_none() {}
        Ok(())
    }

    fn mark(&self, stream: Stream) -> Result<Arc<dyn Event>> {
        self.copy_event(self.stream(stream)?.handle)
    }

    fn fill(&self, address: Address, byte: u8, bytes: usize, stream: Stream) -> Result<()> {
        let state = self.stream(stream)?;
        self.driver.fill(address.0 as u64, byte, bytes, state.handle)
    }

    fn retire(&self, stream: Stream) {
        if self.pid != std::process::id() {
            return;
        }
        if let Some(state) = self.streams.write().remove(&stream.index) {
            self.spare.lock().push(state);
        }
    }
}

impl Backend for Gpu {
    fn device(&self) -> Device {
        self.device
    }

    fn description(&self) -> (String, String) {
        let info = self.driver.info();
        (info.name.clone(), format!("sm_{}", info.architecture))
    }

    fn lower(&self, plan: &Arc<Plan>) -> Result<Arc<dyn Executable>> {
        Ok(Arc::new(Lowered::new(self.shared()?, plan)?))
    }

    fn run(
        &self,
        executable: &dyn Executable,
        bindings: &Bindings<'_>,
        stream: Stream,
        _poll: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Arc<dyn Event>>> {
        let Some(lowered) = executable.as_any().downcast_ref::<Lowered>() else {
            return Err(Error::new(ErrorKind::Backend, "run", "the executable belongs to another backend"));
        };
        let state = self.stream(stream)?;
        lowered.run(&state, stream, bindings).map(Some)
    }

    fn fold(&self, _op: &Primitive, _out: Dtype, _operands: &[Scalar]) -> Option<Scalar> {
        // The host folds for every device: see the CPU's backend.
        None
    }
}
