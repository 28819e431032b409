//! Convolutions: one matrix product where the kernel is a point, unrolled windows times the weights where the
//! work is worth it, and otherwise a kernel that computes element by element.

use crate::copy::{Place, fill, to_scratch};
use crate::record::{Encoding, Gemm, Operand, Word};
use crate::walk::{THREADS, common_unit, grid};
use oxmlx_core::primitive::ConvGeometry;
use oxmlx_types::{Dtype, Error, ErrorKind, Layout, Result};

/// Bytes of unrolled windows at a time.
const UNROLLED: usize = 1 << 28;
/// Multiplications below which a matrix product is not worth unrolling for.
const SMALL: usize = 1 << 18;

/// `[N, spatial.., C] * [O, kernel.., C/groups] -> [N, spatial.., O]`.
pub(crate) fn conv(
    g: &ConvGeometry,
    input: &Operand<'_>,
    weight: &Operand<'_>,
    out: &Operand<'_>,
    e: &mut Encoding,
) -> Result<()> {
    if !out.dtype.is_inexact() {
        let text = format!("Only inexact types are supported but {} was given.", out.dtype);
        return Err(Error::new(ErrorKind::Type, "conv", text));
    }
    if out.size() == 0 {
        return Ok(());
    }
    if weight.size() == 0 || input.size() == 0 {
        return fill(out.address(), out.size() * out.dtype.size(), 0, e);
    }
    let c = Conv { g, input, weight, out, last: input.shape().len() - 1, from: None };
    if !c.multiplies() {
        return c.direct(e);
    }
    if c.is_pointwise() && c.pointwise(e) {
        return Ok(());
    }
    c.unrolled(e)
}

/// A convolution and the number of its last axis.
struct Conv<'a> {
    g: &'a ConvGeometry,
    input: &'a Operand<'a>,
    weight: &'a Operand<'a>,
    out: &'a Operand<'a>,
    last: usize,
    /// Where the input is, if it was moved.
    from: Option<Word>,
}

