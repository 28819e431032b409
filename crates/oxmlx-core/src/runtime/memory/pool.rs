//! Where buffers' memory comes from and goes to: one pool for the host, and two for each GPU, of its own memory
//! and of pinned host memory.
//!
//! Freed blocks are kept by size class and reused, since fresh pages cost a page fault per 4 KiB, more than
//! most kernels spend on them, and a device's allocator costs more still. A device's block is reused by the
//! stream that had it, in that stream's order and so without waiting. The cache is bounded; a request that
//! fails or exceeds the limit first empties the cache, then becomes a typed error, and the process goes on.

use crate::backend::{self, Address, Backend, Event};
use crate::runtime::settings;
use oxmlx_types::{Device, DeviceKind, Error, ErrorKind, Result, Stream};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// What kind of memory, for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The stream in whose order the memory is reused; its device is where the memory is.
    pub stream: Stream,
    /// Host memory that this device copies from and to.
    pub pinned: bool,
}

/// The number of the stream that host memory belongs to: none.
const NO_STREAM: u32 = u32::MAX;

impl Place {
    /// Plain host memory.
    pub const HOST: Place = Place { stream: Stream { index: NO_STREAM, device: Device::CPU }, pinned: false };

    /// A stream's own kind of memory.
    pub fn of(stream: Stream) -> Place {
        if stream.device == Device::CPU { Place::HOST } else { Place { stream, pinned: false } }
    }

    /// Host memory that a device copies from and to.
    pub fn pinned(device: Device) -> Place {
        Place { stream: Stream { index: NO_STREAM, device }, pinned: true }
    }

    /// Whether the host may read it.
    pub fn is_host(self) -> bool {
        self.pinned || self.stream.device == Device::CPU
    }
}

/// How memory is used, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In buffers that somebody holds.
    pub active: usize,
    /// The most that was ever active at once.
    pub peak: usize,
    /// In freed blocks that are kept for reuse.
    pub cache: usize,
}

/// A freed block, and what still uses it besides its own stream.
struct Free {
    address: Address,
    after: Vec<Arc<dyn Event>>,
}

struct Pool {
    place: Place,
    /// Free blocks by capacity and stream.
    free: BTreeMap<(usize, u32), Vec<Free>>,
    usage: Usage,
    memory_limit: usize,
    cache_limit: usize,
}

/// GPUs that have pools.
const GPUS: usize = 16;

/// Every pool, leaked once made; index 0 is the host's.
fn pools() -> &'static [OnceLock<Mutex<Pool>>] {
    static POOLS: [OnceLock<Mutex<Pool>>; 1 + 2 * GPUS] = [const { OnceLock::new() }; 1 + 2 * GPUS];
    &POOLS
}

fn pool(place: Place) -> &'static Mutex<Pool> {
    let device = place.stream.device;
    let at = match device.kind {
        DeviceKind::Cpu => 0,
        DeviceKind::Gpu => 1 + 2 * (device.index as usize % GPUS) + usize::from(place.pinned),
    };
    pools()[at].get_or_init(|| {
        let on = if place.pinned { Device::CPU } else { device };
        let total = backend::backend(on).map_or(usize::MAX, |b| b.total_memory());
        let limit = settings::get().memory_limit.unwrap_or(total - total / 16);
        // Of a GPU's memory all may be kept, as nobody else is served by its return; of the host's, little.
        let (memory_limit, cache_limit) = match (device.kind, place.pinned) {
            (DeviceKind::Cpu, _) => (limit, (total / 8).min(2 << 30)),
            (DeviceKind::Gpu, false) => (limit, limit),
            (DeviceKind::Gpu, true) => (total / 4, (total / 16).min(4 << 30)),
        };
        Mutex::new(Pool { place, free: BTreeMap::new(), usage: Usage::default(), memory_limit, cache_limit })
    })
}

/// Block sizes: multiples of 64 bytes, then four steps an octave, so that at most a fifth is wasted.
pub(crate) fn size_class(bytes: usize) -> usize {
    if bytes <= 1024 {
        return bytes.max(1).next_multiple_of(64);
    }
    let step = 1usize << (usize::BITS - 1 - (bytes - 1).leading_zeros() - 2);
    bytes.next_multiple_of(step)
}

/// A block of at least `bytes`, with the capacity that it really has.
pub(crate) fn allocate(place: Place, bytes: usize) -> Result<(Address, usize)> {
    let capacity = size_class(bytes);
    let mut pool = pool(place).lock();
    let address = match pool.cached(place, capacity)? {
        Some(address) => address,
        None => {
            if pool.usage.active + pool.usage.cache + capacity > pool.memory_limit {
                pool.trim(0);
            }
            if pool.usage.active + capacity > pool.memory_limit {
                return Err(pool.out_of_memory(bytes));
            }
            let backend = backend::backend(place.stream.device)?;
            match fresh(&*backend, place, capacity) {
                Err(e) if e.kind == ErrorKind::OutOfMemory => {
                    pool.trim(0);
                    fresh(&*backend, place, capacity).map_err(|_| pool.out_of_memory(bytes))?
                }
                other => other?,
            }
        }
    };
    pool.usage.active += capacity;
    pool.usage.peak = pool.usage.peak.max(pool.usage.active);
    if settings::get().poison && !place.is_host() {
        poison(place, address, capacity)?;
    }
    Ok((address, capacity))
}

/// Takes a block back; `after` is what still uses it besides its own stream.
pub(crate) fn release(place: Place, address: Address, capacity: usize, after: Vec<Arc<dyn Event>>) {
    let mut pool = pool(place).lock();
    pool.usage.active -= capacity;
    if settings::get().poison && !place.is_host() && after.is_empty() {
        let _ = poison(place, address, capacity);
    }
    if pool.usage.cache + capacity <= pool.cache_limit {
        pool.usage.cache += capacity;
        pool.free.entry((capacity, place.stream.index)).or_default().push(Free { address, after });
    } else {
        drop(pool);
        give_back(place, capacity, Free { address, after });
    }
}

