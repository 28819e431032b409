//! The seam between the engine and a device.
//!
//! A backend turns a plan into something it can run, once, and runs it against bindings, often. It owns its
//! device's memory, streams and events; the engine owns graphs, plans, lifetimes and order. The engine never
//! names a backend: they register themselves, so nothing needs a dummy where one is absent.

use crate::plan::{Plan, ValueId};
use oxmlx_types::{Device, Layout, Result, Scalar, Stream};
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// An address that a kernel may use during one run: a number here; only a backend turns it into a pointer.
/// The bindings promise that its buffer outlives the run and that no two runs write it at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Address(pub usize);

/// A value of the plan as one run sees it.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Address of the buffer's first byte; the layout's offset is not yet added.
    pub base: Address,
    /// Shape, strides and offset in elements.
    pub layout: Layout,
}

/// Everything that one run of a plan reads and writes. Values whose home is `Nowhere` have a null base, and
/// a layout only if a group takes its domain's shape from it.
pub struct Bindings<'a> {
    /// Per value of the plan.
    pub values: &'a [Bound],
    /// The parameter block: immediates and other run-time words.
    pub params: &'a [u64],
    /// Small leaves that are on the host only; their bound address is null and the backend brings them along.
    pub inline: &'a [(ValueId, &'a [u8])],
    /// Small results of which the host wants a copy, with the address of pinned memory for it.
    pub mirrors: &'a [(ValueId, Address)],
}

/// A plan prepared for one device.
pub trait Executable: Any + Send + Sync {
    /// For the backend's own downcast.
    fn as_any(&self) -> &dyn Any;
    /// Host bytes that it holds, for the plan cache's limit.
    fn bytes(&self) -> usize;
}

/// Progress of work that was handed over.
pub trait Event: Any + Send + Sync {
    /// For the backend's own downcast.
    fn as_any(&self) -> &dyn Any;
    /// Whether the work is done.
    fn is_done(&self) -> bool;
    /// The outcome, if it comes within about 20 ms.
    fn wait_a_while(&self) -> Option<Result<()>>;
}

/// Where a device's buffers live: the strategy behind the one address that the engine knows. The CPU's is plain
/// host memory; a device with memory of its own is [`Remote`], too.
pub trait Residency: Send + Sync {
    /// `address..address+bytes` of fresh memory, aligned to 64 bytes at least, for work of this stream.
    fn allocate(&self, bytes: usize, stream: Stream) -> Result<Address>;
    /// Gives memory back, behind all that the stream has been given.
    fn free(&self, address: Address, bytes: usize, stream: Stream);
    /// Bytes that the device has in all.
    fn total_memory(&self) -> usize;
    /// The rest, for memory that the host can't read.
    fn remote(&self) -> Option<&dyn Remote> {
        None
    }
}

/// Memory of a device that the host reads and writes through copies. Nothing here waits for the device, but
/// for room in a queue.
pub trait Remote: Send + Sync {
    /// Host memory from which the device copies at full speed.
    fn allocate_pinned(&self, bytes: usize) -> Result<Address>;
    /// Gives it back.
    fn free_pinned(&self, address: Address, bytes: usize);
    /// Starts a copy from the host, behind what the stream has been given. The source may change afterwards.
    fn upload(&self, from: &[u8], to: Address, stream: Stream) -> Result<Arc<dyn Event>>;
    /// Starts a copy out of pinned memory, which must not change until the event.
    fn upload_pinned(
        &self,
        from: Address,
        to: Address,
        bytes: usize,
        stream: Stream,
    ) -> Result<Arc<dyn Event>>;
    /// Starts a copy into pinned memory, behind what the stream has been given.
    fn download(&self, from: Address, to: Address, bytes: usize, stream: Stream) -> Result<Arc<dyn Event>>;
    /// Starts a copy from another device of the same kind.
    fn copy_from(
        &self,
        device: Device,
        from: Address,
        to: Address,
        bytes: usize,
        stream: Stream,
    ) -> Result<Arc<dyn Event>>;
    /// Lets the stream's later work begin after an event of another stream.
    fn order(&self, stream: Stream, after: &dyn Event) -> Result<()>;
    /// An event behind all that the stream has been given.
    fn mark(&self, stream: Stream) -> Result<Arc<dyn Event>>;
    /// Fills memory with a byte, in the stream's order.
    fn fill(&self, address: Address, byte: u8, bytes: usize, stream: Stream) -> Result<()>;
    /// Frees what a stream holds, after its work; the stream may be used again.
    fn retire(&self, stream: Stream);
}

/// A device that can run plans.
pub trait Backend: Residency {
    /// Which device this is.
    fn device(&self) -> Device;
    /// The product's name and its architecture, for people.
    fn description(&self) -> (String, String) {
        (self.device().to_string(), std::env::consts::ARCH.into())
    }
    /// Prepares a plan: picks kernels, builds launch tables. Does not run anything.
    fn lower(&self, plan: &Arc<Plan>) -> Result<Arc<dyn Executable>>;
    /// Runs a lowered plan on a stream. The caller holds the stream's lock. `poll` is called between kernels
    /// (and, in long ones, between parts): an error from it ends the run. An event says when the work will be
    /// done, if it has only been handed over; no event says that it is.
    fn run(
        &self,
        executable: &dyn Executable,
        bindings: &Bindings<'_>,
        stream: Stream,
        poll: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Arc<dyn Event>>>;
    /// One element-wise primitive on host scalars, in exactly the arithmetic of its kernel; `None` where the
    /// primitive isn't element-wise.
    fn fold(&self, op: &crate::Primitive, out: oxmlx_types::Dtype, operands: &[Scalar]) -> Option<Scalar>;
}

/// Looks for devices besides the host's processor, once, when one is first asked for.
type Discovery = fn() -> Vec<Arc<dyn Backend>>;

#[derive(Default)]
struct Registry {
    all: parking_lot::RwLock<Vec<Arc<dyn Backend>>>,
    discovery: OnceLock<Discovery>,
    discovered: OnceLock<()>,
}

static REGISTRY: OnceLock<Registry> = OnceLock::new();

fn registry() -> &'static Registry {
    REGISTRY.get_or_init(Default::default)
}

/// Makes a device known. A second backend for the same device replaces the first (tests do this).
pub fn register(backend: Arc<dyn Backend>) {
    let mut all = registry().all.write();
    all.retain(|b| b.device() != backend.device());
    all.push(backend);
}

/// Sets what looks for further devices. It runs when a device other than the CPU is first asked for, since
/// finding one can take longer than an import should.
pub fn set_discovery(discovery: Discovery) {
    let _ = registry().discovery.set(discovery);
}

/// Looks for devices, unless that has been done.
pub fn discover() {
    let r = registry();
    r.discovered.get_or_init(|| {
        for backend in r.discovery.get().map(|d| d()).unwrap_or_default() {
            register(backend);
        }
    });
}

/// The backend of a device.
pub fn backend(device: Device) -> Result<Arc<dyn Backend>> {
    if device != Device::CPU {
        discover();
    }
    registry().all.read().iter().find(|b| b.device() == device).cloned().ok_or_else(|| {
        oxmlx_types::Error::invalid(
            "",
            format!("There is no {device}: no backend for it has been registered; python -m oxmlx doctor says why."),
        )
    })
}

/// Every device that has a backend.
pub fn devices() -> Vec<Device> {
    discover();
    registry().all.read().iter().map(|b| b.device()).collect()
}
