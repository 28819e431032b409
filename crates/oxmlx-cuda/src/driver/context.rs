//! The real driver: one GPU's primary context, which other libraries of the process share.

use super::check::check;
use super::module::Modules;
use super::{
    Arguments, DeviceAddress, Driver, EventHandle, Function, GraphHandle, Info, NodeHandle, StreamHandle,
    capture, gemm,
};
use crate::record::{Gemm, Grid, Kernel};
use cudarc::driver::sys;
use oxmlx_types::{Error, ErrorKind, Result};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// Starts the driver, once; how many GPUs there are, or why none can be used.
pub(crate) fn device_count() -> std::result::Result<u16, String> {
    static COUNT: OnceLock<std::result::Result<u16, String>> = OnceLock::new();
    COUNT
        .get_or_init(|| {
            // SAFETY: this only looks for the library.
            if !unsafe { sys::is_culib_present() } {
                return Err("no NVIDIA driver is installed (libcuda.so.1 was not found)".into());
            }
            let mut count = 0;
            // SAFETY: the library is there; `count` is valid for writes.
            let outcome = unsafe {
                check(sys::cuInit(0), "The NVIDIA driver does not start")
                    .and_then(|()| check(sys::cuDeviceGetCount(&mut count), "The GPUs can't be counted"))
            };
            match outcome {
                Ok(()) if count > 0 => Ok(count as u16),
                Ok(()) => Err("the NVIDIA driver sees no GPU".into()),
                Err(e) => Err(e.message),
            }
        })
        .clone()
}

/// Version of the driver's interface, as in 13.0.
pub(crate) fn driver_version() -> Option<String> {
    device_count().ok()?;
    let mut version = 0;
    // SAFETY: the driver has been started; the place is valid for writes.
    check(unsafe { sys::cuDriverGetVersion(&mut version) }, "").ok()?;
    Some(format!("{}.{}", version / 1000, version % 1000 / 10))
}

/// One GPU.
pub(crate) struct Cuda {
    index: u16,
    device: sys::CUdevice,
    context: sys::CUcontext,
    pool: sys::CUmemoryPool,
    info: Info,
    modules: Modules,
    gemms: gemm::Gemms,
}

// SAFETY: handles of the driver, which locks where it has to.
unsafe impl Send for Cuda {}
// SAFETY: as above.
unsafe impl Sync for Cuda {}

impl Cuda {
    /// Takes hold of a GPU.
    ///
    /// # Errors
    /// Backend: there is none of this number, or its context can't be made.
    pub fn new(index: u16) -> Result<Cuda> {
        let mut device = 0;
        let (mut context, mut pool) = (null_mut(), null_mut());
        // SAFETY: every place that is passed is valid for writes, and each handle is used after the call that
        // made it succeeded.
        let info = unsafe {
            check(sys::cuDeviceGet(&mut device, index.into()), "There is no such GPU")?;
            check(sys::cuDevicePrimaryCtxRetain(&mut context, device), "The GPU's context can't be made")?;
            check(sys::cuCtxSetCurrent(context), "The GPU's context can't be used")?;
            check(sys::cuDeviceGetDefaultMemPool(&mut pool, device), "The GPU has no memory pool")?;
            // What is freed stays with this process until it is trimmed: returning it costs milliseconds.
            let mut keep = u64::MAX;
            let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            let status = sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut keep).cast());
            check(status, "The memory pool's threshold can't be set")?;
            info(device)?
        };
        Ok(Cuda {
            index,
            device,
            context,
            pool,
            info,
            modules: Modules::default(),
            gemms: Default::default(),
        })
    }

    /// Makes this GPU the calling thread's; other libraries may have changed it since the last call.
    fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as the process.
        check(unsafe { sys::cuCtxSetCurrent(self.context) }, "The GPU's context can't be used")
    }

    fn stream(stream: StreamHandle) -> sys::CUstream {
        stream.0 as sys::CUstream
    }

    fn event(event: EventHandle) -> sys::CUevent {
        event.0 as sys::CUevent
    }
}

