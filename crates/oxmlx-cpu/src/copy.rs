//! Moving elements between layouts: row-major copies of any view, and writes into strided windows.
//!
//! Elements are moved by size only, so four instances serve all dtypes. A copy that swaps axes goes through
//! small square tiles: reading whole cache lines into a buffer first keeps power-of-two strides from evicting
//! each other.

use crate::par::{Poll, Shared, for_each_polled, for_parts, threads};
use crate::view::{Dim, NdLoop, View, ViewMut, dispatch_size, row_major};
use oxmlx_types::Result;

/// Elements that one task of a copy moves.
const PART: usize = 1 << 16;
/// Edge of the tiles of a transposing copy.
const TILE: usize = 32;

/// Writes the operand in row-major order.
pub fn contiguous(input: &View<'_>, out: &mut ViewMut<'_>, poll: Poll<'_>) -> Result<()> {
    let strides = row_major(out.shape());
    dispatch_size!(input.dtype, T => {
        let (src, dst) = (input.origin::<T>(), out.origin::<T>());
        // SAFETY: the views promise that their layouts lie inside their buffers.
        unsafe { copy_nd(out.shape(), src, input.strides(), dst, &strides, poll) }
    })
}

/// `out = base`, then `update` written into the window that begins at `starts` and steps by `steps`. With
/// `in_place` the output's buffer already is the base's.
pub fn slice_update(
    base: &View<'_>,
    update: &View<'_>,
    steps: &[i32],
    starts: &[u64],
    out: &mut ViewMut<'_>,
    in_place: bool,
    poll: Poll<'_>,
) -> Result<()> {
    if !in_place {
        contiguous(base, out, poll)?;
    }
    let dense = row_major(out.shape());
    let mut window = dense.clone();
    let mut first = 0isize;
    for axis in 0..dense.len() {
        window[axis] = dense[axis] * steps.get(axis).map_or(1, |&s| s as isize);
        first += dense[axis] * starts.get(axis).map_or(0, |&s| s as i64 as isize);
    }
    check_window(out.shape(), update.shape(), steps, starts)?;
    dispatch_size!(out.dtype, T => {
        let dst = out.origin::<T>().wrapping_offset(first);
        // SAFETY: the window was checked to lie inside the output; the update's view is its caller's promise.
        unsafe { copy_nd(update.shape(), update.origin::<T>(), update.strides(), dst, &window, poll) }
    })
}

/// Refuses windows that leave the array.
fn check_window(shape: &[usize], window: &[usize], steps: &[i32], starts: &[u64]) -> Result<()> {
    if window.contains(&0) {
        return Ok(());
    }
    for axis in 0..shape.len() {
        let first = starts.get(axis).map_or(0, |&s| s as i64);
        let step = steps.get(axis).map_or(1, |&s| s as i64);
        let last = first + (window[axis] as i64 - 1) * step;
        let inside = 0..shape[axis] as i64;
        if !inside.contains(&first) || !inside.contains(&last) {
            return Err(crate::index::out_of_range(
                "slice_update",
                if inside.contains(&first) { last } else { first },
                shape[axis],
            ));
        }
    }
    Ok(())
}

/// Makes `out` a row-major copy of `base` unless it is the very same memory already.
pub(crate) fn seed(base: &View<'_>, out: &mut ViewMut<'_>, poll: Poll<'_>) -> Result<()> {
    if is_same(base, out) { Ok(()) } else { contiguous(base, out, poll) }
}

/// Whether an operand lies exactly where the output goes.
pub(crate) fn is_same(base: &View<'_>, out: &mut ViewMut<'_>) -> bool {
    base.origin::<u8>() == out.origin::<u8>().cast_const() && base.layout.is_contiguous()
}

