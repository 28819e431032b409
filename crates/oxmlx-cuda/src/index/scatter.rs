//! Scatters: updates of one place are combined in their order, without atomics, so that results do not depend
//! on timing.
//!
//! Three ways. Where many lines along an axis are independent, a thread owns each. Few updates find each
//! other by looking. All others are sorted by place first (stably, by radix), and then combined piece by
//! piece, so that one place which most updates go to does not wait for one thread.

use super::{check_indices, dtype_code, index_axes, rest_of};
use crate::copy::seed;
use crate::record::{Encoding, Grid, Operand, Word};
use crate::walk::{Dim, Lanes, THREADS, Walk, bits_type, grid, order_type, sum_type};
use oxmlx_core::primitive::ScatterMode;
use oxmlx_types::{Dtype, Result, contiguous_strides};

/// Updates that find each other by looking.
const FEW: usize = 256;
/// Updates of one place that a thread combines; as in the kernel.
const PIECE: usize = 64;
/// Updates that a block sorts; as in the kernel.
const SORT_TILE: usize = 8 * 32 * 16;

/// The symbol's name for a way of combining elements of a type.
fn fold_name(mode: ScatterMode, dtype: Dtype) -> String {
    // On bools, which are bytes 0 and 1, sums and products are or and and: max and min.
    match (mode, dtype) {
        (ScatterMode::Assign, d) => format!("last_{}", bits_type(d)),
        (ScatterMode::Sum, Dtype::Bool) | (ScatterMode::Max, _) => format!("max_{}", order_type(dtype)),
        (ScatterMode::Prod, Dtype::Bool) | (ScatterMode::Min, _) => format!("min_{}", order_type(dtype)),
        (ScatterMode::Sum, d) => format!("sum_{}", sum_type(d)),
        (ScatterMode::Prod, d) => format!("prod_{}", sum_type(d)),
    }
}

/// Bytes of the type in which elements are combined.
fn acc_size(dtype: Dtype) -> usize {
    if matches!(dtype, Dtype::Float16 | Dtype::Bfloat16) { 4 } else { dtype.size() }
}

/// A scatter as the kernels see it.
struct Scatter<'a> {
    out: &'a Operand<'a>,
    updates: &'a Operand<'a>,
    mode: ScatterMode,
    /// Number of updates, and of places.
    count: usize,
    places: usize,
    /// Index arrays with the length of their axis and the slots between neighbours along it.
    arrays: Vec<(Operand<'a>, usize, usize)>,
    /// Shape of the index arrays; slots between neighbours along each of its axes, apart from the indices.
    shape: &'a [usize],
    own_steps: Vec<isize>,
    /// Where slots are in the output, updates in their array, and the lines of a row in both.
    slot_axes: Walk<1>,
    update_axes: Walk<1>,
    rows: Walk<2>,
}

impl Scatter<'_> {
    fn encode(self, e: &mut Encoding) -> Result<()> {
        let fold = fold_name(self.mode, self.out.dtype);
        let wide = self.places.max(self.count) >= u32::MAX as usize;
        let bytes = if wide { 8 } else { 4 };
        let slots = e.scratch(self.count * bytes);
        self.slots(slots, wide, e)?;
        let (lines, inner) = self.rows.clone().split_inner();
        let lanes = Lanes::new(inner.len);
        let blocks = lanes.blocks(self.count * lines.size());
        let few = self.count <= FEW;
        let (keys, numbers) = if few { (slots, slots) } else { self.sort(slots, wide, e)? };
        let row = lines.size() * inner.len * acc_size(self.out.dtype);
        let partial = if few { slots } else { e.scratch(2 * (self.count / PIECE + 1) * row) };
        let record = self.record(keys, numbers, partial, wide, (&lines, inner, lanes));
        if few {
            return e.launch(&format!("scatter_few_{fold}"), grid(blocks), &record);
        }
        e.launch(&format!("scatter_sorted_{fold}"), grid(blocks), &record)?;
        e.launch(&format!("scatter_finish_{fold}"), grid(blocks), &record)
    }

    /// The slot of each update.
    fn slots(&self, slots: Word, wide: bool, e: &mut Encoding) -> Result<()> {
        let mut strides: Vec<&[isize]> = self.arrays.iter().map(|a| a.0.strides()).collect();
        strides.push(&self.own_steps);
        let (rank, words) = index_axes(self.shape, &strides);
        let mut record = vec![
            slots,
            Word::Const(wide as u64),
            Word::from(self.count),
            Word::from(self.places),
            Word::from(self.arrays.len()),
            Word::from(rank),
        ];
        for (index, len, step) in &self.arrays {
            record.extend([index.address(), dtype_code(index.dtype), Word::from(*len), Word::from(*step)]);
        }
        record.extend(words);
        e.launch("scatter_slots", grid(self.count.div_ceil(THREADS)), &record)
    }

    /// Sorts the slots, and the updates' numbers with them.
    fn sort(&self, slots: Word, wide: bool, e: &mut Encoding) -> Result<(Word, Word)> {
        let (key, bytes) = if wide { ("uint64", 8) } else { ("uint32", 4) };
        let tiles = self.count.div_ceil(SORT_TILE);
        let counts = e.scratch(256 * tiles * bytes);
        let mut space = || e.scratch(self.count * bytes);
        let (mut keys, mut numbers) = (slots, Word::Const(0));
        let mut spare = [[space(), space()], [slots, space()]];
        let bits = usize::BITS - self.places.leading_zeros();
        for lowest in (0..bits).step_by(8) {
            let [to_keys, to_numbers] = spare[0];
            let record = [
                keys,
                numbers,
                to_keys,
                to_numbers,
                counts,
                Word::from(self.count),
                Word::Const(lowest as u64),
                Word::from(tiles),
            ];
            e.launch(&format!("scatter_count_{key}"), grid(tiles), &record)?;
            e.launch(&format!("scatter_scan_{key}"), Grid::line(1, THREADS as u32), &record)?;
            e.launch(&format!("scatter_sort_{key}"), grid(tiles), &record)?;
            (keys, numbers) = (to_keys, to_numbers);
            spare.swap(0, 1);
        }
        Ok((keys, numbers))
    }

    fn record(
        &self,
        keys: Word,
        numbers: Word,
        partial: Word,
        wide: bool,
        (lines, inner, lanes): (&Walk<2>, Dim<2>, Lanes),
    ) -> Vec<Word> {
        let mut record = vec![
            self.out.address(),
            self.updates.address(),
            keys,
            numbers,
            Word::Const(wide as u64),
            Word::from(self.count),
            Word::from(self.places),
            Word::from(inner.len),
            Word::from(lines.size()),
            Word::Const(lanes.shift as u64),
            Word::from(lanes.segments),
            Word::from(inner.step[0]),
            Word::from(inner.step[1]),
            Word::from(self.slot_axes.dims.len()),
            Word::from(self.update_axes.dims.len()),
            Word::from(lines.dims.len()),
            partial,
        ];
        record.extend(self.slot_axes.words());
        record.extend(self.update_axes.words());
        record.extend(lines.words());
        record
    }
}

