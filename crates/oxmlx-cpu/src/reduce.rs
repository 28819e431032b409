//! Reductions along any axes, and positions of extremes.
//!
//! Two directions: *columns*, where neighbours in memory belong to different results, fold whole rows into a
//! row of accumulators; *rows*, where neighbours belong to one result, keep 64 interleaved accumulators. Work
//! is cut by the shape alone and partial results combine in order, so bits do not depend on threads; sums
//! restart every 512 steps, so that rounding errors grow with the number of blocks instead of elements.

use crate::element::{Arith, Element};
use crate::fold::{Fold, Kind, Max, Min, dispatch_fold};
use crate::par::{Poll, Shared, for_each_polled, for_parts, threads};
use crate::simd::vectorized;
use crate::view::{NdLoop, View, ViewMut, dispatch, row_major};
use oxmlx_core::primitive::ReduceOp;
use oxmlx_types::{Dtype, Layout, Result};

/// Steps after which a sum restarts.
const BLOCK: usize = 512;
/// Accumulators of one row.
const LANES: usize = 64;
/// Columns that one task folds.
const WIDTH: usize = 1024;
/// Elements that a task should read.
const PART: usize = 1 << 17;

/// A reduction; `out` has length 1 along `axes`.
pub fn reduce(
    op: ReduceOp,
    axes: &[u8],
    input: &View<'_>,
    out: &mut ViewMut<'_>,
    poll: Poll<'_>,
) -> Result<()> {
    let kind = match op {
        ReduceOp::Sum => Kind::Sum,
        ReduceOp::Prod => Kind::Prod,
        ReduceOp::Max | ReduceOp::Any => Kind::Max,
        ReduceOp::Min | ReduceOp::All => Kind::Min,
    };
    if matches!(op, ReduceOp::All | ReduceOp::Any) && input.dtype != Dtype::Bool {
        let truth = truth_of(input, poll)?;
        let layout = Layout::contiguous(input.shape());
        let bools = View { ptr: truth.as_ptr(), dtype: Dtype::Bool, layout: &layout };
        return reduce(op, axes, &bools, out, poll);
    }
    let kind = kind.for_dtype(input.dtype);
    if input.dtype == Dtype::Bool {
        // Bools are bytes whose neutral elements must be bools as well.
        return with_bool(kind, axes, input, out, poll);
    }
    dispatch!(input.dtype, T => dispatch_fold!(kind, F => typed::<T, F>(axes, input, out, poll)))
}

/// Bool reductions: as bytes, whose neutral elements of an empty max or min are cut to 0 and 1.
fn with_bool(kind: Kind, axes: &[u8], input: &View<'_>, out: &mut ViewMut<'_>, poll: Poll<'_>) -> Result<()> {
    if input.size() == 0 {
        // SAFETY: the whole output, one byte an element.
        unsafe { std::ptr::write_bytes(out.origin::<u8>(), (kind == Kind::Min) as u8, out.size()) };
        return Ok(());
    }
    dispatch_fold!(kind, F => typed::<u8, F>(axes, input, out, poll))
}

/// Whether each element is not zero, row-major.
fn truth_of(input: &View<'_>, poll: Poll<'_>) -> Result<Vec<u8>> {
    let mut truth = vec![0u8; input.size()];
    let walk = NdLoop::new(input.shape(), [input.strides(), &row_major(input.shape())]);
    let inner = walk.inner();
    let dst = Shared(truth.as_mut_ptr());
    if truth.is_empty() {
        return Ok(truth);
    }
    dispatch!(input.dtype, T => {
        let src = Shared(input.origin::<T>());
        for_parts(walk.runs(), PART.div_ceil(inner.len), poll, &|r| {
            walk.for_runs(r, |at| for i in 0..inner.len as isize {
                // SAFETY: offsets of the input's layout and of its row-major copy.
                unsafe {
                    let x = *src.get().offset(at[0] + i * inner.step[0]);
                    *dst.get().offset(at[1] + i * inner.step[1]) = !x.widen().zero() as u8;
                }
            });
        })
    })?;
    Ok(truth)
}

/// The two halves of a shape, each with its densest axis innermost.
struct Split {
    /// Kept axes: steps in the input and in the output.
    kept: NdLoop<2>,
    /// Reduced axes: steps in the input.
    folded: NdLoop<1>,
}

