//! Scratch memory of a thread, kept between kernels so that blocks do not fault in fresh pages each time.

use std::cell::RefCell;

/// More than this many bytes are given back after use.
const KEEP: usize = 16 << 20;

thread_local! {
    static SPARE: RefCell<Vec<Vec<[u64; 8]>>> = const { RefCell::new(Vec::new()) };
}

/// Lends `n` elements whose contents are arbitrary. `T` must be a plain number (any bits are a value), of at
/// most 8 bytes alignment; loans may nest.
pub(crate) fn with<T: crate::element::Element, R>(n: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
    let lines = (n * size_of::<T>()).div_ceil(64);
    let mut block = SPARE.with(|s| s.borrow_mut().pop()).unwrap_or_default();
    if block.len() < lines {
        block.resize(lines, [0; 8]);
    }
    // SAFETY: the block has room for n elements, is aligned for 8-byte numbers, and all bits are values.
    let result = f(unsafe { std::slice::from_raw_parts_mut(block.as_mut_ptr().cast::<T>(), n) });
    if block.len() * 64 <= KEEP {
        SPARE.with(|s| s.borrow_mut().push(block));
    }
    result
}