/// Copies a strided array into another, both of `shape`.
///
/// # Safety
/// Every offset that the shape and strides reach must be valid, for reading from `src` and for writing to
/// `dst`; no two destination offsets may be equal, and the arrays must not overlap.
pub(crate) unsafe fn copy_nd<T: Copy>(
    shape: &[usize],
    src: *const T,
    src_strides: &[isize],
    dst: *mut T,
    dst_strides: &[isize],
    poll: Poll<'_>,
) -> Result<()> {
    let walk = NdLoop::new(shape, [src_strides, dst_strides]);
    if walk.runs() * walk.inner().len == 0 {
        return Ok(());
    }
    let (src, dst) = (Shared(src), Shared(dst));
    if let Some(axis) = transposed_axis(&walk) {
        return transpose(&walk, axis, src, dst, poll);
    }
    let Dim { len, step } = walk.inner();
    if walk.runs() == 1 {
        return for_parts(len, PART, poll, &|r| {
            let at = r.start as isize;
            // SAFETY: a part of the one run; the caller promises its offsets.
            unsafe {
                let s = src.get().offset(at * step[0]);
                copy_run(s, step[0], dst.get().offset(at * step[1]), step[1], r.len());
            }
        });
    }
    for_parts(walk.runs(), PART.div_ceil(len), poll, &|r| {
        walk.for_runs(r, |at| {
            // SAFETY: the start of a run, whose offsets the caller promises.
            unsafe { copy_run(src.get().offset(at[0]), step[0], dst.get().offset(at[1]), step[1], len) }
        });
    })
}

/// One run.
///
/// # Safety
/// `n` elements at those steps must be valid.
#[inline(always)]
pub(crate) unsafe fn copy_run<T: Copy>(src: *const T, s: isize, dst: *mut T, d: isize, n: usize) {
    // SAFETY: the caller's promise covers every access of this function.
    unsafe {
        match (s, d) {
            (1, 1) if n >= 16 => std::ptr::copy_nonoverlapping(src, dst, n),
            (0, 1) => std::slice::from_raw_parts_mut(dst.cast::<std::mem::MaybeUninit<T>>(), n)
                .fill(std::mem::MaybeUninit::new(*src)),
            (_, 1) => (0..n as isize).for_each(|i| *dst.offset(i) = *src.offset(i * s)),
            _ => (0..n as isize).for_each(|i| *dst.offset(i * d) = *src.offset(i * s)),
        }
    }
}

/// The outer axis along which the source is dense, where the inner one is not and tiles pay.
fn transposed_axis(walk: &NdLoop<2>) -> Option<usize> {
    let inner = walk.inner();
    if inner.step[1] != 1 || inner.step[0].abs() <= 1 || inner.len < 4 {
        return None;
    }
    walk.outer().iter().position(|d| d.step[0] == 1 && d.len >= 4)
}

/// Copies by tiles over the inner axis and `axis`, parallel over strips of tiles.
fn transpose<T: Copy>(
    walk: &NdLoop<2>,
    axis: usize,
    src: Shared<*const T>,
    dst: Shared<*mut T>,
    poll: Poll<'_>,
) -> Result<()> {
    let inner = walk.inner();
    let dense = walk.outer()[axis];
    let others: Vec<Dim<2>> =
        walk.outer().iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, d)| *d).collect();
    let strips = dense.len.div_ceil(TILE);
    let outer: usize = others.iter().map(|d| d.len).product();
    // A strip is TILE rows of the destination; several make a task where rows are short.
    let group = (PART / (TILE * inner.len)).clamp(1, strips * outer);
    let tasks = (strips * outer).div_ceil(group);
    for_each_polled(tasks, 64 * threads(), poll, &|task| {
        for unit in task * group..((task + 1) * group).min(strips * outer) {
            let (mut rest, mut at) = (unit / strips, [0isize; 2]);
            for d in others.iter().rev() {
                let i = (rest % d.len) as isize;
                rest /= d.len;
                at = [at[0] + i * d.step[0], at[1] + i * d.step[1]];
            }
            let first = unit % strips * TILE;
            let rows = TILE.min(dense.len - first);
            let first = first as isize;
            // SAFETY: offsets of the walk, whose validity copy_nd's caller promises; strips are disjoint.
            unsafe {
                let s = src.get().offset(at[0] + first);
                let d = dst.get().offset(at[1] + first * dense.step[1]);
                strip(s, inner.step[0], d, dense.step[1], rows, inner.len);
            }
        }
    })
}

