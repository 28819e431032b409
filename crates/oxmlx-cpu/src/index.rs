//! Gathers and scatters.
//!
//! Index arrays are first turned into checked element offsets: from there on nothing can leave a buffer, and
//! the kernels only move rows. Scatters keep the row-major order of updates for every destination element,
//! and are shared out by destination, never by update, so that their bits do not depend on threads.

use crate::copy::{contiguous, copy_run, seed};
use crate::element::Element;
use crate::fold::{Fold, Kind, dispatch_fold};
use crate::par::{Poll, Shared, for_parts, threads};
use crate::simd::vectorized;
use crate::view::{NdLoop, View, ViewMut, dispatch, dispatch_size, row_major};
use oxmlx_core::primitive::ScatterMode;
use oxmlx_types::{Dtype, Error, ErrorKind, Layout, Result};

/// Elements that one task moves.
const PART: usize = 1 << 15;

/// The error of an index beyond an axis.
pub(crate) fn out_of_range(op: &'static str, index: i64, len: usize) -> Error {
    Error::new(
        ErrorKind::OutOfRange,
        op,
        format!("Index {index} is out of bounds for an axis of length {len}."),
    )
}

/// Adds `index * step` to each offset for the indices of an array, row-major, after checking them against
/// `len`; negative ones count from the end.
fn add_offsets(
    op: &'static str,
    index: &View<'_>,
    len: usize,
    step: isize,
    offsets: &mut [isize],
    poll: Poll<'_>,
) -> Result<()> {
    if offsets.is_empty() {
        return Ok(());
    }
    let walk = NdLoop::new(index.shape(), [index.strides(), &row_major(index.shape())]);
    let inner = walk.inner();
    let bad: parking_lot::Mutex<Option<(isize, i64)>> = parking_lot::Mutex::new(None);
    let dst = Shared(offsets.as_mut_ptr());
    macro_rules! run {
        ($($variant:ident $t:ty),*) => { match index.dtype {
            $(Dtype::$variant => {
                let src = Shared(index.origin::<$t>());
                // One long run is cut as well: its parts count as runs.
                let cut = inner.len.min(PART);
                let per_run = inner.len.div_ceil(cut);
                for_parts(walk.runs() * per_run, (PART / cut).max(1), poll, &|r| for unit in r {
                    let at = walk.offsets(unit / per_run);
                    let first = unit % per_run * cut;
                    for i in first as isize..(first + cut).min(inner.len) as isize {
                        // SAFETY: offsets of the index array's layout and of its row-major copy.
                        let (raw, d) = unsafe {
                            (*src.get().offset(at[0] + i * inner.step[0]), dst.get().offset(at[1] + i * inner.step[1]))
                        };
                        let wide = i64::try_from(raw).unwrap_or(i64::MAX);
                        let position = if wide < 0 { wide.wrapping_add(len as i64) } else { wide };
                        if position < 0 || position >= len as i64 {
                            // The first in row-major order is reported, whoever finds it.
                            let mut bad = bad.lock();
                            let place = at[1] + i * inner.step[1];
                            if bad.is_none_or(|b| place < b.0) {
                                *bad = Some((place, wide));
                            }
                        } else {
                            // SAFETY: as above; each place belongs to one task.
                            unsafe { *d += position as isize * step };
                        }
                    }
                })?;
            })*
            d => return Err(Error::new(ErrorKind::Type, op, format!("Indices must be integral but {d} was given."))),
        } };
    }
    run!(Bool u8, Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64, Int8 i8, Int16 i16, Int32 i32, Int64 i64);
    match bad.into_inner() {
        Some((_, index)) => Err(out_of_range(op, index, len)),
        None => Ok(()),
    }
}

/// The axes that are not indexed: shape and strides.
fn rest_of(shape: &[usize], strides: &[isize], axes: &[u8]) -> (Vec<usize>, Vec<isize>) {
    let rest = || (0..shape.len()).filter(|a| !axes.contains(&(*a as u8)));
    (rest().map(|a| shape[a]).collect(), rest().map(|a| strides[a]).collect())
}