impl Conv<'_> {
    fn channels(&self) -> [usize; 2] {
        [self.weight.shape()[self.last], self.weight.shape()[0] / self.g.groups as usize]
    }

    fn depth(&self) -> usize {
        self.weight.shape()[1..].iter().product()
    }

    fn positions(&self) -> usize {
        self.out.size() / self.out.shape()[self.last]
    }

    /// Whether a library's product is the better way.
    fn multiplies(&self) -> bool {
        let [_, of_group] = self.channels();
        let fits = matches!(self.out.dtype, Dtype::Float32 | Dtype::Float16 | Dtype::Bfloat16);
        let work = self.positions().saturating_mul(self.depth()).saturating_mul(self.out.shape()[self.last]);
        fits && of_group >= 8 && self.depth() >= 8 && work >= SMALL
    }

    fn is_pointwise(&self) -> bool {
        let (g, last) = (self.g, self.last);
        g.groups == 1
            && self.weight.shape()[1..last].iter().all(|&k| k == 1)
            && g.stride.iter().chain(&g.input_dilation).all(|&s| s == 1)
            && g.padding_lo.iter().all(|&p| p == 0)
            && self.input.shape()[..last] == self.out.shape()[..last]
    }

    /// One matrix product of the operands as they lie, where rows are dense.
    fn pointwise(&self, e: &mut Encoding) -> bool {
        let ([c, o], rows) = (self.channels(), self.positions());
        let matrix = |operand: &Operand<'_>, shape: [usize; 2]| {
            let layout = operand.layout.reshape(&shape)?;
            let leading = if shape[0] == 1 { shape[1] as isize } else { layout.strides[0] };
            let dense = shape[1] == 1 || layout.strides[1] == 1;
            (dense && leading >= shape[1] as isize).then_some(leading as usize)
        };
        let (Some(a), Some(b)) = (matrix(self.input, [rows, c]), matrix(self.weight, [o, c])) else {
            return false;
        };
        let gemm = Gemm {
            dtype: self.out.dtype,
            mnk: [rows, o, c],
            batch: 1,
            transposed: [false, true],
            leading: [a, b, o],
            batch_stride: [0; 3],
        };
        e.gemm(gemm, self.input.address(), self.weight.address(), self.out.address());
        true
    }

    /// The words of the three spatial axes; `per` elements are one unit of the input.
    fn axes(&self, per: usize) -> Vec<Word> {
        let rank = self.last - 1;
        let mut words = Vec::new();
        for _ in rank..3 {
            words.extend([1usize, 1, 1, 1, 0, 1, 1, 0, 0].map(Word::from));
        }
        for d in 0..rank {
            words.extend([
                Word::from(self.input.shape()[d + 1]),
                Word::from(self.weight.shape()[d + 1]),
                Word::from(self.out.shape()[d + 1]),
                Word::Const(self.g.stride[d] as u64),
                Word::from(self.g.padding_lo[d] as isize),
                Word::Const(self.g.kernel_dilation[d] as u64),
                Word::Const(self.g.input_dilation[d] as u64),
                Word::from(self.input.strides()[d + 1] / per as isize),
                Word::from(self.weight.strides()[d + 1]),
            ]);
        }
        words
    }

    fn direct(&self, e: &mut Encoding) -> Result<()> {
        let ([of_input, of_output], last) = (self.channels(), self.last);
        let mut record = vec![
            self.out.address(),
            self.input.address(),
            self.weight.address(),
            Word::from(self.out.size()),
            Word::from(self.out.shape()[last]),
            Word::from(of_output),
            Word::from(of_input),
            Word::from(self.input.strides()[0]),
            Word::from(self.input.strides()[last]),
            Word::from(self.weight.strides()[0]),
            Word::from(self.weight.strides()[last]),
            Word::Const(self.g.flip as u64),
        ];
        record.extend(self.axes(1));
        let blocks = self.out.size().div_ceil(THREADS);
        e.launch(&format!("conv_direct_{}", self.out.dtype), grid(blocks), &record)
    }

    /// Windows as rows, times the weights, so many output positions at a time.
    fn unrolled(&self, e: &mut Encoding) -> Result<()> {
        let last = self.last;
        if self.from.is_none() && self.input.strides()[last] != 1 && self.input.shape()[last] != 1 {
            // Channels that lie apart would be read in single elements.
            let moved = to_scratch(self.input, e)?;
            let layout = Layout::contiguous(self.input.shape());
            let input = Operand { layout: &layout, alignment: 16, ..*self.input };
            return Conv { input: &input, from: Some(moved), ..*self }.unrolled(e);
        }
        let ([of_input, of_output], depth) = (self.channels(), self.depth());
        let (groups, size) = (self.g.groups as usize, self.out.dtype.size());
        let weight = if self.weight.layout.is_contiguous() {
            self.weight.address()
        } else {
            to_scratch(self.weight, e)?
        };
        let rows = self.positions();
        let most = (UNROLLED / (groups * depth * size)).max(64);
        let chunk = rows.div_ceil(rows.div_ceil(most));
        let windows = e.scratch(groups * chunk * depth * size);
        let place = Place::of(self.out);
        for first in (0..rows).step_by(chunk) {
            let count = chunk.min(rows - first);
            self.unfold(windows, first, count, e)?;
            let o = self.out.shape()[last];
            let gemm = Gemm {
                dtype: self.out.dtype,
                mnk: [count, of_output, depth],
                batch: groups,
                transposed: [false, true],
                leading: [depth, depth, o],
                batch_stride: [count * depth, of_output * depth, of_output],
            };
            debug_assert_eq!(of_input * groups, self.input.shape()[last]);
            e.gemm(gemm, windows, weight, place.plus(first * o * size).address);
        }
        Ok(())
    }

    fn unfold(&self, windows: Word, first: usize, count: usize, e: &mut Encoding) -> Result<()> {
        let ([of_input, _], size) = (self.channels(), self.out.dtype.size());
        let strides = self.input.strides();
        let dense = of_input == 1 || strides[self.last] == 1;
        let steps = strides[..self.last].iter().map(|s| s.unsigned_abs() * size);
        let unit = if dense {
            common_unit(steps.chain([of_input * size, Place::of(self.input).alignment])).max(size)
        } else {
            size
        };
        let per = unit / size;
        let units = self.g.groups as usize * count * self.depth() / per;
        let of = |step: isize| Word::from(step / per as isize);
        let channel = if per > 1 { per as isize } else { strides[self.last] };
        let mut record = vec![
            windows,
            self.from.unwrap_or(self.input.address()),
            Word::from(units),
            Word::from(of_input / per),
            Word::from(first),
            Word::from(count),
            of(strides[0]),
            of(of_input as isize * strides[self.last]),
            of(channel),
            Word::Const(self.g.flip as u64),
            Word::Const(0),
            Word::Const(0),
        ];
        record.extend(self.axes(per));
        e.launch(&format!("conv_unfold_{unit}"), grid(units.div_ceil(THREADS)), &record)
    }
}
