//! One run of a program: how the domain is cut into blocks and over threads.
//!
//! Short rows are taken several at a time, as one block; long rows are walked in blocks, once a phase, and
//! a pointwise group is one long row. Work is split between rows where there are enough of them, else
//! between the blocks of a row, phase by phase. Below [`ALONE`] units of work the caller does it all.

use super::exec::{self, Addresses};
use super::gather::{Source, Window};
use super::program::{Code, Home, Phase, Program};
use super::reduce_row::{CHUNK, Reducer};
use super::scratch::Scratch;
use crate::pool;
use oxmlx_core::plan::Extent;
use oxmlx_types::{Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Less work than this (in simple operations on elements) is not worth waking anyone.
const ALONE: usize = 48 << 10;
/// About as much work is done between two polls.
const POLL: usize = 1 << 28;
/// Bytes of the first-level cache that a block may take.
const NEAR: usize = 24 << 10;

type Poll<'a> = &'a dyn Fn() -> Result<()>;

/// Offsets of slots within a scratch area.
#[derive(Default)]
struct Area {
    offsets: SmallVec<[usize; 12]>,
    bytes: usize,
}

impl Area {
    fn add(&mut self, bytes: usize) {
        self.offsets.push(self.bytes);
        self.bytes += (bytes + 63) & !63;
    }
}

/// What a run's threads share.
pub(super) struct Run<'a> {
    program: &'a Program,
    sources: SmallVec<[Source; 8]>,
    outs: SmallVec<[*mut u8; 4]>,
    rows: usize,
    row_len: usize,
    /// Whether blocks are panels of whole rows.
    short: bool,
    /// Elements of a block, and rows of a panel.
    block: usize,
    panel: usize,
    /// Slots, then room for operands that must be gathered, then spare room.
    near: Area,
    gathers: SmallVec<[usize; 8]>,
    /// Per operand, where its window is, if it has one.
    windows: SmallVec<[Option<usize>; 8]>,
    /// Whether the group has rows.
    by_rows: bool,
    spare: usize,
    /// Row slots, then rows' values, then gathered rows' operands.
    far: Area,
    row_values_at: usize,
    row_gathers: SmallVec<[usize; 8]>,
    ones: SmallVec<[u64; 8]>,
    failed: AtomicBool,
    /// Whether the work is split over threads.
    large: bool,
}

// SAFETY: addresses are used for disjoint parts by different threads.
unsafe impl Sync for Run<'_> {}