/// # Safety
/// The driver has been started and the device is one of its.
unsafe fn info(device: sys::CUdevice) -> Result<Info> {
    use sys::CUdevice_attribute as A;
    let attribute = |which: A| {
        let mut value = 0;
        // SAFETY: the caller's promise.
        check(unsafe { sys::cuDeviceGetAttribute(&mut value, which, device) }, "An attribute can't be read")?;
        Ok::<u32, Error>(value as u32)
    };
    let mut name = [0u8; 128];
    let mut memory = 0;
    // SAFETY: the caller's promise; the places are valid for writes of the sizes given.
    unsafe {
        check(
            sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as i32, device),
            "The GPU has no name",
        )?;
        check(sys::cuDeviceTotalMem_v2(&mut memory, device), "The GPU's memory can't be read")?;
    }
    let text = std::ffi::CStr::from_bytes_until_nul(&name).unwrap_or_default();
    Ok(Info {
        name: text.to_string_lossy().into_owned(),
        architecture: 10 * attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?
            + attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        memory,
        processors: attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
    })
}

// SAFETY comments below: handles come from the driver through this type's own functions, and places that are
// passed for results are local variables.
impl Driver for Cuda {
    fn info(&self) -> &Info {
        &self.info
    }

    fn allocate(&self, bytes: usize, stream: StreamHandle) -> Result<DeviceAddress> {
        self.enter()?;
        let mut address = 0;
        // SAFETY: see above.
        let status = unsafe { sys::cuMemAllocAsync(&mut address, bytes.max(1), Cuda::stream(stream)) };
        check(status, "Device memory can't be allocated")?;
        Ok(address)
    }

    fn free(&self, address: DeviceAddress, stream: StreamHandle) {
        if self.enter().is_ok() {
            // SAFETY: the address came from `allocate`; the stream's order keeps it valid for earlier work.
            let _ = unsafe { sys::cuMemFreeAsync(address, Cuda::stream(stream)) };
        }
    }

    fn trim(&self) {
        if self.enter().is_ok() {
            // SAFETY: see above.
            unsafe {
                let _ = sys::cuCtxSynchronize();
                let _ = sys::cuMemPoolTrimTo(self.pool, 0);
            }
        }
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<usize> {
        self.enter()?;
        let mut address: *mut c_void = null_mut();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: see above.
        let status = unsafe { sys::cuMemHostAlloc(&mut address, bytes.max(1), flags) };
        check(status, "Pinned host memory can't be allocated")?;
        Ok(address as usize)
    }

    fn free_pinned(&self, address: usize) {
        if self.enter().is_ok() {
            // SAFETY: the address came from `allocate_pinned`, and the caller has waited for its users.
            let _ = unsafe { sys::cuMemFreeHost(address as *mut c_void) };
        }
    }

    fn create_stream(&self) -> Result<StreamHandle> {
        self.enter()?;
        let mut stream = null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: see above.
        check(unsafe { sys::cuStreamCreate(&mut stream, flags) }, "A stream can't be made")?;
        Ok(StreamHandle(stream as usize))
    }

    fn copy_in(&self, from: usize, to: DeviceAddress, bytes: usize, stream: StreamHandle) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller has both ranges, which stay valid in the stream's order.
        let status =
            unsafe { sys::cuMemcpyHtoDAsync_v2(to, from as *const c_void, bytes, Cuda::stream(stream)) };
        check(status, "A copy to the GPU can't be started")
    }

    fn copy_out(&self, from: DeviceAddress, to: usize, bytes: usize, stream: StreamHandle) -> Result<()> {
        self.enter()?;
        // SAFETY: as in `copy_in`.
        let status =
            unsafe { sys::cuMemcpyDtoHAsync_v2(to as *mut c_void, from, bytes, Cuda::stream(stream)) };
        check(status, "A copy from the GPU can't be started")
    }

