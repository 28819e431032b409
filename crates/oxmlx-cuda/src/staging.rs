//! Copies from pageable memory: through a few pieces of pinned memory that are used in turn, filled by several
//! threads, since one thread fills 10 GB/s and the bus takes 55.

use crate::clock::CopyEvent;
use crate::device::Gpu;
use crate::driver::StreamHandle;
use oxmlx_core::backend::Event;
use oxmlx_core::runtime::profile;
use oxmlx_types::Result;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of a piece, and how many there are.
const PIECE: usize = 2 << 20;
const PIECES: usize = 24;
/// Threads that fill pieces, at most.
const THREADS: usize = 8;
/// Copies below this are made by the calling thread.
const ALONE: usize = 4 * PIECE;

/// A piece of pinned memory, and the copy that still reads it.
struct Piece {
    address: usize,
    busy: Option<CopyEvent>,
}

/// A device's pieces.
#[derive(Default)]
pub(crate) struct Staging {
    /// Pieces that nobody fills now, the one used longest ago first.
    free: Mutex<std::collections::VecDeque<Piece>>,
    made: AtomicUsize,
    returned: Condvar,
}

impl Staging {
    fn take(&self, gpu: &Gpu) -> Result<Piece> {
        let mut free = self.free.lock();
        loop {
            let ready = free.iter().position(|p| p.busy.as_ref().is_none_or(|e| e.is_done()));
            if let Some(piece) = ready.and_then(|at| free.remove(at)) {
                return Ok(piece);
            }
            if self.made.load(Relaxed) < PIECES {
                self.made.fetch_add(1, Relaxed);
                drop(free);
                let made = gpu.driver().allocate_pinned(PIECE);
                if made.is_err() {
                    self.made.fetch_sub(1, Relaxed);
                }
                return Ok(Piece { address: made?, busy: None });
            }
            match free.pop_front() {
                Some(piece) => {
                    drop(free);
                    if let Some(event) = &piece.busy {
                        let _span = profile::span("wait", "wait for a staging piece");
                        while event.wait_a_while().transpose()?.is_none() {}
                    }
                    return Ok(piece);
                }
                None => self.returned.wait(&mut free),
            }
        }
    }

    fn give(&self, piece: Piece) {
        self.free.lock().push_back(piece);
        self.returned.notify_one();
    }
}

/// Starts the copy of bytes to a device; returns once they have been read.
pub(crate) fn upload(gpu: &Arc<Gpu>, from: &[u8], to: u64, stream: StreamHandle) -> Result<()> {
    let pieces = from.len().div_ceil(PIECE);
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        loop {
            let i = next.fetch_add(1, Relaxed);
            if i >= pieces {
                return Ok(());
            }
            let part = &from[i * PIECE..from.len().min((i + 1) * PIECE)];
            one(gpu, part, to + (i * PIECE) as u64, stream)?;
        }
    };
    let threads = if from.len() < ALONE {
        1
    } else {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        THREADS.min(cores.div_ceil(2)).min(pieces)
    };
    if threads == 1 {
        return work();
    }
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut outcome = work();
        for other in others {
            // A panic there is a bug; it must not be taken for success.
            outcome = outcome.and(other.join().unwrap_or_else(|_| {
                Err(oxmlx_types::Error::new(
                    oxmlx_types::ErrorKind::Backend,
                    "copy",
                    "a copying thread panicked",
                ))
            }));
        }
        outcome
    })
}

fn one(gpu: &Arc<Gpu>, part: &[u8], to: u64, stream: StreamHandle) -> Result<()> {
    let mut piece = gpu.staging().take(gpu)?;
    piece.busy = None;
    // SAFETY: the piece has PIECE bytes, no copy reads it any more, and nobody else has it.
    unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), piece.address as *mut u8, part.len()) };
    let outcome = gpu.driver().copy_in(piece.address, to, part.len(), stream).and_then(|()| {
        piece.busy = Some(CopyEvent::record(gpu, stream)?);
        Ok(())
    });
    gpu.staging().give(piece);
    outcome
}
