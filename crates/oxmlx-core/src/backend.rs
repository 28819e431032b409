//! The seam between the engine and a device.
//!
//! A backend turns a plan into something it can run, once, and runs it against bindings, often. It owns its
//! device's memory, streams and events; the engine owns graphs, plans, lifetimes and order. The engine never
//! names a backend: they register themselves, so nothing needs a dummy where one is absent.

use crate::plan::Plan;
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

/// Everything that one run of a plan reads and writes. Values whose home is `Nowhere` have a layout (groups
/// take their domain's shape from it) and a null base.
pub struct Bindings<'a> {
    /// Per value of the plan.
    pub values: &'a [Bound],
    /// The parameter block: immediates and other run-time words.
    pub params: &'a [u64],
}

/// A plan prepared for one device.
pub trait Executable: Any + Send + Sync {
    /// For the backend's own downcast.
    fn as_any(&self) -> &dyn Any;
    /// Host bytes that it holds, for the plan cache's limit.
    fn bytes(&self) -> usize;
}

/// Progress of work that was handed over.
pub trait Event: Send + Sync {
    /// Whether the work is done.
    fn is_done(&self) -> bool;
    /// Waits until it is.
    fn wait(&self) -> Result<()>;
}

/// Where a device's buffers live: the strategy behind the one address that the engine knows. The CPU's is plain
/// host memory; a device with memory of its own brings copies and their events.
pub trait Residency: Send + Sync {
    /// `address..address+bytes` of fresh memory, aligned to 64 bytes at least.
    fn allocate(&self, bytes: usize) -> Result<Address>;
    /// Gives memory back.
    fn free(&self, address: Address, bytes: usize);
    /// Bytes that the device has in all.
    fn total_memory(&self) -> usize;
}

/// A device that can run plans.
pub trait Backend: Residency {
    /// Which device this is.
    fn device(&self) -> Device;
    /// Prepares a plan: picks kernels, builds launch tables. Does not run anything.
    fn lower(&self, plan: &Arc<Plan>) -> Result<Arc<dyn Executable>>;
    /// Runs steps `begin..end` of a lowered plan on a stream. The caller holds the stream's lock. `poll` is
    /// called between kernels (and, in long ones, between parts): an error from it ends the run.
    fn run(
        &self,
        executable: &dyn Executable,
        steps: std::ops::Range<usize>,
        bindings: &Bindings<'_>,
        stream: Stream,
        poll: &dyn Fn() -> Result<()>,
    ) -> Result<()>;
    /// One element-wise primitive on host scalars, in exactly the arithmetic of its kernel; `None` where the
    /// primitive isn't element-wise.
    fn fold(&self, op: &crate::Primitive, out: oxmlx_types::Dtype, operands: &[Scalar]) -> Option<Scalar>;
}

static BACKENDS: OnceLock<parking_lot::RwLock<Vec<Arc<dyn Backend>>>> = OnceLock::new();

fn registry() -> &'static parking_lot::RwLock<Vec<Arc<dyn Backend>>> {
    BACKENDS.get_or_init(Default::default)
}

/// Makes a device known. A second backend for the same device replaces the first (tests do this).
pub fn register(backend: Arc<dyn Backend>) {
    let mut all = registry().write();
    all.retain(|b| b.device() != backend.device());
    all.push(backend);
}

/// The backend of a device.
pub fn backend(device: Device) -> Result<Arc<dyn Backend>> {
    registry().read().iter().find(|b| b.device() == device).cloned().ok_or_else(|| {
        oxmlx_types::Error::invalid(
            "",
            format!("There is no {device}: no backend for it has been registered."),
        )
    })
}

/// Every device that has a backend.
pub fn devices() -> Vec<Device> {
    registry().read().iter().map(|b| b.device()).collect()
}