/// `dst[j * d_step + i] = src[i * s_step + j]` for `j < rows <= TILE`, `i < len`.
///
/// # Safety
/// Those offsets must be valid.
#[inline(always)]
unsafe fn strip<T: Copy>(src: *const T, s_step: isize, dst: *mut T, d_step: isize, rows: usize, len: usize) {
    let mut tile = [[std::mem::MaybeUninit::<T>::uninit(); TILE]; TILE];
    let mut at = 0;
    while at < len {
        let cols = TILE.min(len - at);
        // SAFETY: the caller's promise; only the part of the tile that was just filled is read.
        unsafe {
            for (i, line) in tile.iter_mut().enumerate().take(cols) {
                let s = src.offset((at + i) as isize * s_step);
                std::ptr::copy_nonoverlapping(s, line.as_mut_ptr().cast::<T>(), rows);
            }
            for j in 0..rows {
                let d = dst.offset(j as isize * d_step + at as isize);
                if cols == TILE {
                    for (i, line) in tile.iter().enumerate() {
                        *d.add(i) = line[j].assume_init();
                    }
                } else {
                    for (i, line) in tile.iter().enumerate().take(cols) {
                        *d.add(i) = line[j].assume_init();
                    }
                }
            }
        }
        at += cols;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Owned, ok};
    use oxmlx_types::{Dtype, Layout};

    #[test]
    fn any_layout_becomes_row_major() {
        let base = Owned::ramp(Dtype::Int32, &[3, 40, 70]);
        for axes in [[0, 1, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1], [1, 0, 2]] {
            let v = base.with(base.layout.permute(&axes));
            let mut out = Owned::zeros(Dtype::Int32, &v.layout.shape);
            contiguous(&v.view(), &mut out.view_mut(), &ok).unwrap();
            assert_eq!(out.to_vec(), v.to_vec(), "{axes:?}");
        }
    }

    #[test]
    fn negative_zero_and_empty() {
        for dtype in [Dtype::Uint8, Dtype::Bfloat16, Dtype::Float32, Dtype::Complex64] {
            let base = Owned::ramp(dtype, &[5, 8]);
            for (shape, strides, offset) in [
                (vec![5, 8], vec![-8, -1], 39),
                (vec![2, 5, 8], vec![0, 8, 1], 0),
                (vec![5, 8, 4], vec![8, 1, 0], 0),
                (vec![3, 0], vec![1, 1], 0),
                (vec![], vec![], 7),
                (vec![2, 4], vec![16, 2], 1),
            ] {
                let l = Layout { shape: shape.into(), strides: strides.into(), offset };
                let v = base.with(l);
                let mut out = Owned::zeros(dtype, &v.layout.shape);
                contiguous(&v.view(), &mut out.view_mut(), &ok).unwrap();
                assert_eq!(out.to_vec(), v.to_vec());
            }
        }
    }

    #[test]
    fn windows_are_written_and_checked() {
        let base = Owned::ramp(Dtype::Float32, &[4, 6]);
        let update = Owned::from_f64(Dtype::Float32, &[2, 3], &[-1., -2., -3., -4., -5., -6.]);
        let mut out = Owned::zeros(Dtype::Float32, &[4, 6]);
        slice_update(&base.view(), &update.view(), &[-2, 2], &[3, 1], &mut out.view_mut(), false, &ok)
            .unwrap();
        let mut want = base.to_vec();
        for i in 0..2 {
            for j in 0..3 {
                want[(3 - 2 * i) * 6 + 1 + 2 * j] = -((i * 3 + j + 1) as f64);
            }
        }
        assert_eq!(out.to_vec(), want);
        assert!(
            slice_update(&base.view(), &update.view(), &[1, 2], &[3, 1], &mut out.view_mut(), false, &ok)
                .is_err()
        );
    }
}
