//! Reductions along any axes, and positions of extremes.
//!
//! Results are folded by columns or by rows, whichever reads neighbours together; few results are cut into
//! chunks whose accumulators a second launch combines in order. Cuts follow from the layout alone.

use crate::copy::Place;
use crate::record::{Encoding, Operand, Word};
use crate::walk::{Dim, THREADS, Walk, common_unit, grid, order_type, sum_type};
use oxmlx_core::primitive::ReduceOp;
use oxmlx_types::{Dtype, Result, contiguous_strides};

/// Blocks that keep a large device busy; a goal, nothing depends on it.
const BUSY: usize = 132 * 16;
/// Elements that may be folded in one launch although results are few.
const SHORT: usize = 2048;

/// The symbol's name for a combination of elements of a type. Truths are bools: the engine makes them so.
fn fold_name(op: ReduceOp, dtype: Dtype) -> String {
    match (op, dtype) {
        (ReduceOp::All | ReduceOp::Prod | ReduceOp::Min, Dtype::Bool) => "all_uint8".into(),
        (ReduceOp::Any | ReduceOp::Sum | ReduceOp::Max, Dtype::Bool) => "any_uint8".into(),
        (ReduceOp::All | ReduceOp::Any, d) => format!("{}_{d}", op.name()),
        (ReduceOp::Sum, d) => format!("sum_{}", sum_type(d)),
        (ReduceOp::Prod, d) => format!("prod_{}", sum_type(d)),
        (ReduceOp::Max, d) => format!("max_{}", order_type(d)),
        (ReduceOp::Min, d) => format!("min_{}", order_type(d)),
    }
}

/// The two halves of a shape, each with its densest axis innermost.
struct Split {
    /// Kept axes: steps in the input and in the output.
    kept: Walk<2>,
    /// Reduced axes: steps in the input.
    folded: Walk<1>,
}

impl Split {
    fn new(input: &Operand<'_>, out_shape: &[usize], axes: &[u8]) -> Split {
        let out_strides = contiguous_strides(out_shape);
        let mut order: Vec<usize> = (0..input.shape().len()).collect();
        order.sort_by_key(|&a| std::cmp::Reverse(input.strides()[a].unsigned_abs()));
        let pick = |folded: bool| order.iter().copied().filter(move |&a| axes.contains(&(a as u8)) == folded);
        let kept = |a| Dim { len: input.shape()[a], step: [input.strides()[a], out_strides[a]] };
        let folded = |a| Dim { len: input.shape()[a], step: [input.strides()[a]] };
        Split { kept: Walk::of(pick(false).map(kept)), folded: Walk::of(pick(true).map(folded)) }
    }

    /// Whether neighbours in memory belong to different results.
    fn by_columns(&self) -> bool {
        let inner = |d: Option<&Dim<2>>| d.map_or((1, usize::MAX), |d| (d.len, d.step[0].unsigned_abs()));
        let (kept_len, kept_step) = inner(self.kept.dims.last());
        let (len, step) =
            self.folded.dims.last().map_or((1, usize::MAX), |d| (d.len, d.step[0].unsigned_abs()));
        kept_len >= 4 && (len < 4 || kept_step <= step)
    }
}

/// How folded elements are cut so that there are at most `busy` blocks: elements of a chunk, and chunks.
fn cut(folded: usize, least: usize, blocks: usize, busy: usize) -> (usize, usize) {
    if folded <= 2 * least {
        return (folded.max(1), 1);
    }
    // Rounded down: a few blocks more than fit at once would take as long as twice as many.
    let chunks = (busy / blocks.max(1)).min(folded / least).max(1);
    let chunk = folded.div_ceil(chunks);
    (chunk, folded.div_ceil(chunk))
}

/// What one direction's kernel is to do, as words whose first is the place of the results.
struct Fold {
    stem: &'static str,
    head: Vec<Word>,
    axes: Vec<Word>,
    blocks: usize,
    results: usize,
    chunks: usize,
}

/// Results side by side: lanes along them.
fn columns(split: &Split, input: &Operand<'_>) -> Fold {
    let size = input.dtype.size();
    let (runs, inner) = split.kept.clone().split_inner();
    let steps = runs.dims.iter().map(|d| d.step[0]).chain(split.folded.dims.iter().map(|d| d.step[0]));
    let bytes = steps.map(|s| s.unsigned_abs() * size);
    let aligned = common_unit(bytes.chain([inner.len * size, Place::of(input).alignment])) == 16;
    let wide = aligned && inner.step[0] == 1;
    let per = if wide { 16 / size } else { 1 };
    let units = inner.len / per;
    let (folded, results) = (split.folded.size(), split.kept.size());
    let mut lanes = units.clamp(1, 32).next_power_of_two();
    // Where little is folded into few results, more threads fold each, in one launch.
    let little = |lanes: usize| units.div_ceil(lanes) * runs.size() < BUSY / 16;
    while folded <= SHORT && lanes > 4 && little(lanes) && folded > THREADS / lanes * 16 {
        lanes /= 2;
    }
    let pieces = units.div_ceil(lanes);
    let blocks = pieces * runs.size();
    // Each thread should have some elements to fold.
    let least = if folded <= SHORT / 2 { folded } else { THREADS / lanes * 16 };
    let (chunk, chunks) = cut(folded, least.max(1), blocks, 2 * BUSY);
    let head = vec![
        input.address(),
        Word::from(inner.len),
        Word::from(inner.step[0]),
        Word::from(inner.step[1]),
        Word::from(runs.size()),
        Word::from(folded),
        Word::from(chunk),
        Word::from(chunks),
        Word::Const(lanes.trailing_zeros() as u64),
        Word::from(pieces),
        Word::Const(wide as u64),
        Word::from(runs.dims.len()),
        Word::from(split.folded.dims.len()),
        Word::from(results),
    ];
    let axes = runs.words().into_iter().chain(split.folded.words()).collect();
    Fold { stem: "columns", head, axes, blocks: blocks * chunks, results, chunks }
}