/// `out[i.., r..] = src[indices.., r..]`.
pub fn gather(
    src: &View<'_>,
    indices: &[View<'_>],
    axes: &[u8],
    out: &mut ViewMut<'_>,
    poll: Poll<'_>,
) -> Result<()> {
    let (rest, rest_steps) = rest_of(src.shape(), src.strides(), axes);
    let row: usize = rest.iter().product();
    let count = indices.first().map_or(1, |i| i.size());
    let mut offsets = vec![0isize; count];
    for (index, &axis) in indices.iter().zip(axes) {
        let axis = axis as usize;
        add_offsets("gather", index, src.shape()[axis], src.strides()[axis], &mut offsets, poll)?;
    }
    if row * count == 0 {
        return Ok(());
    }
    let dense = row_major(&rest);
    let walk = NdLoop::new(&rest, [&rest_steps, &dense]);
    let inner = walk.inner();
    dispatch_size!(src.dtype, T => {
        let (from, to) = (Shared(src.origin::<T>()), Shared(out.origin::<T>()));
        if row > 4 * PART {
            for (i, &at) in offsets.iter().enumerate() {
                let (s, d) = (from.get().wrapping_offset(at), to.get().wrapping_add(i * row));
                // SAFETY: a checked offset, and the i-th row of the output.
                unsafe { crate::copy::copy_nd(&rest, s, &rest_steps, d, &dense, poll)? };
            }
            return Ok(());
        }
        for_parts(count, PART.div_ceil(row), poll, &|r| {
            for i in r {
                // SAFETY: a checked offset, and the i-th row of the output.
                let (s, d) = unsafe { (from.get().offset(offsets[i]), to.get().add(i * row)) };
                if walk.runs() == 1 {
                    // SAFETY: as above.
                    unsafe { copy_run(s, inner.step[0], d, 1, inner.len) };
                } else {
                    walk.for_runs(0..walk.runs(), |at| {
                        // SAFETY: as above.
                        unsafe { copy_run(s.offset(at[0]), inner.step[0], d.offset(at[1]), inner.step[1], inner.len) };
                    });
                }
            }
        })
    })
}

/// `out[.., i, ..] = src[.., indices[.., i, ..], ..]`.
pub fn gather_axis(
    src: &View<'_>,
    indices: &View<'_>,
    axis: u8,
    out: &mut ViewMut<'_>,
    poll: Poll<'_>,
) -> Result<()> {
    let axis = axis as usize;
    let mut offsets = vec![0isize; out.size()];
    add_offsets("take_along_axis", indices, src.shape()[axis], src.strides()[axis], &mut offsets, poll)?;
    if offsets.is_empty() {
        return Ok(());
    }
    let mut steps = src.layout.strides.clone();
    steps[axis] = 0;
    let dense = row_major(out.shape());
    let walk = NdLoop::new(out.shape(), [&steps, &dense]);
    let inner = walk.inner();
    let cut = inner.len.min(PART);
    let per_run = inner.len.div_ceil(cut);
    dispatch_size!(src.dtype, T => {
        let (from, to) = (Shared(src.origin::<T>()), Shared(out.origin::<T>()));
        for_parts(walk.runs() * per_run, (PART / cut).max(1), poll, &|r| for unit in r {
            let at = walk.offsets(unit / per_run);
            let first = unit % per_run * cut;
            for i in first..(first + cut).min(inner.len) {
                let place = at[1] as usize + i * inner.step[1] as usize;
                // SAFETY: the other axes lie inside the source, the offset along the axis was checked.
                unsafe {
                    *to.get().add(place) = *from.get().offset(at[0] + i as isize * inner.step[0] + offsets[place]);
                }
            }
        })
    })
}

fn kind_of(mode: ScatterMode, dtype: Dtype) -> Kind {
    let kind = match mode {
        ScatterMode::Assign => Kind::Last,
        ScatterMode::Sum => Kind::Sum,
        ScatterMode::Prod => Kind::Prod,
        ScatterMode::Max => Kind::Max,
        ScatterMode::Min => Kind::Min,
    };
    kind.for_dtype(dtype)
}

/// Operand 0 with `updates: I + rest` combined at the indexed places.
pub fn scatter(
    base: &View<'_>,
    indices: &[View<'_>],
    updates: &View<'_>,
    axes: &[u8],
    mode: ScatterMode,
    out: &mut ViewMut<'_>,
    poll: Poll<'_>,
) -> Result<()> {
    let (steps, index_rank) = (row_major(out.shape()), indices.first().map_or(0, |i| i.shape().len()));
    let count = indices.first().map_or(1, |i| i.size());
    let mut offsets = vec![0isize; count];
    for (index, &axis) in indices.iter().zip(axes) {
        let axis = axis as usize;
        add_offsets("scatter", index, out.shape()[axis], steps[axis], &mut offsets, poll)?;
    }
    seed(base, out, poll)?;
    let (rest, rest_steps) = rest_of(out.shape(), &steps, axes);
    if count * rest.iter().product::<usize>() == 0 {
        return Ok(());
    }
    // Updates: a start for each index, then a walk over the rest in both arrays.
    let mut starts = vec![0isize; count];
    let index_walk = NdLoop::new(&updates.shape()[..index_rank], [&updates.strides()[..index_rank]]);
    let inner = index_walk.inner();
    for (i, s) in starts.iter_mut().enumerate() {
        *s = index_walk.offsets(i / inner.len)[0] + (i % inner.len) as isize * inner.step[0];
    }
    let walk = NdLoop::new(&rest, [&updates.strides()[index_rank..], &rest_steps]);
    let span = out.size();
    dispatch!(out.dtype, T => {
        let (from, to) = (Shared(updates.origin::<T>()), Shared(out.origin::<T>()));
        dispatch_fold!(kind_of(mode, out.dtype), F => scatter_rows::<T, F>(&offsets, &starts, &walk, from, to, span, poll))
    })
}

/// Combines rows in the order of their updates.
fn scatter_rows<T: Element, F: Fold>(
    offsets: &[isize],
    starts: &[isize],
    walk: &NdLoop<2>,
    from: Shared<*const T>,
    to: Shared<*mut T>,
    span: usize,
    poll: Poll<'_>,
) -> Result<()> {
    let inner = walk.inner();
    let row = walk.runs() * inner.len;
    // One row piece of one update.
    let piece = |i: usize, cols: std::ops::Range<usize>| {
        let first = cols.start as isize;
        walk.for_runs(0..walk.runs(), |at| {
            // SAFETY: checked offsets of the output; the updates' layout lies in its buffer.
            unsafe {
                let s = from.get().offset(starts[i] + at[0] + first * inner.step[0]);
                let d = to.get().offset(offsets[i] + at[1] + first * inner.step[1]);
                if cols.len() < 8 {
                    combine_few::<T, F>(s, inner.step[0], d, inner.step[1], cols.len());
                } else {
                    combine::<T, F>(s, inner.step[0], d, inner.step[1], cols.len());
                }
            }
        });
    };
    // Updates between polls.
    let wave = ((1usize << 22) / row).max(1);
    let few = offsets.len() * row < PART || threads() == 1;
    for first in (0..offsets.len()).step_by(wave) {
        let updates = first..(first + wave).min(offsets.len());
        if first > 0 {
            poll()?;
        }
        if few {
            updates.for_each(|i| piece(i, 0..inner.len));
        } else if inner.len >= 1024 {
            // Long rows: each task takes a strip of every row.
            let strip = 512;
            crate::par::for_each(inner.len.div_ceil(strip), &|t| {
                for i in updates.clone() {
                    piece(i, t * strip..((t + 1) * strip).min(inner.len));
                }
            })?;
        } else {
            // Short rows: each task takes the updates of a range of destinations, in their order.
            let owners = threads();
            let share = span.div_ceil(owners);
            crate::par::for_each(owners, &|t| {
                let mine = t * share..(t + 1) * share;
                for i in updates.clone() {
                    if mine.contains(&(offsets[i] as usize)) {
                        piece(i, 0..inner.len);
                    }
                }
            })?;
        }
    }
    Ok(())
}

/// `dst = fold(dst, src)` for a few elements, without the detour over instruction sets.
///
/// # Safety
/// As [`combine`].
#[inline(always)]
unsafe fn combine_few<T: Element, F: Fold>(src: *const T, s: isize, dst: *mut T, d: isize, n: usize) {
    for i in 0..n as isize {
        // SAFETY: the caller's promise.
        unsafe {
            let p = dst.offset(i * d);
            *p = T::narrow(F::apply((*p).widen(), (*src.offset(i * s)).widen()));
        }
    }
}

vectorized! {
    /// `dst = fold(dst, src)` along a run.
    ///
    /// # Safety
    /// `n` elements at those steps must be valid, without overlap.
    unsafe fn combine<T: Element, F: Fold>(src: *const T, s: isize, dst: *mut T, d: isize, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if s == 1 && d == 1 {
                combine_few::<T, F>(src, 1, dst, 1, n);
            } else {
                combine_few::<T, F>(src, s, dst, d, n);
            }
        }
    }
}

/// Operand 0 with `updates` combined at `indices` along an axis.
pub fn scatter_axis(
    base: &View<'_>,
    indices: &View<'_>,
    updates: &View<'_>,
    axis: u8,
    mode: ScatterMode,
    out: &mut ViewMut<'_>,
    poll: Poll<'_>,
) -> Result<()> {
    let axis = axis as usize;
    let inner: usize = out.shape()[axis + 1..].iter().product();
    let outer: usize = out.shape()[..axis].iter().product();
    let (len, rows) = (out.shape()[axis], indices.shape()[axis]);
    let mut offsets = vec![0isize; indices.size()];
    add_offsets("put_along_axis", indices, len, inner as isize, &mut offsets, poll)?;
    seed(base, out, poll)?;
    if offsets.is_empty() {
        return Ok(());
    }
    // Updates of an odd layout are made dense first: then both sides are [outer, rows, inner].
    let layout = Layout::contiguous(indices.shape());
    let mut dense = vec![
        0u64;
        if updates.layout.is_contiguous() {
            0
        } else {
            (layout.size() * updates.dtype.size()).div_ceil(8)
        }
    ];
    let source = if updates.layout.is_contiguous() {
        *updates
    } else {
        let mut copy = ViewMut { ptr: dense.as_mut_ptr().cast(), dtype: updates.dtype, layout: &layout };
        contiguous(updates, &mut copy, poll)?;
        View { ptr: dense.as_ptr().cast(), dtype: updates.dtype, layout: &layout }
    };
    let cut = inner.min(1024);
    let cuts = inner.div_ceil(cut);
    let group = (PART / (rows * cut)).max(1);
    dispatch!(out.dtype, T => dispatch_fold!(kind_of(mode, out.dtype), F => {
        let (from, to) = (Shared(source.origin::<T>()), Shared(out.origin::<T>()));
        for_parts(outer * cuts, group, poll, &|r| for unit in r {
            let (o, first) = (unit / cuts, unit % cuts * cut);
            let last = (first + cut).min(inner);
            for a in 0..rows {
                for j in first..last {
                    let i = (o * rows + a) * inner + j;
                    // SAFETY: the offset along the axis was checked, the rest is inside the output.
                    unsafe {
                        let p = to.get().offset((o * len * inner + j) as isize + offsets[i]);
                        *p = T::narrow(<F as Fold>::apply((*p).widen(), (*from.get().add(i)).widen()));
                    }
                }
            }
        })
    }))
}

#[cfg(test)]
mod tests;
