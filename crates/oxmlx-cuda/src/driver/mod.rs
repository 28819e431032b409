//! What the backend asks of CUDA: a short list, so that a driver which only records can stand in for the real
//! one, and everything above it is tested on machines without a GPU.

mod capture;
mod check;
mod context;
mod gemm;
pub(crate) mod library;
mod module;
mod nvrtc;
pub mod recording;

pub(crate) use context::{Cuda, device_count, driver_version};
pub(crate) use nvrtc::folder as nvrtc_folder;

use crate::record::{Gemm, Grid, Kernel};
use oxmlx_types::Result;
use std::ffi::c_void;

/// A device's address.
pub(crate) type DeviceAddress = u64;

/// A stream of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StreamHandle(pub usize);

/// An event of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EventHandle(pub usize);

/// A node of a graph that is being captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeHandle(pub usize);

/// A loaded kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Function(pub usize);

/// An instantiated graph, and those of its nodes whose arguments change: the ones that write the parameter block.
#[derive(Debug)]
pub(crate) struct GraphHandle {
    pub graph: usize,
    pub exec: usize,
    pub puts: Vec<usize>,
}

/// What kind of device it is.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// The product's name.
    pub name: String,
    /// Compute capability times ten: 90 for Hopper.
    pub architecture: u32,
    /// Bytes of memory.
    pub memory: usize,
    /// Multiprocessors.
    pub processors: u32,
}

/// Arguments of a launch: pointers to them, as the driver takes them.
pub(crate) type Arguments<'a> = &'a mut [*mut c_void];

/// One device, as the driver sees it. Unless said otherwise nothing waits, and failures of earlier work may come
/// back from any call.
pub(crate) trait Driver: Send + Sync {
    fn info(&self) -> &Info;
    fn allocate(&self, bytes: usize, stream: StreamHandle) -> Result<DeviceAddress>;
    fn free(&self, address: DeviceAddress, stream: StreamHandle);
    /// Gives unused memory back to the device.
    fn trim(&self);
    /// Waits.
    fn allocate_pinned(&self, bytes: usize) -> Result<usize>;
    /// Waits.
    fn free_pinned(&self, address: usize);
    fn create_stream(&self) -> Result<StreamHandle>;
    /// Copies from pinned memory.
    fn copy_in(&self, from: usize, to: DeviceAddress, bytes: usize, stream: StreamHandle) -> Result<()>;
    /// Copies to pinned memory.
    fn copy_out(&self, from: DeviceAddress, to: usize, bytes: usize, stream: StreamHandle) -> Result<()>;
    /// Copies from another device, or within this one.
    fn copy_peer(
        &self,
        device: u16,
        from: DeviceAddress,
        to: DeviceAddress,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()>;
    fn fill(&self, address: DeviceAddress, byte: u8, bytes: usize, stream: StreamHandle) -> Result<()>;
    fn create_event(&self) -> Result<EventHandle>;
    fn record(&self, event: EventHandle, stream: StreamHandle) -> Result<()>;
    fn wait(&self, stream: StreamHandle, event: EventHandle) -> Result<()>;
    /// Whether an event's work is done.
    fn is_done(&self, event: EventHandle) -> Result<bool>;
    /// Whether all of a stream's work is done.
    fn is_idle(&self, stream: StreamHandle) -> Result<bool>;
    /// Whether a kernel has been loaded.
    fn is_loaded(&self, kernel: &Kernel) -> bool;
    /// The function of a kernel, loaded (and compiled) if it has not been.
    fn function(&self, kernel: &Kernel, shared: u32) -> Result<Function>;
    /// Launches a kernel.
    ///
    /// # Safety
    /// The arguments are those that the kernel takes, and what its record says stays valid until it has run.
    unsafe fn launch(
        &self,
        function: Function,
        grid: &Grid,
        arguments: Arguments<'_>,
        stream: StreamHandle,
    ) -> Result<()>;
    /// Starts a matrix product.
    ///
    /// # Safety
    /// The addresses are valid for the product's operands until it has run, and the workspace for its stream.
    unsafe fn gemm(
        &self,
        gemm: &Gemm,
        addresses: [DeviceAddress; 3],
        workspace: (DeviceAddress, usize),
        stream: StreamHandle,
    ) -> Result<()>;
    /// From here on launches on the stream are noted, not run.
    fn begin_capture(&self, stream: StreamHandle) -> Result<()>;
    /// While capturing: what was launched last, on which the next launch will depend.
    fn captured(&self, stream: StreamHandle) -> Result<Vec<NodeHandle>>;
    /// While capturing: lets the next launch depend on these alone.
    fn capture_after(&self, stream: StreamHandle, nodes: &[NodeHandle]) -> Result<()>;
    /// Makes a graph of what was noted; `put` is the kernel whose arguments change.
    fn end_capture(&self, stream: StreamHandle, put: Function) -> Result<GraphHandle>;
    /// Sets the arguments of one of a graph's `puts`.
    ///
    /// # Safety
    /// As for `launch`.
    unsafe fn set_arguments(
        &self,
        graph: &GraphHandle,
        put: usize,
        function: Function,
        grid: &Grid,
        arguments: Arguments<'_>,
    ) -> Result<()>;
    /// Launches a graph.
    ///
    /// # Safety
    /// As for `launch`, for every node.
    unsafe fn launch_graph(&self, graph: &GraphHandle, stream: StreamHandle) -> Result<()>;
    fn destroy_graph(&self, graph: GraphHandle);
}
