//! Copies into row-major order, and writes into strided windows.
//!
//! Elements are moved by size only. The widest unit that lengths, steps and addresses allow is chosen here;
//! the kernels know units. Axes that change places go through tiles in shared memory.

use crate::record::{Encoding, Grid, Operand, Word};
use crate::walk::{Dim, Lanes, THREADS, Walk, common_unit, grid};
use oxmlx_types::{Result, contiguous_strides};

/// Edge of a tile of a transposing copy.
const TILE: usize = 64;

/// Somewhere in memory: an address and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Address of the first element.
    pub address: Word,
    /// The largest power of two, 16 at most, that divides it.
    pub alignment: usize,
}

impl Place {
    /// Where an operand begins.
    pub(crate) fn of(operand: &Operand<'_>) -> Place {
        Place { address: operand.address(), alignment: operand.alignment.max(1) as usize }
    }

    /// This many bytes further.
    pub(crate) fn plus(self, bytes: usize) -> Place {
        let address = match self.address {
            Word::Address { value, bytes: b } => Word::Address { value, bytes: b + bytes as u64 },
            Word::Scratch(b) => Word::Scratch(b + bytes as u64),
            Word::Const(c) => Word::Const(c + bytes as u64),
            other => other,
        };
        Place { address, alignment: common_unit([self.alignment, bytes].into_iter()) }
    }

    /// Scratch memory.
    pub(crate) fn scratch(address: Word) -> Place {
        Place { address, alignment: 16 }
    }
}

/// Writes the operand in row-major order; `out` may bear another shape of that size.
pub(crate) fn contiguous(input: &Operand<'_>, out: &Operand<'_>, e: &mut Encoding) -> Result<()> {
    to_place(input, Place::of(out), e)
}

/// Writes the operand in row-major order into scratch memory and says where it is.
pub(crate) fn to_scratch(input: &Operand<'_>, e: &mut Encoding) -> Result<Word> {
    let word = e.scratch(input.size() * input.dtype.size());
    to_place(input, Place::scratch(word), e)?;
    Ok(word)
}

/// Writes the operand in row-major order to some place.
pub(crate) fn to_place(input: &Operand<'_>, to: Place, e: &mut Encoding) -> Result<()> {
    let job = Job {
        shape: input.shape(),
        from: Place::of(input),
        from_strides: input.strides(),
        to,
        to_strides: &contiguous_strides(input.shape()),
        starts: Vec::new(),
        start_unit: 16,
    };
    strided(&job, input.dtype.size(), e)
}

/// One strided array into another.
pub(crate) struct Job<'a> {
    pub shape: &'a [usize],
    pub from: Place,
    pub from_strides: &'a [isize],
    pub to: Place,
    pub to_strides: &'a [isize],
    /// What run-time starts add to the destination.
    pub starts: Vec<Start>,
    /// The largest power of two, 16 at most, that divides all bytes that starts can add.
    pub start_unit: usize,
}

/// A start that is known when the kernel runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub word: Word,
    /// It is kept between these.
    pub limits: [isize; 2],
    /// Elements of the destination between neighbouring starts.
    pub step: isize,
}

/// Encodes one job, by the best kernel for it.
pub(crate) fn strided(job: &Job<'_>, size: usize, e: &mut Encoding) -> Result<()> {
    let walk = Walk::new(job.shape, [job.from_strides, job.to_strides]);
    if walk.size() == 0 {
        return Ok(());
    }
    if job.starts.is_empty() {
        if let [] | [Dim { step: [1, 1], .. }] = walk.dims.as_slice() {
            return flat(job.from.address, job.to.address, walk.size() * size, e);
        }
        if let Some(axis) = dense_axis(&walk) {
            return tiles(job, walk, axis, size, e);
        }
        if spread(job, &walk, size, e)? {
            return Ok(());
        }
    }
    rows(&[(walk, job)], size, e)
}

/// A run of bytes.
pub(crate) fn flat(from: Word, to: Word, bytes: usize, e: &mut Encoding) -> Result<()> {
    e.launch("copy_flat", grid(bytes.div_ceil(THREADS * 64)), &[to, from, Word::from(bytes)])
}

/// A run of bytes of one value.
pub(crate) fn fill(to: Word, bytes: usize, value: u8, e: &mut Encoding) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let record = [to, Word::from(bytes), Word::Const(value as u64)];
    e.launch("copy_fill", grid(bytes.div_ceil(THREADS * 16)), &record)
}

/// The widest unit in which a walk's rows can be moved.
fn unit_of(walk: &Walk<2>, job: &Job<'_>, size: usize) -> usize {
    let Some((inner, outer)) = walk.dims.split_last() else { return size };
    if inner.step != [1, 1] {
        return size;
    }
    let steps = outer.iter().flat_map(|d| d.step).map(|s| s.unsigned_abs() * size);
    common_unit(steps.chain([inner.len * size, job.from.alignment, job.to.alignment, job.start_unit]))
        .max(size)
}