impl Split {
    fn new(input: &View<'_>, out_shape: &[usize], axes: &[u8]) -> Split {
        let out_strides = row_major(out_shape);
        let mut order: Vec<usize> = (0..input.shape().len()).collect();
        order.sort_by_key(|&a| std::cmp::Reverse(input.strides()[a].unsigned_abs()));
        let pick = |folded: bool| order.iter().copied().filter(move |&a| axes.contains(&(a as u8)) == folded);
        let shape = |folded| pick(folded).map(|a| input.shape()[a]).collect::<Vec<_>>();
        let steps = |folded| pick(folded).map(|a| input.strides()[a]).collect::<Vec<_>>();
        let out_steps: Vec<isize> = pick(false).map(|a| out_strides[a]).collect();
        Split {
            kept: NdLoop::new(&shape(false), [&steps(false), &out_steps]),
            folded: NdLoop::new(&shape(true), [&steps(true)]),
        }
    }

    fn kept_len(&self) -> usize {
        self.kept.runs() * self.kept.inner().len
    }

    fn folded_len(&self) -> usize {
        self.folded.runs() * self.folded.inner().len
    }

    /// Whether neighbours in memory belong to different results.
    fn by_columns(&self) -> bool {
        let (k, f) = (self.kept.inner(), self.folded.inner());
        k.len >= 4 && (f.len < 4 || k.step[0].unsigned_abs() <= f.step[0].unsigned_abs())
    }

    /// Calls `f(offset, step, count)` for pieces that cover folded elements `range`, none longer than BLOCK and
    /// none across a multiple of BLOCK from the range's start; `end` after each block.
    #[inline(always)]
    fn pieces(
        &self,
        range: std::ops::Range<usize>,
        mut f: impl FnMut(isize, isize, usize),
        mut end: impl FnMut(),
    ) {
        let inner = self.folded.inner();
        let (mut at, mut left) = (range.start, BLOCK);
        while at < range.end {
            let within = at % inner.len;
            let n = (inner.len - within).min(range.end - at).min(left);
            let base = self.folded.offsets(at / inner.len)[0];
            f(base + within as isize * inner.step[0], inner.step[0], n);
            at += n;
            left -= n;
            if left == 0 || at == range.end {
                end();
                left = BLOCK;
            }
        }
    }
}

fn typed<T: Element, F: Fold>(
    axes: &[u8],
    input: &View<'_>,
    out: &mut ViewMut<'_>,
    poll: Poll<'_>,
) -> Result<()> {
    let split = Split::new(input, out.shape(), axes);
    let (kept, folded) = (split.kept_len(), split.folded_len());
    if kept == 0 {
        return Ok(());
    }
    let dst = Shared(out.origin::<T>());
    let inner = split.kept.inner();
    // Result `i` in the kept order goes here.
    let place = |i: usize| {
        let at = split.kept.offsets(i / inner.len)[1] + (i % inner.len) as isize * inner.step[1];
        dst.get().wrapping_offset(at)
    };
    // Units of results, and chunks of folded elements where there are too few units to share out.
    let columns = split.by_columns();
    let width = if columns { WIDTH.min(inner.len) } else { (PART / folded.max(1)).clamp(1, kept) };
    let (per_run, runs) = if columns { (inner.len, split.kept.runs()) } else { (kept, 1) };
    let units_per_run = per_run.div_ceil(width);
    let units = units_per_run * runs;
    let chunk = if units >= 32 || width * folded <= 2 * PART {
        folded.max(1)
    } else {
        folded.div_ceil(64).max(PART / width).next_multiple_of(BLOCK)
    };
    let chunks = folded.div_ceil(chunk).max(1);
    let mut partial = vec![F::init::<T::Acc>(); if chunks > 1 { chunks * kept } else { 0 }];
    let part = Shared(partial.as_mut_ptr());
    let src = input.origin::<T>();
    let source = Shared(src);
    let wave = (1 << 24) / (width * chunk.min(folded.max(1))).max(1);
    for_each_polled(units * chunks, wave.max(1) * threads(), poll, &|task| {
        let (unit, c) = (task / chunks, task % chunks);
        let (run, block) = (unit / units_per_run, unit % units_per_run);
        let first = run * per_run + block * width;
        let n = width.min(per_run - block * width);
        let range = c * chunk..((c + 1) * chunk).min(folded);
        crate::scratch::with::<T::Acc, _>(2 * n, |acc| {
            let (acc, total) = acc.split_at_mut(n);
            // SAFETY: the view promises that its layout lies in its buffer.
            unsafe {
                if columns {
                    fold_columns::<T, F>(&split, source.get(), first, range, acc, total);
                } else {
                    fold_rows::<T, F>(&split, source.get(), first, range, total);
                }
            }
            for (j, v) in total.iter().enumerate() {
                // SAFETY: result first + j, of this task (and chunk) only.
                unsafe {
                    if chunks > 1 {
                        *part.get().add(c * kept + first + j) = *v;
                    } else {
                        *place(first + j) = T::narrow(*v);
                    }
                }
            }
        });
    })?;
    if chunks > 1 {
        for i in 0..kept {
            let v = (1..chunks).fold(partial[i], |a, c| F::apply(a, partial[c * kept + i]));
            // SAFETY: result i.
            unsafe { *place(i) = T::narrow(v) };
        }
    }
    Ok(())
}

