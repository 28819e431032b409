//! Convolutions as blocked matrix products: a block of output positions is unrolled into rows that fit in the
//! cache, multiplied, and forgotten.
//!
//! Rows are built from dense runs: where neither operand skips positions, a whole row of the kernel is one
//! copy, which also makes the weight gradient (a convolution whose channels are the batch) cheap. Inputs of
//! other layouts are made dense first. Blocks are cut by the shape alone: bits do not depend on threads.

use crate::copy::{contiguous, copy_nd};
use crate::element::{Arith, Element, narrow_slice};
use crate::gemm_block::{Gemm, Plane, widen_run};
use crate::par::{Poll, Shared, for_each_polled, threads};
use crate::simd::vectorized;
use crate::view::{View, ViewMut, row_major};
use oxmlx_core::primitive::ConvGeometry;
use oxmlx_types::{Complex, Dtype, Error, ErrorKind, Layout, Result, bf16, f16};

/// Elements of an unrolled block.
const BLOCK: usize = 1 << 18;
/// Depth that a block should have at least before more kernel rows are left to the next one.
const DEPTH: usize = 2048;

/// `[N, spatial.., C] * [O, kernel.., C/groups] -> [N, spatial.., O]`.
pub fn conv(
    g: &ConvGeometry,
    input: &View<'_>,
    weight: &View<'_>,
    out: &mut ViewMut<'_>,
    poll: Poll<'_>,
) -> Result<()> {
    if out.size() == 0 {
        return Ok(());
    }
    if weight.size() == 0 || input.size() == 0 {
        // SAFETY: the whole output; all-zero bits are zero.
        unsafe { std::ptr::write_bytes(out.origin::<u8>(), 0, out.size() * out.dtype.size()) };
        return Ok(());
    }
    if let Some(result) = pointwise(g, input, weight, out, poll) {
        return result;
    }
    match out.dtype {
        Dtype::Float32 => typed::<f32>(g, input, weight, out, poll),
        Dtype::Float64 => typed::<f64>(g, input, weight, out, poll),
        Dtype::Float16 => typed::<f16>(g, input, weight, out, poll),
        Dtype::Bfloat16 => typed::<bf16>(g, input, weight, out, poll),
        Dtype::Complex64 => typed::<Complex>(g, input, weight, out, poll),
        d => Err(Error::new(
            ErrorKind::Type,
            "conv",
            format!("Only inexact types are supported but {d} was given."),
        )),
    }
}

/// A 1x1 kernel that skips nothing is one matrix product.
fn pointwise(
    g: &ConvGeometry,
    input: &View<'_>,
    weight: &View<'_>,
    out: &mut ViewMut<'_>,
    poll: Poll<'_>,
) -> Option<Result<()>> {
    let last = input.shape().len() - 1;
    let plain = g.groups == 1
        && weight.shape()[1..last].iter().all(|&k| k == 1)
        && g.stride.iter().chain(&g.input_dilation).all(|&s| s == 1)
        && g.padding_lo.iter().all(|&p| p == 0)
        && input.shape()[..last] == out.shape()[..last];
    if !plain {
        return None;
    }
    let (c, o) = (input.shape()[last], out.shape()[last]);
    let rows = out.size() / o;
    let a = input.layout.reshape(&[rows, c])?;
    let w = weight.layout.reshape(&[o, c])?.permute(&[1, 0]);
    let d = Layout { offset: out.layout.offset, ..Layout::contiguous(&[rows, o]) };
    let mut dst = ViewMut { layout: &d, ..*out };
    Some(crate::matmul::matmul(
        &View { layout: &a, ..*input },
        &View { layout: &w, ..*weight },
        &mut dst,
        poll,
    ))
}

/// One spatial axis; convolutions of fewer dimensions have leading axes of length 1.
#[derive(Clone, Copy)]
struct Axis {
    input: usize,
    kernel: usize,
    out: usize,
    stride: isize,
    pad: isize,
    kernel_dilation: isize,
    input_dilation: isize,
    /// Elements between input positions.
    step: isize,
}

impl Axis {
    /// The input position that kernel position `k` reads for output position `o`, unless it is padding.
    #[inline(always)]
    fn source(&self, o: usize, k: usize) -> Option<isize> {
        let at = o as isize * self.stride + k as isize * self.kernel_dilation - self.pad;
        let whole = if self.input_dilation == 1 { at } else { at.div_euclid(self.input_dilation) };
        let hit = whole * self.input_dilation == at && whole >= 0 && whole < self.input as isize;
        hit.then_some(whole)
    }
}

