//! Matrix products: batches and tiles shared out over threads, each tile one product on one thread.
//!
//! Tiles are chosen by the shape alone and never cut K, so that the bits of a result do not depend on the
//! number of threads. A batch over which the right side is broadcast (a linear layer) becomes more rows of
//! one product.

use crate::element::Element;
use crate::gemm_block::{Gemm, Plane, block};
use crate::gemv;
use crate::par::{Poll, Shared, for_each_polled, threads};
use crate::view::{View, ViewMut};
use oxmlx_types::{Complex, Dtype, Error, ErrorKind, Result, bf16, f16};
use smallvec::SmallVec;

/// Multiply-adds that a task should have at least, for batches of small products.
const MIN_WORK: usize = 1 << 20;
/// Multiply-adds above which a product is cut into tiles.
const CUT_WORK: usize = 6 << 20;
/// Multiply-adds of the largest tiles: about a millisecond.
const TILE_WORK: usize = 1 << 26;

/// `[.., M, K] x [.., K, N] -> [.., M, N]` for inexact types.
pub fn matmul(a: &View<'_>, b: &View<'_>, out: &mut ViewMut<'_>, poll: Poll<'_>) -> Result<()> {
    match out.dtype {
        Dtype::Float32 => typed::<f32>(a, b, out, poll),
        Dtype::Float64 => typed::<f64>(a, b, out, poll),
        Dtype::Float16 => typed::<f16>(a, b, out, poll),
        Dtype::Bfloat16 => typed::<bf16>(a, b, out, poll),
        Dtype::Complex64 => typed::<Complex>(a, b, out, poll),
        d => Err(Error::new(
            ErrorKind::Type,
            "matmul",
            format!("Only inexact types are supported but {d} was given."),
        )),
    }
}

/// A batch of products of one size.
struct Problem<T> {
    size: [usize; 3],
    a: Plane<T>,
    b: Plane<T>,
    dst: Shared<*mut T>,
    /// Length, step in `a` and step in `b` of each batch axis, outermost first.
    batch: SmallVec<[(usize, isize, isize); 4]>,
}

impl<T: Element<Acc: Gemm>> Problem<T> {
    fn new(a: &View<'_>, b: &View<'_>, out: &mut ViewMut<'_>) -> Self {
        let lead = out.shape().len() - 2;
        let (sa, sb) = (a.strides(), b.strides());
        let mut p = Problem {
            size: [out.shape()[lead], out.shape()[lead + 1], a.shape()[lead + 1]],
            a: Plane { ptr: a.origin(), rs: sa[lead], cs: sa[lead + 1] },
            b: Plane { ptr: b.origin(), rs: sb[lead], cs: sb[lead + 1] },
            dst: Shared(out.origin()),
            batch: SmallVec::new(),
        };
        for axis in 0..lead {
            if out.shape()[axis] != 1 {
                p.batch.push((out.shape()[axis], sa[axis], sb[axis]));
            }
        }
        p.fold();
        p
    }

    /// Makes inner batch axes over which `b` is broadcast part of M.
    fn fold(&mut self) {
        while let Some(&(len, sa, 0)) = self.batch.last() {
            let m = self.size[0];
            if m == 1 {
                self.a.rs = sa;
            } else if sa != self.a.rs * m as isize {
                break;
            }
            self.size[0] = m * len;
            self.batch.pop();
        }
    }

    fn count(&self) -> usize {
        self.batch.iter().map(|b| b.0).product()
    }

    /// The matrices of one batch entry.
    fn entry(&self, index: usize) -> (Plane<T>, Plane<T>, *mut T) {
        let (mut rest, mut oa, mut ob) = (index, 0, 0);
        for &(len, sa, sb) in self.batch.iter().rev() {
            let i = (rest % len) as isize;
            rest /= len;
            oa += i * sa;
            ob += i * sb;
        }
        let [m, n, _] = self.size;
        let move_by = |p: Plane<T>, by: isize| Plane { ptr: p.ptr.wrapping_offset(by), ..p };
        (move_by(self.a, oa), move_by(self.b, ob), self.dst.get().wrapping_add(index * m * n))
    }