/// Folds results `first .. first + total.len()`, which lie in one run of kept elements.
///
/// # Safety
/// `src` must be the split's input.
unsafe fn fold_columns<T: Element, F: Fold>(
    split: &Split,
    src: *const T,
    first: usize,
    range: std::ops::Range<usize>,
    acc: &mut [T::Acc],
    total: &mut [T::Acc],
) {
    let inner = split.kept.inner();
    let base = split.kept.offsets(first / inner.len)[0] + (first % inner.len) as isize * inner.step[0];
    total.fill(F::init());
    acc.fill(F::init());
    let (acc, total, n) = (Shared(acc.as_mut_ptr()), Shared(total.as_mut_ptr()), total.len());
    if !F::BLOCKED {
        split.pieces(
            range,
            // SAFETY: offsets of the input; accumulators of n elements.
            |at, step, rows| unsafe {
                add_rows::<T, F>(src.offset(base + at), step, rows, inner.step[0], total.get(), n)
            },
            || (),
        );
        return;
    }
    split.pieces(
        range,
        // SAFETY: as above.
        |at, step, rows| unsafe {
            add_rows::<T, F>(src.offset(base + at), step, rows, inner.step[0], acc.get(), n)
        },
        || {
            for j in 0..n {
                // SAFETY: accumulators of n elements.
                unsafe {
                    *total.get().add(j) = F::apply(*total.get().add(j), *acc.get().add(j));
                    *acc.get().add(j) = F::init();
                }
            }
        },
    );
}

vectorized! {
    /// `acc[j] = fold(acc[j], src[r * row_step + j * step])` for each row in order.
    ///
    /// # Safety
    /// All those offsets and `n` accumulators must be valid.
    unsafe fn add_rows<T: Element, F: Fold>(src: *const T, row_step: isize, rows: usize, step: isize, acc: *mut T::Acc, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut r = 0;
            if step == 1 {
                while r + 4 <= rows {
                    let p = src.offset(r as isize * row_step);
                    let (q, s, t) = (p.offset(row_step), p.offset(2 * row_step), p.offset(3 * row_step));
                    for j in 0..n {
                        let a = F::apply(*acc.add(j), (*p.add(j)).widen());
                        let a = F::apply(a, (*q.add(j)).widen());
                        let a = F::apply(a, (*s.add(j)).widen());
                        *acc.add(j) = F::apply(a, (*t.add(j)).widen());
                    }
                    r += 4;
                }
            }
            while r < rows {
                let p = src.offset(r as isize * row_step);
                for j in 0..n {
                    *acc.add(j) = F::apply(*acc.add(j), (*p.offset(j as isize * step)).widen());
                }
                r += 1;
            }
        }
    }
}

/// Folds results `first .. first + total.len()`, each along its own elements.
///
/// # Safety
/// `src` must be the split's input.
unsafe fn fold_rows<T: Element, F: Fold>(
    split: &Split,
    src: *const T,
    first: usize,
    range: std::ops::Range<usize>,
    total: &mut [T::Acc],
) {
    let inner = split.kept.inner();
    for (j, total) in total.iter_mut().enumerate() {
        let i = first + j;
        let base = split.kept.offsets(i / inner.len)[0] + (i % inner.len) as isize * inner.step[0];
        let mut sum = F::init::<T::Acc>();
        split.pieces(
            range.clone(),
            // SAFETY: offsets of the input.
            |at, step, n| sum = F::apply(sum, unsafe { fold_run::<T, F>(src.offset(base + at), step, n) }),
            || (),
        );
        *total = sum;
    }
}

vectorized! {
    /// Folds one run with interleaved accumulators.
    ///
    /// # Safety
    /// `n` elements at that step must be valid.
    unsafe fn fold_run<T: Element, F: Fold>(src: *const T, step: isize, n: usize) -> T::Acc {
        let mut acc = [F::init::<T::Acc>(); LANES];
        let whole = n / LANES * LANES;
        let mut at = 0;
        // SAFETY: below n.
        unsafe {
            while at < whole && step == 1 {
                for l in 0..LANES {
                    acc[l] = F::apply(acc[l], (*src.add(at + l)).widen());
                }
                at += LANES;
            }
        }
        // A copy: an array that is indexed at run time can't stay in registers.
        let mut tail = acc;
        // SAFETY: below n.
        unsafe {
            while at < n {
                tail[at % LANES] = F::apply(tail[at % LANES], (*src.offset(at as isize * step)).widen());
                at += 1;
            }
        }
        let mut width = LANES / 2;
        while width > 0 {
            for l in 0..width {
                tail[l] = F::apply(tail[l], tail[l + width]);
            }
            width /= 2;
        }
        tail[0]
    }
}

