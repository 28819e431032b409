//! Buffers: reference-counted memory with one life on the host today and replicas on devices later.
//!
//! Freed blocks are kept by size class and reused, since fresh pages cost a page fault per 4 KiB, more than
//! most kernels spend on them. The cache is bounded; a request that fails or exceeds the limit first empties
//! the cache, then becomes a typed error, and the process goes on.

use crate::backend::{self, Address};
use oxmlx_types::{Device, Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Reference-counted memory.
#[derive(Clone, Debug)]
pub struct Buffer(Arc<Block>);

#[derive(Debug)]
struct Block {
    address: Address,
    bytes: usize,
    capacity: usize,
    /// A writable view was exported: contents may change behind the engine's back, so it is never donated.
    escaped: AtomicBool,
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

#[derive(Default)]
struct Pool {
    /// Free blocks by capacity.
    free: BTreeMap<usize, Vec<Address>>,
    usage: Usage,
    memory_limit: usize,
    cache_limit: usize,
}

fn pool() -> &'static Mutex<Pool> {
    static POOL: OnceLock<Mutex<Pool>> = OnceLock::new();
    POOL.get_or_init(|| {
        let total = backend::backend(Device::CPU).map_or(usize::MAX, |b| b.total_memory());
        let limit = super::settings::get().memory_limit.unwrap_or(total - total / 16);
        Mutex::new(Pool { memory_limit: limit, cache_limit: (total / 8).min(2 << 30), ..Pool::default() })
    })
}

/// Block sizes: multiples of 64 bytes, then four steps an octave, so that at most a fifth is wasted.
fn size_class(bytes: usize) -> usize {
    if bytes <= 1024 {
        return bytes.max(1).next_multiple_of(64);
    }
    let step = 1usize << (usize::BITS - 1 - (bytes - 1).leading_zeros() - 2);
    bytes.next_multiple_of(step)
}

impl Buffer {
    /// Memory of at least `bytes`, with any contents.
    pub fn new(bytes: usize) -> Result<Buffer> {
        let capacity = size_class(bytes);
        let address = allocate(bytes, capacity)?;
        Ok(Buffer(Arc::new(Block { address, bytes, capacity, escaped: AtomicBool::new(false) })))
    }

    /// Address of the first byte.
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

    /// Records that a writable view left the engine.
    pub fn mark_escaped(&self) {
        self.0.escaped.store(true, Relaxed);
    }

    /// Copies bytes in; the caller is the only user of the buffer.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.0.bytes);
        // SAFETY: the range was just checked to lie in the block, which lives as long as `self`; the buffer
        // is new, so that nobody reads or writes it at the same time.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                (self.0.address.0 + offset) as *mut u8,
                bytes.len(),
            );
        }
    }

    /// Lets `fill` write the whole of a new buffer.
    pub(crate) fn fill_with(&self, fill: impl FnOnce(&mut [u8])) {
        // SAFETY: the block holds `bytes` bytes (any bit pattern is a u8) and is new, so nobody else has it.
        fill(unsafe { std::slice::from_raw_parts_mut(self.0.address.0 as *mut u8, self.0.bytes) });
    }

    /// The bytes, for reading evaluated contents.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the block holds `bytes` initialised bytes and lives as long as `self`. Evaluated contents
        // are written only by donation, which needs sole ownership, or through an escaped view by the user.
        unsafe { std::slice::from_raw_parts(self.0.address.0 as *const u8, self.0.bytes) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut pool = pool().lock();
        pool.usage.active -= self.capacity;
        if pool.usage.cache + self.capacity <= pool.cache_limit {
            pool.usage.cache += self.capacity;
            pool.free.entry(self.capacity).or_default().push(self.address);
        } else {
            drop(pool);
            give_back(self.address, self.capacity);
        }
    }
}

fn give_back(address: Address, capacity: usize) {
    if let Ok(b) = backend::backend(Device::CPU) {
        b.free(address, capacity);
    }
}

fn allocate(bytes: usize, capacity: usize) -> Result<Address> {
    let mut pool = pool().lock();
    let cached = pool.free.get_mut(&capacity).and_then(Vec::pop);
    let address = match cached {
        Some(address) => {
            pool.usage.cache -= capacity;
            address
        }
        None => {
            if pool.usage.active + pool.usage.cache + capacity > pool.memory_limit {
                trim(&mut pool, 0);
            }
            if pool.usage.active + capacity > pool.memory_limit {
                return Err(out_of_memory(bytes, &pool));
            }
            let backend = backend::backend(Device::CPU)?;
            match backend.allocate(capacity) {
                Ok(address) => address,
                Err(_) => {
                    trim(&mut pool, 0);
                    backend.allocate(capacity).map_err(|_| out_of_memory(bytes, &pool))?
                }
            }
        }
    };
    pool.usage.active += capacity;
    pool.usage.peak = pool.usage.peak.max(pool.usage.active);
    Ok(address)
}

fn out_of_memory(bytes: usize, pool: &Pool) -> Error {
    Error::new(
        ErrorKind::OutOfMemory,
        "malloc",
        format!(
            "Cannot allocate {bytes} bytes: {} are in use and the limit is {}. Free arrays, evaluate less at \
             once, or raise the limit with set_memory_limit.",
            pool.usage.active, pool.memory_limit
        ),
    )
}

/// Frees cached blocks, largest first, until at most `keep` bytes are cached.
fn trim(pool: &mut Pool, keep: usize) {
    while pool.usage.cache > keep {
        let Some(mut entry) = pool.free.last_entry() else { return };
        let capacity = *entry.key();
        match entry.get_mut().pop() {
            Some(address) => {
                pool.usage.cache -= capacity;
                give_back(address, capacity);
            }
            None => {
                entry.remove();
            }
        }
    }
}

/// How memory is used now.
pub fn usage() -> Usage {
    pool().lock().usage
}

/// Starts the peak over from what is active now.
pub fn reset_peak() {
    let mut pool = pool().lock();
    pool.usage.peak = pool.usage.active;
}

/// Gives cached memory back to the system.
pub fn clear_cache() {
    super::stream::release_arenas();
    trim(&mut pool().lock(), 0);
}

/// Sets the most bytes that may be active; returns the limit until now.
pub fn set_memory_limit(bytes: usize) -> usize {
    std::mem::replace(&mut pool().lock().memory_limit, bytes)
}

/// The most bytes that may be active.
pub fn memory_limit() -> usize {
    pool().lock().memory_limit
}

/// Sets the most bytes that may be kept for reuse; returns the limit until now.
pub fn set_cache_limit(bytes: usize) -> usize {
    let mut pool = pool().lock();
    trim(&mut pool, bytes);
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