/// Results one after the other: lanes along what is folded.
fn rows(split: &Split, input: &Operand<'_>) -> Fold {
    let size = input.dtype.size();
    let (mut folded, results) = (split.folded.clone(), split.kept.size());
    let last = folded.dims.last().map_or((1, 0), |d| (d.len, d.step[0]));
    let outer = folded.dims.iter().rev().skip(1).map(|d| d.step[0]);
    let steps = outer.chain(split.kept.dims.iter().map(|d| d.step[0]));
    let bytes = steps.map(|s| s.unsigned_abs() * size);
    let aligned = common_unit(bytes.chain([last.0 * size, Place::of(input).alignment])) == 16;
    let wide = aligned && last.1 == 1;
    if let Some(d) = folded.dims.last_mut().filter(|_| wide) {
        let per = 16 / size;
        *d = Dim { len: d.len / per, step: [per as isize] };
    }
    let units = folded.size();
    // Eight units a thread, as long as they are enough for a warp.
    let lanes = (units / 8).clamp(units.clamp(1, 32), THREADS.max(units.min(32)));
    let lanes = (lanes.next_power_of_two()).min(THREADS);
    let blocks = (results * lanes).div_ceil(THREADS);
    let (chunk, chunks) = cut(units, lanes * 8, blocks, if blocks >= BUSY / 4 { 1 } else { BUSY });
    let head = vec![
        input.address(),
        Word::from(results),
        Word::from(units),
        Word::from(chunk),
        Word::from(chunks),
        Word::Const(lanes.trailing_zeros() as u64),
        Word::Const(wide as u64),
        Word::from(split.kept.dims.len()),
        Word::from(folded.dims.len()),
    ];
    let axes = split.kept.words().into_iter().chain(folded.words()).collect();
    let blocks = (results * chunks * lanes).div_ceil(THREADS);
    Fold { stem: "rows", head, axes, blocks, results, chunks }
}

/// Log2 of the lanes that combine the chunks of a result. Neighbours read neighbouring results.
fn finish_lanes(results: usize, chunks: usize) -> u32 {
    let most = match results {
        8192.. => 1,
        64.. => 32,
        _ => THREADS,
    };
    chunks.next_power_of_two().min(most).trailing_zeros()
}

fn fold_of(input: &Operand<'_>, out: &Operand<'_>, axes: &[u8]) -> Fold {
    let split = Split::new(input, out.shape(), axes);
    if split.by_columns() { columns(&split, input) } else { rows(&split, input) }
}

/// A reduction; `out` has length 1 along `axes`.
pub(crate) fn reduce(
    op: ReduceOp,
    axes: &[u8],
    input: &Operand<'_>,
    out: &Operand<'_>,
    e: &mut Encoding,
) -> Result<()> {
    if out.size() == 0 {
        return Ok(());
    }
    let name = fold_name(op, input.dtype);
    let fold = fold_of(input, out, axes);
    let acc = match input.dtype {
        _ if name.starts_with("all") || name.starts_with("any") => 1,
        Dtype::Float16 | Dtype::Bfloat16 => 4,
        d => d.size(),
    };
    let several = fold.chunks > 1;
    let to = if several { e.scratch(fold.chunks * fold.results * acc) } else { out.address() };
    let record = [&[to][..], &fold.head, &fold.axes].concat();
    e.launch(&format!("reduce_{}_{name}", fold.stem), grid(fold.blocks), &record)?;
    if !several {
        return Ok(());
    }
    let shift = finish_lanes(fold.results, fold.chunks);
    let record =
        [out.address(), to, Word::from(fold.results), Word::from(fold.chunks), Word::Const(shift as u64)];
    let blocks = (fold.results << shift).div_ceil(THREADS);
    e.launch(&format!("reduce_finish_{name}"), grid(blocks), &record)
}

/// Position of the largest or smallest element along an axis.
pub(crate) fn arg_reduce(
    max: bool,
    axis: u8,
    input: &Operand<'_>,
    out: &Operand<'_>,
    e: &mut Encoding,
) -> Result<()> {
    if out.size() == 0 || input.size() == 0 {
        return Ok(());
    }
    let name = format!("{}_{}", if max { "max" } else { "min" }, order_type(input.dtype));
    let mut fold = fold_of(input, out, &[axis]);
    // An axis of length 1 was dropped; the kernels want one.
    if input.shape()[axis as usize] == 1 {
        fold.axes.extend([Word::Const(1), Word::Const(0)]);
    }
    let acc = if matches!(input.dtype, Dtype::Float16 | Dtype::Bfloat16) { 4 } else { input.dtype.size() };
    let several = fold.chunks > 1;
    let mut space =
        |bytes| if several { e.scratch(fold.chunks * fold.results * bytes) } else { Word::Const(0) };
    let (values, places) = (space(acc), space(4));
    let record = [&[out.address()][..], &fold.head, &[values, places], &fold.axes].concat();
    e.launch(&format!("arg_{}_{name}", fold.stem), grid(fold.blocks), &record)?;
    if !several {
        return Ok(());
    }
    let shift = finish_lanes(fold.results, fold.chunks);
    let record = [
        out.address(),
        values,
        Word::from(fold.results),
        Word::from(fold.chunks),
        Word::Const(shift as u64),
        places,
    ];
    let blocks = (fold.results << shift).div_ceil(THREADS);
    e.launch(&format!("arg_finish_{name}"), grid(blocks), &record)
}
