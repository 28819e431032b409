//! Groups with rows: how a row is divided over threads, and what a launch is made of.
//!
//! The order in which a row's elements are combined follows from the number of rows and their length alone
//! (see [`Division`]), never from what else a kernel does or how its operands lie: the same row gives the same
//! bits alone and inside a softmax. A row is cut into segments (one, unless rows are few and long); in a
//! segment, thread t of T takes the four neighbours at 4 (iT + t) for each i, combines those four in a tree,
//! and then with what it has; threads are combined in a butterfly, segments by lane and then in a butterfly.
//!
//! Four codes keep this order. `Kept` holds a whole row in registers, so that operands are read once; `Walk`
//! reads rows of any length anew in each phase; `Split` leaves the segments of a row to as many blocks and
//! `Finish` combines them.

use super::layout::{Axes, access, bucket, joined, strides};
use super::program::Program;
use crate::record::{Encoding, Grid, Operand, Word};
use oxmlx_core::plan::Extent;
use smallvec::SmallVec;

/// Neighbours that a thread combines first.
pub(super) const CHUNK: usize = 4;
/// Threads of a block that has several rows.
pub(super) const THREADS: usize = 256;
/// Words of a record before the first operand.
pub(super) const HEAD: usize = 5;
/// Rows up to this length are some lanes' or a warp's, several a block.
const SHORT: usize = 1024;
/// Rows up to this length may stay in registers, and are never cut.
const LONG: usize = 32_768;
/// The longest unrolled code of one thread, in additions.
const LONGEST: usize = 3000;

/// How a row's elements are divided: the canonical order of its reductions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Division {
    pub segments: usize,
    /// Elements of a segment; a multiple of what its threads take at once.
    pub segment: usize,
    /// Threads of a segment; 32 and fewer are lanes of a warp.
    pub threads: usize,
}

impl Division {
    pub fn new(rows: usize, len: usize) -> Division {
        let whole = |threads| Division { segments: 1, segment: len, threads };
        if len <= SHORT {
            return whole(len.div_ceil(8).next_power_of_two().min(32));
        }
        let most = (1024 / rows.max(1)).min(len / 8192);
        if len > LONG && most > 1 {
            let segment = len.div_ceil(most).next_multiple_of(1024 * CHUNK);
            return Division { segments: len.div_ceil(segment), segment, threads: 1024 };
        }
        whole(bucket(len.div_ceil(16)).next_multiple_of(32).clamp(64, 1024))
    }
}

/// How the code goes over a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// In registers: this many chunks a thread.
    Kept(usize),
    /// Once a phase; `many` segments or one.
    Walk { many: bool },
    /// One segment of a row, of several.
    Split,
    /// The results of segments, and what follows from them.
    Finish,
}

/// How a row's elements of one operand are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// One element for the whole launch.
    One,
    /// One element a row; how many axes the rows have.
    Row(usize),
    /// Neighbours, this many at once.
    Unit(usize, usize),
    /// Elements that lie apart evenly.
    Apart(usize),
    /// Elements along this many axes of the row.
    Walked(usize, usize),
}

impl Reading {
    /// Words of a record, the address included.
    pub fn words(self) -> usize {
        match self {
            Reading::One => 1,
            Reading::Row(lead) | Reading::Unit(lead, _) => 1 + 2 * lead,
            Reading::Apart(lead) => 2 + 2 * lead,
            Reading::Walked(lead, rank) => 1 + 2 * lead + 2 * rank,
        }
    }

    /// Whether it differs along a row.
    pub fn is_full(self) -> bool {
        !matches!(self, Reading::One | Reading::Row(_))
    }
}

/// What the code depends on, besides the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Form {
    pub mode: Mode,
    /// Lanes of a row, or 0 where a row is a block's.
    pub lanes: usize,
    /// Threads of a block, at most.
    pub bound: usize,
    /// Threads of a segment, where rows are walked; else any number.
    pub threads: usize,
    /// Whether rows end with a chunk.
    pub whole: bool,
    /// Readings of operands, and whether their elements may lie at any address.
    pub inputs: SmallVec<[(Reading, bool); 8]>,
    /// Elements of an access to each result.
    pub outputs: SmallVec<[usize; 4]>,
}