/// Several jobs of one element size in one launch.
pub(crate) fn rows(jobs: &[(Walk<2>, &Job<'_>)], size: usize, e: &mut Encoding) -> Result<()> {
    let unit = jobs.iter().map(|(w, j)| unit_of(w, j, size)).min().unwrap_or(size);
    let mut blocks = 0;
    let mut all: Vec<Vec<Word>> = Vec::new();
    for (walk, job) in jobs {
        let words = job_words(walk.clone(), job, unit, size, &mut blocks);
        all.push(words);
    }
    let len = all.iter().map(Vec::len).max().unwrap_or(0);
    let mut record = vec![Word::from(len)];
    for mut words in all {
        words.resize(len, Word::Const(0));
        record.append(&mut words);
    }
    let mut grid: Grid = grid(blocks);
    grid.blocks[1] = jobs.len() as u32;
    e.launch(&format!("copy_rows_{unit}"), grid, &record)
}

fn job_words(walk: Walk<2>, job: &Job<'_>, unit: usize, size: usize, blocks: &mut usize) -> Vec<Word> {
    let per = unit / size;
    let (outer, inner) = walk.split_inner();
    let rows = outer.size();
    let outer = if per > 1 { outer.in_units(per) } else { outer };
    let len = inner.len / per;
    let lanes = Lanes::new(len);
    *blocks = (*blocks).max(lanes.blocks(rows));
    let mut words = vec![
        job.to.address,
        job.from.address,
        Word::from(rows),
        Word::from(len),
        Word::from(lanes.segments),
        Word::Const(lanes.shift as u64),
        Word::from(inner.step[0]),
        Word::from(inner.step[1]),
        Word::from(outer.dims.len()),
        Word::from(job.starts.len()),
    ];
    words.extend(outer.words());
    for s in &job.starts {
        let step = Word::from(s.step / per as isize);
        words.extend([s.word, Word::from(s.limits[0]), Word::from(s.limits[1]), step]);
    }
    words
}

/// Rows that repeat one element, written 16 bytes at a time; says whether this job is one.
fn spread(job: &Job<'_>, walk: &Walk<2>, size: usize, e: &mut Encoding) -> Result<bool> {
    let (outer, inner) = walk.clone().split_inner();
    let steps = outer.dims.iter().map(|d| d.step[1].unsigned_abs() * size);
    if inner.step != [0, 1] || common_unit(steps.chain([inner.len * size, job.to.alignment])) < 16 {
        return Ok(false);
    }
    let len = inner.len * size / 16;
    let (rows, lanes) = (outer.size(), Lanes::new(len));
    let mut record = vec![
        Word::Const(0),
        job.to.address,
        job.from.address,
        Word::from(rows),
        Word::from(len),
        Word::from(lanes.segments),
        Word::Const(lanes.shift as u64),
        Word::Const(0),
        Word::Const(1),
        Word::from(outer.dims.len()),
        Word::Const(0),
    ];
    record.extend(outer.words());
    e.launch(&format!("copy_spread_{size}"), grid(lanes.blocks(rows)), &record)?;
    Ok(true)
}

/// The outer axis along which the source is dense, where the inner one is not and tiles pay.
fn dense_axis(walk: &Walk<2>) -> Option<usize> {
    let (inner, outer) = walk.dims.split_last()?;
    if inner.step[1] != 1 || inner.step[0].unsigned_abs() <= 1 || inner.len < 8 {
        return None;
    }
    outer.iter().position(|d| d.step[0] == 1 && d.len >= 8)
}

fn tiles(job: &Job<'_>, mut walk: Walk<2>, axis: usize, size: usize, e: &mut Encoding) -> Result<()> {
    let i = walk.dims.remove(axis);
    let (others, j) = walk.split_inner();
    let across = [i.len.div_ceil(TILE), j.len.div_ceil(TILE)];
    let tiles = across[0] * across[1] * others.size();
    let mut record = vec![
        job.to.address,
        job.from.address,
        Word::from(i.len),
        Word::from(j.len),
        Word::from(j.step[0]),
        Word::from(i.step[1]),
        Word::from(across[0]),
        Word::from(across[1]),
        Word::from(tiles),
        Word::from(others.dims.len()),
    ];
    record.extend(others.words());
    e.launch(&format!("copy_tiles_{size}"), grid(tiles), &record)
}

/// `out = base`, then `update` written into the window that begins at the run-time words from `params` on and
/// steps by `steps`. A start that would leave the array is moved to its edge.
pub(crate) fn slice_update(
    base: &Operand<'_>,
    update: &Operand<'_>,
    steps: &[i32],
    params: u32,
    out: &Operand<'_>,
    e: &mut Encoding,
) -> Result<()> {
    seed(base, out, e)?;
    if update.size() == 0 {
        return Ok(());
    }
    let size = out.dtype.size();
    let dense = contiguous_strides(out.shape());
    let mut window = dense.clone();
    let mut starts = Vec::new();
    let mut start_unit = 16;
    for (axis, &step) in dense.iter().enumerate() {
        let by = steps.get(axis).map_or(1, |&s| s as isize);
        window[axis] = step * by;
        let reach = (update.shape()[axis] as isize - 1) * by;
        let limits = [(-reach).max(0), out.shape()[axis] as isize - 1 - reach.max(0)];
        // A window as long as the axis can begin at one place only.
        if limits[0] == limits[1] && limits[0] == 0 {
            continue;
        }
        start_unit = common_unit([start_unit, step as usize * size].into_iter());
        starts.push(Start { word: Word::Param(params + axis as u32), limits, step });
    }
    let job = Job {
        shape: update.shape(),
        from: Place::of(update),
        from_strides: update.strides(),
        to: Place::of(out),
        to_strides: &window,
        starts,
        start_unit,
    };
    strided(&job, size, e)
}

/// Makes `out` a row-major copy of `base`, unless it is that memory already.
pub(crate) fn seed(base: &Operand<'_>, out: &Operand<'_>, e: &mut Encoding) -> Result<()> {
    if base.base == out.base && base.layout.is_contiguous() { Ok(()) } else { contiguous(base, out, e) }
}