impl<'a> Run<'a> {
    pub fn new(
        program: &'a Program,
        sources: SmallVec<[Source; 8]>,
        outs: SmallVec<[*mut u8; 4]>,
        rows: usize,
        row_len: usize,
        by_rows: bool,
    ) -> Run<'a> {
        let mut run = Run {
            program,
            sources,
            outs,
            rows,
            row_len,
            short: by_rows && row_len <= CHUNK,
            block: 0,
            panel: 1,
            near: Area::default(),
            gathers: SmallVec::new(),
            windows: SmallVec::new(),
            by_rows,
            spare: 0,
            far: Area::default(),
            row_values_at: 0,
            row_gathers: SmallVec::new(),
            ones: smallvec::smallvec![0; program.one_words],
            failed: AtomicBool::new(false),
            large: rows * row_len * program.cost > ALONE,
        };
        run.cut(by_rows);
        run.lay_out();
        run
    }

    /// Chooses the block. It must never matter for the results.
    fn cut(&mut self, by_rows: bool) {
        let p = self.program;
        let parallel = self.large;
        if self.short {
            let fair = if parallel { self.rows.div_ceil(4 * pool::threads()) } else { self.rows };
            self.panel = (CHUNK / self.row_len.max(1)).min(fair).max(1);
            self.block = self.panel * self.row_len;
        } else if by_rows {
            self.block = CHUNK;
        } else {
            let streams = self.outs.len() + self.sources.len();
            let bytes: usize = p.slots.iter().sum::<usize>() + 4 * streams;
            let fit = (NEAR / bytes.max(1)).clamp(512, 4096);
            let fair = if parallel { self.row_len.div_ceil(2 * pool::threads()) } else { self.row_len };
            self.block = fit.min(fair).next_multiple_of(64);
        }
    }

    fn lay_out(&mut self) {
        let p = self.program;
        for &size in &p.slots {
            self.near.add(size * self.block);
        }
        let whole = if self.short { self.block } else { self.row_len };
        for &size in &p.row_slots {
            self.far.add(size * whole);
        }
        self.row_values_at = self.far.offsets.len();
        for &size in &p.row_values {
            self.far.add(size * self.panel);
        }
        for (i, s) in self.sources.iter().enumerate() {
            let reg = &p.regs[i];
            let gathered = !s.is_dense();
            self.gathers.push(self.near.bytes);
            self.row_gathers.push(self.far.bytes);
            match reg.extent {
                Extent::Full if gathered => self.near.add(reg.size * self.block),
                Extent::Row if gathered => self.far.add(reg.size * self.panel),
                _ => {}
            }
            // Only where a thread walks over many runs: a panel or a row is over before a window pays.
            let across = if self.by_rows || reg.extent != Extent::Full { 0 } else { s.window_bytes() };
            self.windows.push((across > 0).then_some(self.near.bytes));
            self.near.add(across);
        }
        self.spare = self.near.bytes;
        if self.short || p.odd_reduce {
            self.near.add(3 * 8 * self.block);
        }
    }

    /// Runs everything.
    ///
    /// # Safety
    /// As `FusedKernel::run`.
    pub unsafe fn go(mut self, poll: Poll) -> Result<()> {
        let mut at = Addresses::new();
        // SAFETY: the caller's promise; One registers are the caller's own words, inputs or outputs.
        unsafe {
            self.one_addresses(&mut at);
            for s in &self.program.ones {
                exec::narrow(s, &self.program.regs, &at, Extent::One, 1);
            }
            if self.short {
                self.short_rows(&at, poll)?;
            } else if self.rows > 1 && (!self.large || self.rows >= pool::threads()) {
                self.long_rows(&at, poll)?;
            } else {
                self.walk_rows(&at, poll)?;
            }
            if self.failed.load(Ordering::Relaxed) {
                return Err(Error::new(
                    ErrorKind::OutOfMemory,
                    "",
                    "No memory for a kernel's scratch space.",
                ));
            }
            for s in &self.program.ones_last {
                exec::narrow(s, &self.program.regs, &at, Extent::One, 1);
            }
        }
        Ok(())
    }

    /// A table in which the registers of extent One have their addresses.
    fn one_addresses(&mut self, at: &mut Addresses) {
        let ones = self.ones.as_mut_ptr();
        for r in &self.program.regs {
            at.push(match (r.home, r.extent) {
                (Home::One(i), _) => ones.wrapping_add(i as usize).cast(),
                (Home::Input(i), Extent::One) => self.first(i),
                (Home::Output(o), Extent::One) => self.outs[o as usize],
                _ => std::ptr::null_mut(),
            });
        }
    }

    fn first(&self, input: u16) -> *mut u8 {
        // SAFETY: a single element is dense and read in place.
        unsafe { self.sources[input as usize].block(0, 1, std::ptr::null_mut()).cast_mut() }
    }

    /// Does `tasks` pieces of work, on all threads if there is enough of it.
    fn region(&self, tasks: usize, poll: Poll, f: impl Fn(usize) + Sync) -> Result<()> {
        if tasks == 0 {
            return Ok(());
        }
        let work = self.rows.max(1) * self.row_len * self.program.cost;
        let batch = if work <= POLL { tasks } else { (tasks / work.div_ceil(POLL)).max(4 * pool::threads()) };
        let mut begin = 0;
        while begin < tasks {
            poll()?;
            let n = batch.min(tasks - begin);
            if self.large {
                pool::for_each_chunk(n, |i| f(begin + i))?;
            } else {
                (begin..begin + n).for_each(&f);
            }
            begin += n;
        }
        Ok(())
    }

    fn scratch(&self, bytes: usize) -> Option<Scratch> {
        let s = Scratch::take(bytes);
        if s.is_none() {
            self.failed.store(true, Ordering::Relaxed);
        }
        s
    }

    unsafe fn short_rows(&self, ones: &Addresses, poll: Poll) -> Result<()> {
        let panels = self.rows.div_ceil(self.panel);
        let ones = Shared(ones);
        self.region(panels, poll, |i| {
            let Some(scratch) = self.scratch(self.far.bytes + self.near.bytes) else { return };
            let mut at = Addresses::clone(ones.get());
            let row0 = i * self.panel;
            let rows = self.panel.min(self.rows - row0);
            let near = scratch.ptr().wrapping_add(self.far.bytes);
            // SAFETY: the scratch memory is laid out for a panel; panels are disjoint.
            unsafe {
                self.place_rows(&mut at, row0, rows, scratch.ptr());
                self.place_block(&mut at, row0, 0, near, scratch.ptr());
                self.run_panel(&mut at, row0, rows, near);
            }
        })
    }

    /// All phases of a panel of short rows.
    unsafe fn run_panel(&self, at: &mut Addresses, row0: usize, rows: usize, near: *mut u8) {
        let (regs, n) = (&self.program.regs, self.row_len);
        let spare = near.wrapping_add(self.spare);
        let mut windows = self.windows(near);
        // SAFETY: all registers have their places.
        unsafe {
            for phase in &self.program.phases {
                for s in &phase.row {
                    exec::narrow(s, regs, at, Extent::Row, rows);
                }
                for &(r, first) in &phase.loads {
                    if first {
                        self.load(at, r, row0 * n, rows * n, near, &mut windows);
                    }
                }
                for s in &phase.full {
                    if let Code::Reduce(r, _) = &s.code {
                        let from = s.srcs[0] as usize;
                        let src = exec::reduce_source(&regs[from], at[from], rows, n, spare);
                        (r.rows)(src, rows, n, at[s.dst as usize]);
                    } else {
                        exec::full(s, regs, at, rows, n, spare);
                    }
                }
            }
            for s in &self.program.rows_last {
                exec::narrow(s, regs, at, Extent::Row, rows);
            }
        }
    }

    /// Long rows, each by one thread.
    unsafe fn long_rows(&self, ones: &Addresses, poll: Poll) -> Result<()> {
        let ones = Shared(ones);
        self.region(self.rows, poll, |row| {
            let Some(scratch) = self.scratch(self.far.bytes + self.near.bytes) else { return };
            let mut at = Addresses::clone(ones.get());
            let (far, near) = (scratch.ptr(), scratch.ptr().wrapping_add(self.far.bytes));
            // SAFETY: the scratch memory is laid out for a row; rows are disjoint.
            unsafe {
                self.place_rows(&mut at, row, 1, far);
                for phase in &self.program.phases {
                    self.row_steps(phase, &at);
                    let mut acc: SmallVec<[u64; 4]> = smallvec::smallvec![0; phase.reduces.len()];
                    self.walk(&mut at, phase, row, 0..self.blocks(), near, far, |b, k, r, x| {
                        if b == 0 { acc[k] = x } else { (r.combine)(&raw mut acc[k], &raw const x) }
                    });
                    self.store(phase, &acc, &at);
                }
                self.last_steps(&at);
            }
        })
    }

    /// Long rows, one after the other, each by all threads, phase by phase.
    unsafe fn walk_rows(&self, ones: &Addresses, poll: Poll) -> Result<()> {
        let Some(scratch) = self.scratch(self.far.bytes) else { return Ok(()) };
        let (far, blocks) = (scratch.ptr(), self.blocks());
        let tasks = if self.large { blocks.min(8 * pool::threads()) } else { blocks.min(1) };
        for row in 0..self.rows {
            let mut shared = ones.clone();
            // SAFETY: the row's memory belongs to this run, blocks are disjoint, partial results are a word a block.
            unsafe {
                self.place_rows(&mut shared, row, 1, far);
                for phase in &self.program.phases {
                    self.row_steps(phase, &shared);
                    if phase.full.is_empty() {
                        continue;
                    }
                    let width = phase.reduces.len();
                    let mut partial: SmallVec<[u64; 4]> = smallvec::smallvec![0; width * blocks];
                    let view = Shared((partial.as_mut_ptr(), &shared, far));
                    self.region(tasks, poll, |t| {
                        let Some(scratch) = self.scratch(self.near.bytes) else { return };
                        let &(partial, shared, far) = view.get();
                        let mut at = shared.clone();
                        let range = t * blocks / tasks..(t + 1) * blocks / tasks;
                        self.walk(&mut at, phase, row, range, scratch.ptr(), far, |b, k, _, x| {
                            *partial.add(b * width + k) = x;
                        });
                    })?;
                    let (acc, rest) = partial.split_at_mut(width);
                    for chunk in rest.chunks(width.max(1)) {
                        for (k, (_, r)) in phase.reduces.iter().enumerate() {
                            (r.combine)(&raw mut acc[k], &raw const chunk[k]);
                        }
                    }
                    self.store(phase, acc, &shared);
                }
                self.last_steps(&shared);
            }
        }
        Ok(())
    }

    fn blocks(&self) -> usize {
        self.row_len.div_ceil(self.block.max(1))
    }

    /// Some blocks of one phase of a long row; `reduced` gets (block, number, pieces, chunk's result).
    #[allow(clippy::too_many_arguments)]
    unsafe fn walk(
        &self,
        at: &mut Addresses,
        phase: &Phase,
        row: usize,
        blocks: Range<usize>,
        near: *mut u8,
        far: *mut u8,
        mut reduced: impl FnMut(usize, usize, &Reducer, u64),
    ) {
        let regs = &self.program.regs;
        let spare = near.wrapping_add(self.spare);
        let mut windows = self.windows(near);
        for b in blocks {
            let c0 = b * self.block;
            let n = self.block.min(self.row_len - c0);
            // SAFETY: blocks lie within the row; all registers get their places.
            unsafe {
                self.place_block(at, row, c0, near, far);
                for &(r, _) in &phase.loads {
                    self.load(at, r, row * self.row_len + c0, n, near, &mut windows);
                }
                for s in &phase.full {
                    if let Code::Reduce(r, k) = &s.code {
                        let from = s.srcs[0] as usize;
                        let src = exec::reduce_source(&regs[from], at[from], 1, n, spare);
                        let mut x = 0u64;
                        (r.chunk)(src, n, &raw mut x);
                        reduced(b, *k as usize, r, x);
                    } else {
                        exec::full(s, regs, at, 1, n, spare);
                    }
                }
            }
        }
    }

    unsafe fn row_steps(&self, phase: &Phase, at: &Addresses) {
        for s in &phase.row {
            // SAFETY: rows' registers have their places.
            unsafe { exec::narrow(s, &self.program.regs, at, Extent::Row, 1) }
        }
    }

    unsafe fn last_steps(&self, at: &Addresses) {
        for s in &self.program.rows_last {
            // SAFETY: rows' registers have their places.
            unsafe { exec::narrow(s, &self.program.regs, at, Extent::Row, 1) }
        }
    }

    unsafe fn store(&self, phase: &Phase, acc: &[u64], at: &Addresses) {
        for ((dst, r), x) in phase.reduces.iter().zip(acc) {
            // SAFETY: rows' registers have their places.
            unsafe { (r.store)(x, at[*dst as usize]) }
        }
    }

    /// Addresses of rows' registers for a panel; loads their operands.
    unsafe fn place_rows(&self, at: &mut Addresses, row0: usize, rows: usize, far: *mut u8) {
        for (i, r) in self.program.regs.iter().enumerate() {
            if r.extent != Extent::Row {
                continue;
            }
            at[i] = match r.home {
                Home::RowValue(k) => far.wrapping_add(self.far.offsets[self.row_values_at + k as usize]),
                Home::Output(o) => self.outs[o as usize].wrapping_add(row0 * r.size),
                Home::Input(k) => {
                    let room = far.wrapping_add(self.row_gathers[k as usize]);
                    // SAFETY: the rows lie within the domain, the room was laid out for them.
                    unsafe { self.sources[k as usize].block(row0, rows, room).cast_mut() }
                }
                _ => std::ptr::null_mut(),
            };
        }
    }

    /// Addresses of elements' registers for the block at column c0 of row (or first row) `row`.
    unsafe fn place_block(&self, at: &mut Addresses, row: usize, c0: usize, near: *mut u8, far: *mut u8) {
        for (i, r) in self.program.regs.iter().enumerate() {
            if r.extent != Extent::Full {
                continue;
            }
            at[i] = match r.home {
                Home::Slot(k) => near.wrapping_add(self.near.offsets[k as usize]),
                Home::RowSlot(k) => far.wrapping_add(self.far.offsets[k as usize] + c0 * r.size),
                Home::Output(o) => self.outs[o as usize].wrapping_add((row * self.row_len + c0) * r.size),
                _ => continue,
            };
        }
    }

    /// Empty windows of one thread.
    fn windows(&self, near: *mut u8) -> SmallVec<[Option<Window>; 8]> {
        let window = |at: usize| Window { room: near.wrapping_add(at), number: usize::MAX };
        self.windows.iter().map(|w| w.map(window)).collect()
    }

    /// Brings an operand's elements to an address.
    unsafe fn load(
        &self,
        at: &mut Addresses,
        reg: u16,
        start: usize,
        n: usize,
        near: *mut u8,
        windows: &mut [Option<Window>],
    ) {
        let room = near.wrapping_add(self.gathers[reg as usize]);
        let source = &self.sources[reg as usize];
        // SAFETY: the range lies within the domain, the rooms were laid out for a block and a window.
        let p = unsafe {
            match &mut windows[reg as usize] {
                Some(w) => source.block_by_window(start, n, room, w),
                None => source.block(start, n, room),
            }
        };
        at[reg as usize] = p.cast_mut();
    }
}

/// Something with addresses in it that all threads of a region see.
struct Shared<T>(T);
// SAFETY: what is behind the addresses is either only read or written in disjoint parts.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// By a method, so that closures capture the whole.
    fn get(&self) -> &T {
        &self.0
    }
}
