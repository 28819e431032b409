//! A driver without a device: memory is the host's, copies happen at once, launches are counted and the two
//! kernels of the parameter block run here. With it, planning, encoding, graphs, memory and order are tested on
//! machines without a GPU; what other kernels would have computed is whatever the memory held.

use super::{
    Arguments, DeviceAddress, Driver, EventHandle, Function, GraphHandle, Info, NodeHandle, StreamHandle,
};
use crate::record::{Gemm, Grid, Kernel};
use oxmlx_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::alloc::Layout;
use std::collections::HashMap;
use std::ffi::c_void;

/// What was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// A kernel was launched (or noted, while capturing).
    Launch {
        /// Its name.
        kernel: String,
        /// Its shape.
        grid: Grid,
    },
    /// A matrix product.
    Gemm(Gemm),
    /// A graph was made of that many launches.
    Capture(usize),
    /// A graph was launched.
    Graph,
}

#[derive(Default)]
struct Notes {
    asked: Vec<Asked>,
    blocks: HashMap<usize, usize>,
    functions: Vec<String>,
    capturing: Option<Vec<Noted>>,
    graphs: Vec<Vec<Noted>>,
    /// Bytes that may be allocated.
    room: Option<usize>,
}

/// A launch of a kernel that runs here, or the fact of another one.
#[derive(Clone)]
enum Noted {
    Put(Vec<u64>, DeviceAddress),
    Signal(DeviceAddress),
    Other,
}

/// The driver.
pub struct Recording {
    info: Info,
    notes: Mutex<Notes>,
}

impl Default for Recording {
    fn default() -> Recording {
        let info = Info { name: "recording".into(), architecture: 90, memory: 8 << 30, processors: 132 };
        Recording { info, notes: Mutex::default() }
    }
}

const ALIGN: usize = 256;

impl Recording {
    /// What was asked for since this was last called.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.notes.lock().asked)
    }

    /// Lets allocations fail beyond so many bytes.
    pub fn set_room(&self, bytes: Option<usize>) {
        self.notes.lock().room = bytes;
    }

    fn take(&self, bytes: usize) -> Result<usize> {
        let mut notes = self.notes.lock();
        let held: usize = notes.blocks.values().sum();
        let bytes = bytes.max(1);
        let refused = || Error::new(ErrorKind::OutOfMemory, "cuda", "told to refuse");
        if notes.room.is_some_and(|r| held + bytes > r) {
            return Err(refused());
        }
        let layout = Layout::from_size_align(bytes, ALIGN).map_err(|_| refused())?;
        // SAFETY: the size is not zero.
        let p = unsafe { std::alloc::alloc_zeroed(layout) };
        if p.is_null() {
            return Err(refused());
        }
        notes.blocks.insert(p as usize, bytes);
        Ok(p as usize)
    }

    fn give(&self, address: usize) {
        if let Some(bytes) = self.notes.lock().blocks.remove(&address)
            && let Ok(layout) = Layout::from_size_align(bytes, ALIGN)
        {
            // SAFETY: it came from `take` with this layout, and leaves the list once.
            unsafe { std::alloc::dealloc(address as *mut u8, layout) }
        }
    }

    fn note(&self, noted: Noted) {
        let mut notes = self.notes.lock();
        match &mut notes.capturing {
            Some(all) => all.push(noted),
            None => {
                drop(notes);
                run(&noted);
            }
        }
    }
}

/// Runs what can be run here.
fn run(noted: &Noted) {
    match noted {
        Noted::Put(words, to) => {
            // SAFETY: the backend made the block at `to` large enough for the words.
            unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), *to as *mut u64, words.len()) }
        }
        Noted::Signal(record) => {
            // SAFETY: the record is the one that the backend wrote: a flag, its value, a count, and so many
            // triples of destination, source and bytes, all of the host's memory here.
            unsafe {
                let r = *record as *const u64;
                for i in 0..*r.add(2) as usize {
                    let m = r.add(3 + 3 * i);
                    let (to, from, bytes) = (*m as *mut u8, *m.add(1) as *const u8, *m.add(2) as usize);
                    std::ptr::copy_nonoverlapping(from, to, bytes);
                }
                let flag = &*(*r as *const std::sync::atomic::AtomicU64);
                flag.store(*r.add(1), std::sync::atomic::Ordering::Release);
            }
        }
        Noted::Other => {}
    }
}

/// What a launch of a kernel with these arguments means here.
///
/// # Safety
/// The arguments are those of the kernel.
unsafe fn noted(name: &str, arguments: &[*mut c_void]) -> Noted {
    // SAFETY: the caller's promise: `put` takes an address, an array of words and a count, `signal` the address
    // of its record.
    unsafe {
        if name.starts_with("block_put") {
            let to = *arguments[0].cast::<u64>();
            let count = *arguments[2].cast::<u32>() as usize;
            Noted::Put(std::slice::from_raw_parts(arguments[1].cast::<u64>(), count).to_vec(), to)
        } else if name == "block_signal" {
            Noted::Signal(*arguments[0].cast::<u64>())
        } else {
            Noted::Other
        }
    }
}