/// Fills memory with NaNs, so that whoever reads what nobody wrote is found out.
fn poison(place: Place, address: Address, bytes: usize) -> Result<()> {
    match backend::backend(place.stream.device)?.remote() {
        Some(remote) => remote.fill(address, 0xff, bytes, place.stream),
        None => Ok(()),
    }
}

fn fresh(backend: &dyn Backend, place: Place, capacity: usize) -> Result<Address> {
    match backend.remote() {
        Some(remote) if place.pinned => remote.allocate_pinned(capacity),
        _ => backend.allocate(capacity, place.stream),
    }
}

fn give_back(place: Place, capacity: usize, free: Free) {
    let Ok(backend) = backend::backend(place.stream.device) else { return };
    match backend.remote() {
        Some(remote) if place.pinned => {
            for event in &free.after {
                while event.wait_a_while().is_none() {}
            }
            remote.free_pinned(free.address, capacity);
        }
        Some(remote) => {
            for event in &free.after {
                let _ = remote.order(place.stream, &**event);
            }
            backend.free(free.address, capacity, place.stream);
        }
        None => backend.free(free.address, capacity, place.stream),
    }
}

impl Pool {
    /// A free block of this capacity that this stream may use now.
    fn cached(&mut self, place: Place, capacity: usize) -> Result<Option<Address>> {
        let Some(list) = self.free.get_mut(&(capacity, place.stream.index)) else { return Ok(None) };
        // The host can't put itself behind an event: it takes only what is done.
        let found = if place.pinned {
            list.iter().rposition(|f| f.after.iter().all(|e| e.is_done()))
        } else {
            list.len().checked_sub(1)
        };
        let Some(free) = found.map(|at| list.swap_remove(at)) else { return Ok(None) };
        self.usage.cache -= capacity;
        if !place.pinned && free.after.iter().any(|e| !e.is_done()) {
            let backend = backend::backend(place.stream.device)?;
            if let Some(remote) = backend.remote() {
                free.after.iter().try_for_each(|e| remote.order(place.stream, &**e))?;
            }
        }
        Ok(Some(free.address))
    }

    fn out_of_memory(&self, bytes: usize) -> Error {
        let what = match (self.place.stream.device.kind, self.place.pinned) {
            (DeviceKind::Cpu, _) => String::new(),
            (DeviceKind::Gpu, true) => " of pinned host memory".into(),
            (DeviceKind::Gpu, false) => format!(" on {}", self.place.stream.device),
        };
        let message = format!(
            "Cannot allocate {bytes} bytes{what}: {} are in use and the limit is {}. Free arrays, evaluate less \
             at once, or raise the limit with set_memory_limit.",
            self.usage.active, self.memory_limit
        );
        Error::new(ErrorKind::OutOfMemory, "malloc", message)
    }

    /// Frees cached blocks, largest first, until at most `keep` bytes are cached.
    fn trim(&mut self, keep: usize) {
        while self.usage.cache > keep {
            let Some(mut entry) = self.free.last_entry() else { return };
            let (capacity, stream) = *entry.key();
            match entry.get_mut().pop() {
                Some(free) => {
                    self.usage.cache -= capacity;
                    let mut place = self.place;
                    place.stream.index = stream;
                    give_back(place, capacity, free);
                }
                None => {
                    entry.remove();
                }
            }
        }
    }
}

/// The default device, if it is there: one that was asked for by name may not be.
fn device_in_use() -> Device {
    let device = crate::runtime::stream::default_device();
    if backend::backend(device).is_ok() { device } else { Device::CPU }
}

/// The pool that the counters and limits speak of: that of the default device.
fn default_pool() -> &'static Mutex<Pool> {
    pool(Place::of(Stream { index: NO_STREAM, device: device_in_use() }))
}

/// How the default device's memory is used now.
pub fn usage() -> Usage {
    default_pool().lock().usage
}

/// How the pinned host memory of the default device is used now.
pub fn pinned_usage() -> Usage {
    let device = device_in_use();
    if device == Device::CPU { Usage::default() } else { pool(Place::pinned(device)).lock().usage }
}

/// Starts the peak over from what is active now.
pub fn reset_peak() {
    let mut pool = default_pool().lock();
    pool.usage.peak = pool.usage.active;
}

/// Gives cached memory of all kinds back.
pub fn clear_cache() {
    crate::runtime::stream::release_arenas();
    for pool in pools().iter().filter_map(OnceLock::get) {
        pool.lock().trim(0);
    }
}

/// Sets the most bytes that may be active; returns the limit until now.
pub fn set_memory_limit(bytes: usize) -> usize {
    std::mem::replace(&mut default_pool().lock().memory_limit, bytes)
}

/// The most bytes that may be active.
pub fn memory_limit() -> usize {
    default_pool().lock().memory_limit
}

/// Sets the most bytes that may be kept for reuse; returns the limit until now.
pub fn set_cache_limit(bytes: usize) -> usize {
    let mut pool = default_pool().lock();
    pool.trim(bytes);
    std::mem::replace(&mut pool.cache_limit, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_waste_little_and_never_shrink() {
        for bytes in (0..5000).chain([1 << 20, (1 << 20) + 1, 3_000_000_000]) {
            let c = size_class(bytes);
            assert!(c >= bytes && c.is_multiple_of(64), "{bytes} {c}");
            assert!(bytes <= 1024 || c - bytes <= bytes / 4, "{bytes} {c}");
            assert_eq!(size_class(c), c);
        }
    }
}