/// A convolution ready to run: dense channels, widened weights `[O, kernel, C/groups]`.
struct Conv<T: Element> {
    axes: [Axis; 3],
    src: Shared<*const T>,
    batch_step: isize,
    dst: Shared<*mut T>,
    weight: Vec<T::Acc>,
    groups: usize,
    /// Channels a group, in and out.
    cg: usize,
    og: usize,
    rows: usize,
}

fn typed<T: Element<Acc: Gemm>>(
    g: &ConvGeometry,
    input: &View<'_>,
    weight: &View<'_>,
    out: &mut ViewMut<'_>,
    poll: Poll<'_>,
) -> Result<()> {
    let last = input.shape().len() - 1;
    if input.strides()[last] != 1 && input.shape()[last] != 1 {
        let layout = Layout::contiguous(input.shape());
        let mut dense = vec![0u64; (layout.size() * input.dtype.size()).div_ceil(8)];
        contiguous(
            input,
            &mut ViewMut { ptr: dense.as_mut_ptr().cast(), dtype: input.dtype, layout: &layout },
            poll,
        )?;
        let view = View { ptr: dense.as_ptr().cast(), dtype: input.dtype, layout: &layout };
        return typed::<T>(g, &view, weight, out, poll);
    }
    let one = Axis {
        input: 1,
        kernel: 1,
        out: 1,
        stride: 1,
        pad: 0,
        kernel_dilation: 1,
        input_dilation: 1,
        step: 0,
    };
    let mut axes = [one; 3];
    for d in 0..last - 1 {
        axes[3 - (last - 1) + d] = Axis {
            input: input.shape()[d + 1],
            kernel: weight.shape()[d + 1],
            out: out.shape()[d + 1],
            stride: g.stride[d] as isize,
            pad: g.padding_lo[d] as isize,
            kernel_dilation: g.kernel_dilation[d] as isize,
            input_dilation: g.input_dilation[d] as isize,
            step: input.strides()[d + 1],
        };
    }
    let o = out.shape()[last];
    let groups = g.groups as usize;
    let conv = Conv::<T> {
        axes,
        src: Shared(input.origin()),
        batch_step: input.strides()[0],
        dst: Shared(out.origin()),
        weight: pack_weight::<T>(weight, g.flip, poll)?,
        groups,
        cg: weight.shape()[last],
        og: o / groups,
        rows: out.size() / o,
    };
    if conv.cg == 1 && conv.og == 1 && groups > 1 { conv.run_depthwise(poll) } else { conv.run(poll) }
}

/// The weights as row-major accumulators; a flip is a walk with negative steps.
fn pack_weight<T: Element>(weight: &View<'_>, flip: bool, poll: Poll<'_>) -> Result<Vec<T::Acc>> {
    let mut steps = weight.layout.strides.clone();
    let mut src = weight.origin::<T>();
    if flip {
        for a in 1..steps.len() - 1 {
            src = src.wrapping_offset(steps[a] * (weight.shape()[a] as isize - 1));
            steps[a] = -steps[a];
        }
    }
    let (n, dense) = (weight.size(), row_major(weight.shape()));
    let mut packed = vec![<T::Acc as Arith>::ZERO; n];
    if !T::HALF {
        // SAFETY: the weight's layout lies in its buffer; T is its own Acc, and there are n of them.
        unsafe { copy_nd(weight.shape(), src, &steps, packed.as_mut_ptr().cast::<T>(), &dense, poll)? };
        return Ok(packed);
    }
    // Halves are brought into order first and widened as one run.
    let mut halves = vec![T::narrow(<T::Acc as Arith>::ZERO); n];
    // SAFETY: as above; the second run is as long as both vectors.
    unsafe {
        copy_nd(weight.shape(), src, &steps, halves.as_mut_ptr(), &dense, poll)?;
        widen_run(halves.as_ptr(), 1, packed.as_mut_ptr(), n);
    }
    Ok(packed)
}

