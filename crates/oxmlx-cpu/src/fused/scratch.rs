//! Memory for a kernel's registers: one buffer a thread, kept from run to run.
//!
//! Small kernels run in a microsecond or two; an allocation would be a good part of that. A buffer is taken
//! out of its place while in use, so that a nested kernel simply gets another.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;

/// Larger buffers than this are given back after use.
const KEEP: usize = 64 << 20;
const ALIGN: usize = 64;

/// Owned memory, aligned to a cache line.
struct Block {
    ptr: *mut u8,
    len: usize,
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `take` with this layout.
        unsafe { dealloc(self.ptr, Layout::from_size_align_unchecked(self.len, ALIGN)) }
    }
}

thread_local! {
    /// Two, as a long row takes one for itself and one for a block.
    static KEPT: Cell<[Option<Block>; 2]> = const { Cell::new([None, None]) };
}

/// A buffer in use; back to its thread when dropped.
pub(super) struct Scratch(Option<Block>);

impl Scratch {
    /// At least `bytes` of this thread's scratch memory, with any contents; `None` if memory is exhausted.
    pub fn take(bytes: usize) -> Option<Scratch> {
        let kept = KEPT.try_with(|k| {
            let mut all = k.take();
            let fits = all.iter().position(|b| b.as_ref().is_some_and(|b| b.len >= bytes));
            let block = fits.and_then(|i| all[i].take());
            k.set(all);
            block
        });
        if let Ok(Some(block)) = kept {
            return Some(Scratch(Some(block)));
        }
        let len = bytes.max(1).next_multiple_of(64 << 10);
        let layout = Layout::from_size_align(len, ALIGN).ok()?;
        // SAFETY: the layout is not empty.
        let ptr = unsafe { alloc(layout) };
        (!ptr.is_null()).then_some(Scratch(Some(Block { ptr, len })))
    }

    /// The first byte.
    pub fn ptr(&self) -> *mut u8 {
        self.0.as_ref().map_or(std::ptr::null_mut(), |b| b.ptr)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(block) = self.0.take().filter(|b| b.len <= KEEP) {
            let _ = KEPT.try_with(|k| {
                let mut all = k.take();
                let i = all.iter().position(Option::is_none).unwrap_or(0);
                all[i] = Some(block);
                k.set(all);
            });
        }
    }
}