impl Driver for Recording {
    fn info(&self) -> &Info {
        &self.info
    }
    fn allocate(&self, bytes: usize, _: StreamHandle) -> Result<DeviceAddress> {
        self.take(bytes).map(|a| a as u64)
    }
    fn free(&self, address: DeviceAddress, _: StreamHandle) {
        self.give(address as usize);
    }
    fn trim(&self) {}
    fn allocate_pinned(&self, bytes: usize) -> Result<usize> {
        self.take(bytes)
    }
    fn free_pinned(&self, address: usize) {
        self.give(address);
    }
    fn create_stream(&self) -> Result<StreamHandle> {
        Ok(StreamHandle(1))
    }
    fn copy_in(&self, from: usize, to: DeviceAddress, bytes: usize, _: StreamHandle) -> Result<()> {
        // SAFETY: the caller has both ranges, and all memory is the host's.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) }
        Ok(())
    }
    fn copy_out(&self, from: DeviceAddress, to: usize, bytes: usize, s: StreamHandle) -> Result<()> {
        self.copy_in(from as usize, to as u64, bytes, s)
    }
    fn copy_peer(
        &self,
        _: u16,
        from: DeviceAddress,
        to: DeviceAddress,
        bytes: usize,
        s: StreamHandle,
    ) -> Result<()> {
        self.copy_in(from as usize, to, bytes, s)
    }
    fn fill(&self, address: DeviceAddress, byte: u8, bytes: usize, _: StreamHandle) -> Result<()> {
        // SAFETY: the caller has the range.
        unsafe { std::ptr::write_bytes(address as *mut u8, byte, bytes) }
        Ok(())
    }
    fn create_event(&self) -> Result<EventHandle> {
        Ok(EventHandle(1))
    }
    fn record(&self, _: EventHandle, _: StreamHandle) -> Result<()> {
        Ok(())
    }
    fn wait(&self, _: StreamHandle, _: EventHandle) -> Result<()> {
        Ok(())
    }
    fn is_done(&self, _: EventHandle) -> Result<bool> {
        Ok(true)
    }
    fn is_idle(&self, _: StreamHandle) -> Result<bool> {
        Ok(true)
    }
    fn is_loaded(&self, _: &Kernel) -> bool {
        true
    }
    fn captured(&self, _: StreamHandle) -> Result<Vec<NodeHandle>> {
        let last = self.notes.lock().capturing.as_ref().map_or(0, Vec::len);
        Ok(last.checked_sub(1).map(NodeHandle).into_iter().collect())
    }
    fn capture_after(&self, _: StreamHandle, _: &[NodeHandle]) -> Result<()> {
        Ok(())
    }
    fn function(&self, kernel: &Kernel, _: u32) -> Result<Function> {
        let mut notes = self.notes.lock();
        let at = notes.functions.iter().position(|n| *n == kernel.name).unwrap_or_else(|| {
            notes.functions.push(kernel.name.clone());
            notes.functions.len() - 1
        });
        Ok(Function(at))
    }
    unsafe fn launch(
        &self,
        function: Function,
        grid: &Grid,
        arguments: Arguments<'_>,
        _: StreamHandle,
    ) -> Result<()> {
        let kernel = self.notes.lock().functions[function.0].clone();
        // SAFETY: the caller's promise.
        let noted = unsafe { noted(&kernel, arguments) };
        self.notes.lock().asked.push(Asked::Launch { kernel, grid: *grid });
        self.note(noted);
        Ok(())
    }
    unsafe fn gemm(
        &self,
        gemm: &Gemm,
        _: [DeviceAddress; 3],
        _: (DeviceAddress, usize),
        _: StreamHandle,
    ) -> Result<()> {
        self.notes.lock().asked.push(Asked::Gemm(gemm.clone()));
        self.note(Noted::Other);
        Ok(())
    }
    fn begin_capture(&self, _: StreamHandle) -> Result<()> {
        self.notes.lock().capturing = Some(Vec::new());
        Ok(())
    }
    fn end_capture(&self, _: StreamHandle, _: Function) -> Result<GraphHandle> {
        let mut notes = self.notes.lock();
        let all = notes.capturing.take().unwrap_or_default();
        notes.asked.push(Asked::Capture(all.len()));
        let puts = (0..all.len()).filter(|&i| matches!(all[i], Noted::Put(..))).collect();
        notes.graphs.push(all);
        let at = notes.graphs.len() - 1;
        Ok(GraphHandle { graph: at, exec: at, puts })
    }
    unsafe fn set_arguments(
        &self,
        graph: &GraphHandle,
        put: usize,
        _: Function,
        _: &Grid,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        let noted = unsafe { noted("block_put", arguments) };
        self.notes.lock().graphs[graph.exec][graph.puts[put]] = noted;
        Ok(())
    }
    unsafe fn launch_graph(&self, graph: &GraphHandle, _: StreamHandle) -> Result<()> {
        let all = {
            let mut notes = self.notes.lock();
            notes.asked.push(Asked::Graph);
            notes.graphs[graph.exec].clone()
        };
        all.iter().for_each(run);
        Ok(())
    }
    fn destroy_graph(&self, graph: GraphHandle) {
        self.notes.lock().graphs[graph.exec].clear();
    }
}
