//! Matrix times vector: bound by memory, so the matrix is read once, in the direction in which it is dense.
//!
//! Both directions add in a fixed pattern (64 interleaved partial sums along dense rows, groups of four rows
//! along dense columns), whatever the vector width and the number of threads.

use crate::element::{Arith, Element};
use crate::gemm_block::Plane;
use crate::par::{Poll, Shared, for_parts};
use crate::simd::vectorized;
use oxmlx_types::Result;

/// Partial sums of a dot product.
const LANES: usize = 64;
/// Outputs that one pass over columns accumulates: they stay in the first-level cache.
const WIDTH: usize = 1024;

vectorized! {
    /// Dot product of dense runs.
    ///
    /// # Safety
    /// `k` elements of both must be valid.
    unsafe fn dot<T: Element>(w: *const T, x: *const T::Acc, k: usize) -> T::Acc {
        let mut acc = [<T::Acc as Arith>::ZERO; LANES];
        let whole = k / LANES * LANES;
        let mut at = 0;
        // SAFETY: below k.
        unsafe {
            while at < whole {
                for l in 0..LANES {
                    acc[l] = (*w.add(at + l)).widen().fma(*x.add(at + l), acc[l]);
                }
                at += LANES;
            }
        }
        // A copy: an array that is indexed at run time can't stay in registers.
        let mut tail = acc;
        // SAFETY: below k.
        unsafe {
            for l in 0..k - whole {
                tail[l] = (*w.add(at + l)).widen().fma(*x.add(at + l), tail[l]);
            }
        }
        let mut width = LANES / 2;
        while width > 0 {
            for l in 0..width {
                tail[l] = tail[l].add(tail[l + width]);
            }
            width /= 2;
        }
        tail[0]
    }
}

vectorized! {
    /// `acc[j] += x[i] * w[i * step + j]` for four rows.
    ///
    /// # Safety
    /// The rows must be valid.
    unsafe fn axpy4<T: Element>(w: *const T, step: isize, x: *const T::Acc, acc: *mut T::Acc, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let (a, b, c, d) = (*x, *x.add(1), *x.add(2), *x.add(3));
            let (p, q, r, s) = (w, w.offset(step), w.offset(2 * step), w.offset(3 * step));
            for j in 0..n {
                let t = (*p.add(j)).widen().fma(a, *acc.add(j));
                let t = (*q.add(j)).widen().fma(b, t);
                let t = (*r.add(j)).widen().fma(c, t);
                *acc.add(j) = (*s.add(j)).widen().fma(d, t);
            }
        }
    }
}

vectorized! {
    /// `acc[j] += x * w[j]`.
    ///
    /// # Safety
    /// The row must be valid.
    unsafe fn axpy1<T: Element>(w: *const T, x: T::Acc, acc: *mut T::Acc, n: usize) {
        for j in 0..n {
            // SAFETY: the caller's promise.
            unsafe { *acc.add(j) = (*w.add(j)).widen().fma(x, *acc.add(j)) };
        }
    }
}

/// Whether [`gemv`] takes a matrix: one of its directions must be dense.
pub(crate) fn takes<T>(w: Plane<T>, rows: usize, k: usize) -> bool {
    w.cs == 1 || w.rs == 1 || k == 1 || rows == 1
}

/// `dst[i] = sum_j w[i, j] * x[j]`: `w` is `rows x k`, `dst` dense.
///
/// # Safety
/// All three must be valid; the matrix must be one that [`takes`] accepts.
pub(crate) unsafe fn gemv<T: Element>(
    rows: usize,
    k: usize,
    w: Plane<T>,
    x: *const T,
    x_step: isize,
    dst: *mut T,
    poll: Poll<'_>,
) -> Result<()> {
    let dst = Shared(dst);
    crate::scratch::with::<T::Acc, _>(k, |wide| {
        // SAFETY: the caller's vector, and scratch for it.
        unsafe { crate::gemm_block::widen_run(x, x_step, wide.as_mut_ptr(), k) };
        let x: &[T::Acc] = wide;
        if w.cs == 1 || k == 1 {
            return for_parts(rows, (1usize << 18).div_ceil(k), poll, &|r| {
                for i in r {
                    // SAFETY: row i of the matrix and element i of the output.
                    unsafe { *dst.get().add(i) = T::narrow(dot(w.at(i, 0).ptr, x.as_ptr(), k)) };
                }
            });
        }
        // Narrow outputs take smaller parts so that there is something to share out.
        let part = if rows >= 8 * WIDTH { WIDTH } else { 256 };
        for_parts(rows, part, poll, &|r| {
            // SAFETY: columns r of every dense row, and the outputs r.
            unsafe { columns(w.at(r.start, 0), r.len(), x, dst.get().add(r.start)) }
        })
    })
}

/// One part of the outputs, by passes over rows of the transposed matrix.
///
/// # Safety
/// As [`gemv`], with `w.rs == 1`.
unsafe fn columns<T: Element>(w: Plane<T>, n: usize, x: &[T::Acc], dst: *mut T) {
    crate::scratch::with::<T::Acc, _>(n, |acc| {
        acc.fill(<T::Acc as Arith>::ZERO);
        let fours = x.len() / 4 * 4;
        // SAFETY: the caller's promise; rows below x.len().
        unsafe {
            for i in (0..fours).step_by(4) {
                axpy4(w.at(0, i).ptr, w.cs, x.as_ptr().add(i), acc.as_mut_ptr(), n);
            }
            for (i, &x) in x.iter().enumerate().skip(fours) {
                axpy1(w.at(0, i).ptr, x, acc.as_mut_ptr(), n);
            }
            crate::element::narrow_slice(acc, std::slice::from_raw_parts_mut(dst, n));
        }
    });
}