    fn copy_peer(
        &self,
        device: u16,
        from: DeviceAddress,
        to: DeviceAddress,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        self.enter()?;
        if device == self.index {
            // SAFETY: as in `copy_in`.
            let status = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, Cuda::stream(stream)) };
            return check(status, "A copy within the GPU can't be started");
        }
        let (mut other, mut context) = (0, null_mut());
        // SAFETY: as in `copy_in`; the other GPU's context exists, since its memory does.
        unsafe {
            check(sys::cuDeviceGet(&mut other, device.into()), "There is no such GPU")?;
            check(sys::cuDevicePrimaryCtxRetain(&mut context, other), "The GPU's context can't be used")?;
            let status = sys::cuMemcpyPeerAsync(to, self.context, from, context, bytes, Cuda::stream(stream));
            let _ = sys::cuDevicePrimaryCtxRelease_v2(other);
            check(status, "A copy between GPUs can't be started")
        }
    }

    fn fill(&self, address: DeviceAddress, byte: u8, bytes: usize, stream: StreamHandle) -> Result<()> {
        self.enter()?;
        // SAFETY: as in `copy_in`.
        let status = unsafe { sys::cuMemsetD8Async(address, byte, bytes, Cuda::stream(stream)) };
        check(status, "Memory can't be filled")
    }

    fn create_event(&self) -> Result<EventHandle> {
        self.enter()?;
        let mut event = null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: see above.
        check(unsafe { sys::cuEventCreate(&mut event, flags) }, "An event can't be made")?;
        Ok(EventHandle(event as usize))
    }

    fn record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        self.enter()?;
        // SAFETY: see above.
        check(
            unsafe { sys::cuEventRecord(Cuda::event(event), Cuda::stream(stream)) },
            "An event can't be recorded",
        )
    }

    fn wait(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        self.enter()?;
        // SAFETY: see above.
        let status = unsafe { sys::cuStreamWaitEvent(Cuda::stream(stream), Cuda::event(event), 0) };
        check(status, "A stream can't wait")
    }

    fn is_done(&self, event: EventHandle) -> Result<bool> {
        // SAFETY: see above.
        match unsafe { sys::cuEventQuery(Cuda::event(event)) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            status => check(status, "The GPU's work failed").map(|()| true),
        }
    }

    fn is_idle(&self, stream: StreamHandle) -> Result<bool> {
        // SAFETY: see above.
        match unsafe { sys::cuStreamQuery(Cuda::stream(stream)) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            status => check(status, "The GPU's work failed").map(|()| true),
        }
    }

    fn is_loaded(&self, kernel: &Kernel) -> bool {
        self.modules.is_loaded(kernel)
    }

    fn function(&self, kernel: &Kernel, shared: u32) -> Result<Function> {
        self.enter()?;
        self.modules.function(kernel, shared, self.info.architecture)
    }

    unsafe fn launch(
        &self,
        function: Function,
        grid: &Grid,
        arguments: Arguments<'_>,
        stream: StreamHandle,
    ) -> Result<()> {
        self.enter()?;
        let [x, y, z] = grid.blocks;
        // SAFETY: the caller's promise.
        let status = unsafe {
            sys::cuLaunchKernel(
                function.0 as sys::CUfunction,
                x,
                y,
                z,
                grid.threads,
                1,
                1,
                grid.shared,
                Cuda::stream(stream),
                arguments.as_mut_ptr(),
                null_mut(),
            )
        };
        check(status, "A kernel can't be launched")
    }

    unsafe fn gemm(
        &self,
        gemm: &Gemm,
        addresses: [DeviceAddress; 3],
        workspace: (DeviceAddress, usize),
        stream: StreamHandle,
    ) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise.
        unsafe { self.gemms.run(gemm, addresses, workspace, Cuda::stream(stream)) }
    }

    fn begin_capture(&self, stream: StreamHandle) -> Result<()> {
        self.enter()?;
        capture::begin(Cuda::stream(stream))
    }

    fn captured(&self, stream: StreamHandle) -> Result<Vec<NodeHandle>> {
        capture::captured(Cuda::stream(stream))
    }

    fn capture_after(&self, stream: StreamHandle, nodes: &[NodeHandle]) -> Result<()> {
        capture::after(Cuda::stream(stream), nodes)
    }

    fn end_capture(&self, stream: StreamHandle, put: Function) -> Result<GraphHandle> {
        self.enter()?;
        capture::end(Cuda::stream(stream), put)
    }

    unsafe fn set_arguments(
        &self,
        graph: &GraphHandle,
        put: usize,
        function: Function,
        grid: &Grid,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { capture::set_arguments(graph, put, function, grid, arguments) }
    }

    unsafe fn launch_graph(&self, graph: &GraphHandle, stream: StreamHandle) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise.
        let status = unsafe { sys::cuGraphLaunch(graph.exec as sys::CUgraphExec, Cuda::stream(stream)) };
        check(status, "A graph can't be launched")
    }

    fn destroy_graph(&self, graph: GraphHandle) {
        if self.enter().is_ok() {
            capture::destroy(graph);
        }
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // SAFETY: the context was retained once, by `new`.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// An error for what only a real device can do.
pub(super) fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, "cuda", what)
}