impl<T: Element<Acc: Gemm>> Conv<T> {
    /// Output position `row` as (start of the image, positions along the axes).
    fn position(&self, row: usize) -> (isize, [usize; 3]) {
        let [a, b, c] = self.axes;
        let (z, rest) = (row % c.out, row / c.out);
        let (y, rest) = (rest % b.out, rest / b.out);
        let (x, n) = (rest % a.out, rest / a.out);
        (n as isize * self.batch_step, [x, y, z])
    }

    fn run(&self, poll: Poll<'_>) -> Result<()> {
        let [a, b, c] = self.axes;
        let (lines, line) = (a.kernel * b.kernel, c.kernel * self.cg);
        let lines_at_once = (DEPTH / line).clamp(1, lines);
        let depth = lines_at_once * line;
        // A product of fewer rows wastes its packing, of more leaves threads idle.
        let most = self.rows.div_ceil(8).next_multiple_of(16).max(64);
        let block = (BLOCK / depth).clamp(64, 1024).min(most);
        let blocks = self.rows.div_ceil(block);
        let work = block * lines * line * self.og;
        let wave = ((1usize << 30) / work.max(1)).clamp(1, 4096) * threads();
        for_each_polled(blocks * self.groups, wave, poll, &|task| {
            let (group, first) = (task % self.groups, task / self.groups * block);
            let rows = block.min(self.rows - first);
            crate::scratch::with::<T::Acc, _>(rows * (depth + if T::HALF { self.og } else { 0 }), |buf| {
                let (unrolled, acc) = buf.split_at_mut(rows * depth);
                for from in (0..lines).step_by(lines_at_once) {
                    let to = (from + lines_at_once).min(lines);
                    self.unroll(first, rows, group, from..to, unrolled);
                    self.multiply(first, rows, group, from * line..to * line, lines * line, unrolled, acc);
                }
                if T::HALF {
                    self.round(first, group, acc);
                }
            });
        })
    }

    /// Adds one block's product to the output (or to its accumulators).
    #[allow(clippy::too_many_arguments)]
    fn multiply(
        &self,
        first: usize,
        rows: usize,
        group: usize,
        depth: std::ops::Range<usize>,
        whole: usize,
        unrolled: &[T::Acc],
        acc: &mut [T::Acc],
    ) {
        let o = self.og * self.groups;
        let a = Plane { ptr: unrolled.as_ptr(), rs: depth.len() as isize, cs: 1 };
        let w = self.weight.as_ptr().wrapping_add(group * self.og * whole + depth.start);
        let w = Plane { ptr: w, rs: 1, cs: whole as isize };
        let (dst, step) = if T::HALF {
            (acc.as_mut_ptr(), self.og as isize)
        } else {
            (self.dst.get().wrapping_add(first * o + group * self.og).cast::<T::Acc>(), o as isize)
        };
        // SAFETY: rows of the output (whose type is T::Acc unless T is a half) or of the accumulators; the
        // weights hold og * whole elements a group.
        unsafe { T::Acc::gemm([rows, self.og, depth.len()], dst, step, depth.start > 0, a, w) }
    }

    /// Rounds the accumulators into the output.
    fn round(&self, first: usize, group: usize, acc: &[T::Acc]) {
        let o = self.og * self.groups;
        for (i, line) in acc.chunks_exact(self.og).enumerate() {
            // SAFETY: row first + i of the output, this group's channels.
            let dst = unsafe {
                std::slice::from_raw_parts_mut(self.dst.get().add((first + i) * o + group * self.og), self.og)
            };
            narrow_slice(line, dst);
        }
    }

    /// Fills rows with what kernel lines `lines` read.
    fn unroll(
        &self,
        first: usize,
        rows: usize,
        group: usize,
        lines: std::ops::Range<usize>,
        out: &mut [T::Acc],
    ) {
        let [x, y, z] = self.axes;
        let line = z.kernel * self.cg;
        // Neighbouring kernel positions read neighbouring memory: the whole line is one run.
        let dense =
            z.kernel_dilation == 1 && z.input_dilation == 1 && z.step == self.cg as isize && self.groups == 1;
        let mut parts = out.chunks_exact_mut(line);
        for row in first..first + rows {
            let (image, at) = self.position(row);
            let image = image + (group * self.cg) as isize;
            for l in lines.clone() {
                let Some(part) = parts.next() else { return };
                let (Some(p), Some(q)) = (x.source(at[0], l / y.kernel), y.source(at[1], l % y.kernel))
                else {
                    part.fill(<T::Acc as Arith>::ZERO);
                    continue;
                };
                let base = image + p * x.step + q * y.step;
                if dense {
                    self.dense_line(base, at[2], part);
                    continue;
                }
                for (k, cell) in part.chunks_exact_mut(self.cg).enumerate() {
                    match z.source(at[2], k) {
                        // SAFETY: a position inside the input.
                        Some(r) => unsafe { fetch(self.src.get().offset(base + r * z.step), cell) },
                        None => cell.fill(<T::Acc as Arith>::ZERO),
                    }
                }
            }
        }
    }