/// Position of the largest or smallest element along an axis.
pub fn arg_reduce(
    max: bool,
    axis: u8,
    input: &View<'_>,
    out: &mut ViewMut<'_>,
    poll: Poll<'_>,
) -> Result<()> {
    dispatch!(input.dtype, T => if max {
        arg_typed::<T, Max>(axis, input, out, poll)
    } else {
        arg_typed::<T, Min>(axis, input, out, poll)
    })
}

/// Whether `x` replaces `best`: it is further out, or the first NaN.
#[inline(always)]
fn beats<A: Arith, F: Fold>(x: A, best: A) -> bool {
    let further = if F::init::<A>() == A::LOWEST { best.less(x) } else { x.less(best) };
    (further || x.nan()) && !best.nan()
}

fn arg_typed<T: Element, F: Fold>(
    axis: u8,
    input: &View<'_>,
    out: &mut ViewMut<'_>,
    poll: Poll<'_>,
) -> Result<()> {
    let split = Split::new(input, out.shape(), &[axis]);
    let (kept, len) = (split.kept_len(), input.shape()[axis as usize]);
    if kept == 0 || len == 0 {
        return Ok(());
    }
    let step = input.strides()[axis as usize];
    let (src, dst) = (Shared(input.origin::<T>()), Shared(out.origin::<u32>()));
    let inner = split.kept.inner();
    if !split.by_columns() {
        return for_parts(kept, PART.div_ceil(len), poll, &|r| {
            for i in r {
                let run = split.kept.offsets(i / inner.len);
                let j = (i % inner.len) as isize;
                // SAFETY: a row of the input and the place of its result.
                unsafe {
                    let row = src.get().offset(run[0] + j * inner.step[0]);
                    *dst.get().offset(run[1] + j * inner.step[1]) = arg_row::<T, F>(row, step, len) as u32;
                }
            }
        });
    }
    let blocks = inner.len.div_ceil(WIDTH);
    for_parts(split.kept.runs() * blocks, (PART / (len * WIDTH.min(inner.len))).max(1), poll, &|r| {
        for unit in r {
            let (run, j) = (split.kept.offsets(unit / blocks), (unit % blocks) * WIDTH);
            let n = WIDTH.min(inner.len - j);
            crate::scratch::with::<T::Acc, _>(n, |best| {
                let mut at = [0u32; WIDTH];
                // SAFETY: columns of the input and the places of their results.
                unsafe {
                    let first = src.get().offset(run[0] + j as isize * inner.step[0]);
                    arg_columns::<T, F>(
                        first,
                        step,
                        len,
                        inner.step[0],
                        best.as_mut_ptr(),
                        at.as_mut_ptr(),
                        n,
                    );
                    for (i, &p) in at.iter().enumerate().take(n) {
                        *dst.get().offset(run[1] + (j + i) as isize * inner.step[1]) = p;
                    }
                }
            });
        }
    })
}

/// First position of the extreme of a row: a vectorised pass for the value, then a search for it.
///
/// # Safety
/// `len` elements at that step must be valid.
unsafe fn arg_row<T: Element, F: Fold>(row: *const T, step: isize, len: usize) -> usize {
    // SAFETY: the caller's promise.
    let best = unsafe { fold_run::<T, F>(row, step, len) };
    let is_it = |i: &usize| {
        // SAFETY: below len.
        let x = unsafe { *row.offset(*i as isize * step) }.widen();
        if best.nan() { x.nan() } else { x == best }
    };
    (0..len).find(is_it).unwrap_or(0)
}

vectorized! {
    /// Positions of the extremes of `n` columns.
    ///
    /// # Safety
    /// The columns, and `n` values and positions, must be valid.
    unsafe fn arg_columns<T: Element, F: Fold>(
        src: *const T, row_step: isize, rows: usize, step: isize, best: *mut T::Acc, at: *mut u32, n: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            for j in 0..n {
                *best.add(j) = (*src.offset(j as isize * step)).widen();
                *at.add(j) = 0;
            }
            for r in 1..rows {
                let p = src.offset(r as isize * row_step);
                for j in 0..n {
                    let (x, b) = ((*p.offset(j as isize * step)).widen(), *best.add(j));
                    let wins = beats::<T::Acc, F>(x, b);
                    *best.add(j) = if wins { x } else { b };
                    *at.add(j) = if wins { r as u32 } else { *at.add(j) };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