/// Operand 0 with `updates: I + rest` combined at the indexed places.
pub(crate) fn scatter(
    base: &Operand<'_>,
    indices: &[Operand<'_>],
    updates: &Operand<'_>,
    axes: &[u8],
    mode: ScatterMode,
    out: &Operand<'_>,
    e: &mut Encoding,
) -> Result<()> {
    check_indices("scatter", indices)?;
    seed(base, out, e)?;
    if updates.size() == 0 || out.size() == 0 {
        return Ok(());
    }
    let shape = indices.first().map_or(&[][..], Operand::shape);
    let dense = contiguous_strides(out.shape());
    let lengths: Vec<usize> = axes.iter().map(|&a| out.shape()[a as usize]).collect();
    let slot_steps = contiguous_strides(&lengths);
    let along: Vec<isize> = axes.iter().map(|&a| dense[a as usize]).collect();
    let rank = shape.len();
    let scatter = Scatter {
        out,
        updates,
        mode,
        count: shape.iter().product(),
        places: lengths.iter().product(),
        arrays: (indices.iter().zip(&lengths).zip(&slot_steps))
            .map(|((&i, &len), &step)| (i, len, step as usize))
            .collect(),
        shape,
        own_steps: vec![0; rank],
        slot_axes: Walk::new(&lengths, [&along]),
        update_axes: Walk::new(shape, [&updates.strides()[..rank]]),
        rows: Walk::new(&rest_of(out.shape(), axes), [&rest_of(&dense, axes), &updates.strides()[rank..]]),
    };
    scatter.encode(e)
}

/// Lines that keep the device busy by themselves.
const MANY_LINES: usize = 4096;
/// Updates of a line that are too few to be worth sorting.
const SHORT: usize = 64;

/// Operand 0 with `updates` combined at `indices` along an axis.
pub(crate) fn scatter_axis(
    base: &Operand<'_>,
    indices: &Operand<'_>,
    updates: &Operand<'_>,
    axis: u8,
    mode: ScatterMode,
    out: &Operand<'_>,
    e: &mut Encoding,
) -> Result<()> {
    check_indices("put_along_axis", std::slice::from_ref(indices))?;
    seed(base, out, e)?;
    if indices.size() == 0 || out.size() == 0 {
        return Ok(());
    }
    let at = axis as usize;
    let dense = contiguous_strides(out.shape());
    let others = |s: &[isize]| rest_of(s, &[axis]);
    let lines = Walk::new(
        &rest_of(indices.shape(), &[axis]),
        [&others(&dense), &others(updates.strides()), &others(indices.strides())],
    );
    let (count, each) = (lines.size(), indices.shape()[at]);
    if count >= MANY_LINES || each <= SHORT {
        let mut record = vec![
            out.address(),
            updates.address(),
            indices.address(),
            dtype_code(indices.dtype),
            Word::from(count),
            Word::from(each),
            Word::from(out.shape()[at]),
            Word::from(dense[at]),
            Word::from(updates.strides()[at]),
            Word::from(indices.strides()[at]),
            Word::from(lines.dims.len()),
        ];
        record.extend(lines.words());
        let symbol = format!("scatter_columns_{}", fold_name(mode, out.dtype));
        return e.launch(&symbol, grid(count.div_ceil(THREADS)), &record);
    }
    let mut own_steps = dense.to_vec();
    own_steps[at] = 0;
    let scatter = Scatter {
        out,
        updates,
        mode,
        count: indices.size(),
        places: out.size(),
        arrays: vec![(*indices, out.shape()[at], dense[at] as usize)],
        shape: indices.shape(),
        own_steps,
        slot_axes: Walk::new(&[out.size()], [&[1]]),
        update_axes: Walk::new(indices.shape(), [updates.strides()]),
        rows: Walk::new(&[], [&[], &[]]),
    };
    scatter.encode(e)
}