/// Adds a group's launches; `kernel` makes the kernel of a form.
pub(super) fn encode<'a>(
    p: &Program,
    operand: &dyn Fn(u32) -> Operand<'a>,
    e: &mut Encoding,
    mut kernel: impl FnMut(Form) -> std::sync::Arc<crate::record::Kernel>,
) {
    let shape = operand(p.domain).layout.shape.clone();
    let split = shape.len().saturating_sub(p.row_axes);
    let rows: usize = shape[..split].iter().product();
    let len: usize = shape[split..].iter().product();
    if rows == 0 {
        return;
    }
    let division = Division::new(rows, len);
    let folds = p.steps.iter().filter(|s| s.fold.is_some()).count();
    let many = division.segments > 1;
    let scratch = if many { e.scratch(rows * folds * division.segments * 8) } else { Word::Const(0) };
    let mut words: Vec<Word> =
        vec![rows.into(), len.into(), division.segments.into(), division.segment.into(), scratch];
    let mut inputs: SmallVec<[(Reading, bool); 8]> = SmallVec::new();
    for i in 0..p.inputs.len() {
        inputs.push(input(p, i, operand(p.inputs[i].value), &shape, split, &mut words));
    }
    let whole = len.is_multiple_of(CHUNK);
    let mut outputs: SmallVec<[usize; 4]> = SmallVec::new();
    for o in &p.outputs {
        let v = operand(o.value);
        outputs.push(access(CHUNK, v.alignment, v.dtype.size(), std::iter::once(len)));
        words.push(v.address());
    }
    let lanes = if division.threads <= 32 { division.threads } else { 0 };
    let bound = match division.threads {
        ..=256 => 256,
        257..=512 => 512,
        _ => 1024,
    };
    let mode = match (many, p.respreads) {
        (true, false) => Mode::Split,
        (true, true) => Mode::Walk { many },
        (false, _) if fits(p, &inputs, len, division.threads, bound) => {
            Mode::Kept(len.div_ceil(CHUNK * division.threads).max(1))
        }
        (false, _) => Mode::Walk { many },
    };
    let threads = if matches!(mode, Mode::Kept(_)) { 0 } else { division.threads };
    let form = Form { mode, lanes, bound, threads, whole, inputs, outputs };
    let grid = match mode {
        Mode::Split => Grid::line(bucket(rows * division.segments), 1024),
        _ if lanes > 0 => Grid::line(bucket(rows).div_ceil(THREADS / lanes), THREADS as u32),
        _ => Grid::line(bucket(rows), division.threads as u32),
    };
    e.launch_kernel(kernel(form.clone()), grid, &words);
    let by_row = p.outputs.iter().any(|o| p.extent(o.reg) == Extent::Row);
    if mode == Mode::Split && by_row {
        let finish = Form { mode: Mode::Finish, lanes: 0, bound: 32, ..form };
        e.launch_kernel(kernel(finish), Grid::line(bucket(rows), 32), &words);
    }
}

/// How an operand is read; adds its words.
fn input(
    p: &Program,
    i: usize,
    o: Operand,
    shape: &[usize],
    split: usize,
    words: &mut Vec<Word>,
) -> (Reading, bool) {
    let loose = (o.alignment as usize) < o.dtype.size();
    words.push(o.address());
    let add = |axes: &Axes, words: &mut Vec<Word>| {
        for &(n, stride) in axes {
            words.extend([n.into(), Word::from(stride)]);
        }
    };
    let over = match (p.regs[i].extent, p.inputs[i].squeezed) {
        (Extent::One, _) => return (Reading::One, loose),
        (Extent::Row, true) => strides(o.layout, &shape[..split]),
        (Extent::Row, false) => {
            let kept: SmallVec<[usize; 6]> =
                shape.iter().enumerate().map(|(a, &n)| if a < split { n } else { 1 }).collect();
            strides(o.layout, &kept)
        }
        (Extent::Full, _) => strides(o.layout, shape),
    };
    let lead = joined(&shape[..split], &over[..split]);
    add(&lead, words);
    let own =
        if p.regs[i].extent == Extent::Full { joined(&shape[split..], &over[split..]) } else { Axes::new() };
    let steps = || lead.iter().map(|a| a.1.unsigned_abs());
    let reading = match own[..] {
        [] => Reading::Row(lead.len()),
        [(_, 1)] if !loose => Reading::Unit(lead.len(), access(CHUNK, o.alignment, o.dtype.size(), steps())),
        [(_, stride)] if !loose => {
            words.push(Word::from(stride));
            Reading::Apart(lead.len())
        }
        _ => {
            add(&own, words);
            Reading::Walked(lead.len(), own.len())
        }
    };
    (reading, loose)
}

/// Whether a row's operands, and what is kept of it from phase to phase, fit a thread's registers.
fn fits(p: &Program, inputs: &[(Reading, bool)], len: usize, threads: usize, bound: usize) -> bool {
    if len > LONG {
        return false;
    }
    let each = len.div_ceil(CHUNK * threads).max(1) * CHUNK;
    let registers = match bound {
        ..=256 => 160,
        257..=512 => 112,
        _ => 60,
    };
    let width = |size: usize| size.div_ceil(4);
    let operands: usize =
        (0..inputs.len()).filter(|&i| inputs[i].0.is_full()).map(|i| width(p.regs[i].dtype.size())).sum();
    let kept: usize = super::row_text::kept(p).map(|s| width(p.dtype(s.dst).size())).sum();
    each * (operands.max(1) + kept) + 24 <= registers && each * p.weight as usize <= LONGEST
}
