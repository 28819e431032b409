//! The parallel loop that structured kernels use.
//!
//! Kernels cut their work into tasks by the shape alone, never by the number of threads, so that results
//! have the same bits on every machine; this module only decides who runs which task. Polling for
//! interruption stays on the calling thread, between waves of tasks.

use crate::pool;
use oxmlx_types::Result;

/// How many threads run tasks.
pub fn threads() -> usize {
    pool::threads()
}

/// Runs `f(0) .. f(n - 1)`, in any order and on several threads; returns when all are done.
///
/// # Errors
/// A task panicked.
pub fn for_each(n: usize, f: &(dyn Fn(usize) + Sync)) -> Result<()> {
    pool::for_each_chunk(n, f)
}

/// What an interruptible kernel calls between parts.
pub type Poll<'a> = &'a dyn Fn() -> Result<()>;

/// [`for_each`] in waves of `wave` tasks, with a poll between them.
pub fn for_each_polled(n: usize, wave: usize, poll: Poll<'_>, f: &(dyn Fn(usize) + Sync)) -> Result<()> {
    let wave = wave.max(1);
    let mut done = 0;
    while done < n {
        if done > 0 {
            poll()?;
        }
        let len = wave.min(n - done);
        for_each(len, &|i| f(done + i))?;
        done += len;
    }
    Ok(())
}

/// Splits `0..n` into parts of `part` (the last one shorter) and runs them; one part runs on the caller.
/// A part should be 10 to 200 microseconds of work: every wave of parts then takes some milliseconds.
pub fn for_parts(
    n: usize,
    part: usize,
    poll: Poll<'_>,
    f: &(dyn Fn(std::ops::Range<usize>) + Sync),
) -> Result<()> {
    let part = part.max(1);
    if n <= part {
        if n > 0 {
            f(0..n);
        }
        return Ok(());
    }
    let run = |i: usize| f(i * part..((i + 1) * part).min(n));
    for_each_polled(n.div_ceil(part), WAVE * threads(), poll, &run)
}

/// Parts a thread between polls in [`for_parts`].
const WAVE: usize = 64;

/// A pointer that tasks share. Its holder promises that no two tasks touch the same element unless both
/// only read.
#[derive(Clone, Copy)]
pub(crate) struct Shared<T>(pub T);

// SAFETY: a pointer is a number; every dereference is justified where it happens.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// The pointer. A method, so that closures capture the wrapper and not its field.
    pub(crate) fn get(&self) -> T {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_task_runs_once() {
        let hits: Vec<AtomicUsize> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
        for_each_polled(1000, 37, &|| Ok(()), &|i| {
            hits[i].fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
        for_parts(1000, 7, &|| Ok(()), &|r| {
            for i in r {
                hits[i].fetch_add(1, Ordering::Relaxed);
            }
        })
        .unwrap();
        assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 2));
    }
}