    /// A kernel line that is one run of the input, cut at both edges.
    #[inline(always)]
    fn dense_line(&self, base: isize, o: usize, part: &mut [T::Acc]) {
        let z = self.axes[2];
        let start = o as isize * z.stride - z.pad;
        let lo = (-start).clamp(0, z.kernel as isize) as usize;
        let hi = (z.input as isize - start).clamp(lo as isize, z.kernel as isize) as usize;
        part[..lo * self.cg].fill(<T::Acc as Arith>::ZERO);
        part[hi * self.cg..].fill(<T::Acc as Arith>::ZERO);
        if hi > lo {
            // SAFETY: kernel positions lo..hi lie inside the input.
            unsafe {
                let src = self.src.get().offset(base + (start + lo as isize) * z.step);
                fetch(src, &mut part[lo * self.cg..hi * self.cg]);
            }
        }
    }

    /// One filter a channel: a sum of products along the channels, which are dense.
    fn run_depthwise(&self, poll: Poll<'_>) -> Result<()> {
        let [x, y, z] = self.axes;
        let (c, positions) = (self.groups, x.kernel * y.kernel * z.kernel);
        let mut by_position = vec![<T::Acc as Arith>::ZERO; positions * c];
        for (i, w) in self.weight.iter().enumerate() {
            by_position[i % positions * c + i / positions] = *w;
        }
        let block = ((1usize << 16) / (c * positions)).max(1);
        for_each_polled(self.rows.div_ceil(block), 64 * threads(), poll, &|task| {
            crate::scratch::with::<T::Acc, _>(c, |acc| {
                for row in task * block..((task + 1) * block).min(self.rows) {
                    let (image, at) = self.position(row);
                    acc.fill(<T::Acc as Arith>::ZERO);
                    for (k, w) in by_position.chunks_exact(c).enumerate() {
                        let (kz, rest) = (k % z.kernel, k / z.kernel);
                        let (p, q) = (x.source(at[0], rest / y.kernel), y.source(at[1], rest % y.kernel));
                        if let (Some(p), Some(q), Some(r)) = (p, q, z.source(at[2], kz)) {
                            let from = image + p * x.step + q * y.step + r * z.step;
                            // SAFETY: c channels of a position inside the input, c weights, c accumulators.
                            unsafe { axpy(self.src.get().offset(from), w.as_ptr(), acc.as_mut_ptr(), c) };
                        }
                    }
                    // SAFETY: row `row` of the output, which has c channels.
                    narrow_slice(acc, unsafe {
                        std::slice::from_raw_parts_mut(self.dst.get().add(row * c), c)
                    });
                }
            });
        })
    }
}

/// Copies and widens a dense run.
///
/// # Safety
/// `src` must hold as many elements as `out`.
#[inline(always)]
unsafe fn fetch<T: Element>(src: *const T, out: &mut [T::Acc]) {
    // SAFETY: the caller's promise; without widening T is its own Acc.
    unsafe {
        if T::HALF {
            widen_run(src, 1, out.as_mut_ptr(), out.len());
        } else {
            std::ptr::copy_nonoverlapping(src.cast::<T::Acc>(), out.as_mut_ptr(), out.len());
        }
    }
}

vectorized! {
    /// `acc[i] += x[i] * w[i]`.
    ///
    /// # Safety
    /// `n` elements of each must be valid.
    unsafe fn axpy<T: Element>(x: *const T, w: *const T::Acc, acc: *mut T::Acc, n: usize) {
        for i in 0..n {
            // SAFETY: the caller's promise.
            unsafe { *acc.add(i) = (*x.add(i)).widen().fma(*w.add(i), *acc.add(i)) };
        }
    }
}

#[cfg(test)]
mod tests;