    /// One tile of one entry.
    fn tile(&self, index: usize, rows: std::ops::Range<usize>, cols: std::ops::Range<usize>) {
        let (a, b, dst) = self.entry(index);
        let [_, n, k] = self.size;
        let dst = dst.wrapping_add(rows.start * n + cols.start);
        // SAFETY: tiles lie inside matrices that the views promise to be valid, and do not overlap in dst.
        unsafe {
            block([rows.len(), cols.len(), k], dst, n as isize, a.at(rows.start, 0), b.at(0, cols.start))
        }
    }

    fn run(&self, poll: Poll<'_>) -> Result<()> {
        let [m, n, k] = self.size;
        let count = self.count();
        let flip = |p: Plane<T>| Plane { ptr: p.ptr, rs: p.cs, cs: p.rs };
        let thin = (n == 1 && gemv::takes(self.a, m, k)) || (m == 1 && gemv::takes(flip(self.b), n, k));
        if thin && (count == 1 || m * n * k > MIN_WORK) {
            for i in 0..count {
                poll()?;
                self.thin(i, poll)?;
            }
            return Ok(());
        }
        let work = m * n * k;
        if work <= CUT_WORK || work / 2 <= CUT_WORK && count >= 16 {
            let group = (MIN_WORK / work).max(1);
            let wave = (16 * TILE_WORK / (work * group)).max(1) * threads();
            return for_each_polled(count.div_ceil(group), wave, poll, &|task| {
                for i in task * group..((task + 1) * group).min(count) {
                    if thin {
                        // Without a poll there is no error.
                        let _ = self.thin(i, &|| Ok(()));
                    } else {
                        self.tile(i, 0..m, 0..n);
                    }
                }
            });
        }
        let (mt, nt) = tile_size::<T>(m, n, k);
        let (rows, cols) = (m.div_ceil(mt), n.div_ceil(nt));
        // A very deep tile can be long by itself: then each wave is as short as possible.
        let wave = (16 * TILE_WORK / (mt * nt * k)).clamp(1, 256) * threads();
        for_each_polled(count * rows * cols, wave, poll, &|task| {
            let (c, rest) = (task % cols, task / cols);
            let (r, i) = (rest % rows, rest / rows);
            self.tile(i, r * mt..((r + 1) * mt).min(m), c * nt..((c + 1) * nt).min(n));
        })
    }

    /// A product with one row or one column.
    fn thin(&self, index: usize, poll: Poll<'_>) -> Result<()> {
        let (a, b, dst) = self.entry(index);
        let [m, n, k] = self.size;
        // SAFETY: the matrices are valid, and run() asked takes() about the one that counts.
        unsafe {
            if n == 1 && gemv::takes(a, m, k) {
                gemv::gemv(m, k, a, b.ptr, b.rs, dst, poll)
            } else {
                gemv::gemv(n, k, Plane { ptr: b.ptr, rs: b.cs, cs: b.rs }, a.ptr, a.cs, dst, poll)
            }
        }
    }
}

/// Rows and columns of a tile, by the shape alone. Large tiles cost less packing, many tiles share out better.
fn tile_size<T: Element>(m: usize, n: usize, k: usize) -> (usize, usize) {
    let (mut mt, mut nt) = (m, n);
    let small = if T::HALF { 1 << 18 } else { usize::MAX };
    let deep = k.min(4096);
    let goal = (m * n * deep / 8).clamp(CUT_WORK * 3 / 4, TILE_WORK * 2);
    while (mt * nt * deep > goal || mt * nt > small) && (mt > 48 || nt > 48) {
        if mt > nt {
            mt = mt.div_ceil(2).next_multiple_of(16);
        } else {
            nt = nt.div_ceil(2).next_multiple_of(16);
        }
    }
    (mt, nt)
}

fn typed<T: Element<Acc: Gemm>>(
    a: &View<'_>,
    b: &View<'_>,
    out: &mut ViewMut<'_>,
    poll: Poll<'_>,
) -> Result<()> {
    if out.size() == 0 {
        return Ok(());
    }
    let problem = Problem::<T>::new(a, b, out);
    if problem.size[2] == 0 {
        // SAFETY: the whole output; all-zero bits are zero in every inexact type.
        unsafe { std::ptr::write_bytes(out.origin::<T>(), 0, out.size()) };
        return Ok(());
    }
    problem.run(poll)
}

#[cfg(test)]
mod tests;
