//! Groups without rows: one kernel over a linear domain.
//!
//! Two forms. In the flat one every operand lies as the domain does (or is one element): a thread takes a few
//! vectors of neighbouring elements, a block's length apart. In the strided one the axes that are left after
//! joining are walked: a thread still takes neighbours along the last axis, and finds their place with one
//! division an axis. Results are row-major. A thread reads all its elements before it writes any, so that a
//! result may take the memory of an operand that lies as it does.

use super::functors::{computed, stored};
use super::layout::{access, bucket, divisor, joined_all, strides};
use super::program::{Program, narrowed, widened};
use super::strided;
use super::tiled::{self, Tile};
use crate::record::{Grid, Operand, Word};
use oxmlx_core::plan::{Extent, Reg};
use smallvec::SmallVec;
use std::fmt::Write;

pub(super) const THREADS: usize = 256;
/// Elements below which a thread takes one vector: more threads hide more than more vectors.
const SMALL: usize = 1 << 20;
/// The longest code of one thread, in additions.
const LONGEST: usize = 768;

/// How a kernel reads one operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// One element for all.
    One,
    /// As the domain lies, this many elements at once.
    Linear(usize),
    /// Neighbours along the last axis are neighbours, this many elements at once.
    Unit(usize),
    /// The same element along the last axis.
    Constant,
    /// Elements along the last axis lie apart.
    Apart,
}

/// What the code depends on, besides the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Form {
    /// Axes that are walked; 0 in the flat form.
    pub rank: usize,
    /// Whether indices need 64 bits (strided form).
    pub long: bool,
    /// Neighbours that a thread takes, and how often.
    pub vector: usize,
    pub times: usize,
    /// Readings of operands, and whether their elements may lie at any address.
    pub inputs: SmallVec<[(Access, bool); 8]>,
    /// Elements of an access to each result.
    pub outputs: SmallVec<[usize; 4]>,
    tile: Option<Tile>,
}

/// The form of a launch, its grid and its record; `None` where there is nothing to do.
pub(super) fn plan<'a>(p: &Program, operand: &dyn Fn(u32) -> Operand<'a>) -> Option<(Form, Grid, Vec<Word>)> {
    let shape = operand(p.domain).layout.shape.clone();
    let n: usize = shape.iter().product();
    if n == 0 {
        return None;
    }
    let full: Vec<usize> = (0..p.inputs.len()).filter(|&i| p.regs[i].extent == Extent::Full).collect();
    let mut over: Vec<SmallVec<[isize; 6]>> =
        full.iter().map(|&i| strides(operand(p.inputs[i].value).layout, &shape)).collect();
    // The domain itself, so that linear operands are seen.
    over.push(oxmlx_types::contiguous_strides(&shape).iter().copied().collect());
    let (lengths, over) = joined_all(&shape, &over);
    let (linear, over) = over.split_last()?;
    let is_one = |s: &SmallVec<[isize; 6]>| s.iter().zip(&lengths).all(|(&s, &n)| s == 0 || n == 1);
    let flat = over.iter().all(|s| s == linear || is_one(s));
    let (rank, last) = (lengths.len(), lengths[lengths.len() - 1]);
    let widest = widest(p, |i| full.iter().position(|&f| f == i).is_some_and(|k| !is_one(&over[k])));
    let mut vector = 16 / widest;
    while vector > 1 && (vector * p.weight as usize > LONGEST || !flat && last % vector != 0) {
        vector /= 2;
    }
    let mut inputs: SmallVec<[(Access, bool); 8]> = SmallVec::new();
    let mut walked: Vec<&SmallVec<[isize; 6]>> = Vec::new();
    let mut bytes = 0;
    for i in 0..p.inputs.len() {
        let o = operand(p.inputs[i].value);
        let size = o.dtype.size();
        let loose = (o.alignment as usize) < size;
        let axes = full.iter().position(|&f| f == i).map(|k| &over[k]);
        let how = match axes {
            Some(s) if !is_one(s) => {
                bytes += size * vector;
                if s == linear {
                    Access::Linear(access(vector, o.alignment, size, std::iter::empty()))
                } else {
                    walked.push(s);
                    let outer = s[..s.len() - 1].iter().map(|s| s.unsigned_abs());
                    match s[s.len() - 1] {
                        _ if loose => Access::Apart,
                        1 => Access::Unit(access(vector, o.alignment, size, outer)),
                        0 => Access::Constant,
                        _ => Access::Apart,
                    }
                }
            }
            _ => Access::One,
        };
        inputs.push((how, loose));
    }
    let outputs = p
        .outputs
        .iter()
        .map(|o| {
            let v = operand(o.value);
            access(vector, v.alignment, v.dtype.size(), std::iter::empty())
        })
        .collect();
    let times = if n < SMALL || vector * p.weight as usize * 2 > LONGEST / 2 {
        1
    } else {
        match bytes {
            0 => 2,
            1..=16 => 4,
            17..=48 => 2,
            _ => 1,
        }
    };
    let narrow =
        n < 1 << 31 && walked.iter().all(|s| s.iter().zip(&lengths).all(|(s, _)| s.unsigned_abs() < 1 << 31));
    let mut form =
        Form { rank: if flat { 0 } else { rank }, long: !narrow, vector, times, inputs, outputs, tile: None };
    let mut words: Vec<Word> = vec![n.into()];
    words.extend(p.inputs.iter().map(|i| operand(i.value).address()));
    words.extend(p.outputs.iter().map(|o| operand(o.value).address()));
    let operands: Vec<Option<&SmallVec<[isize; 6]>>> = (0..p.inputs.len())
        .map(|i| full.iter().position(|&f| f == i).map(|k| &over[k]).filter(|s| !is_one(s)))
        .collect();
    if narrow && let Some((tile, grid)) = tiled::plan(p, &operands, &lengths, linear, &mut words) {
        form.tile = Some(tile);
        return Some((form, grid, words));
    }
    if !flat {
        for &n in &lengths {
            words.extend([n.into(), Word::Const(if narrow { divisor(n) } else { 0 })]);
        }
        for s in walked {
            words.extend(s.iter().map(|&s| Word::from(s)));
        }
    }
    let work = THREADS * form.vector * form.times;
    let blocks = bucket(n).div_ceil(work);
    Some((form, Grid::line(blocks, THREADS as u32), words))
}

/// Bytes of the widest operand that is not one element.
fn widest(p: &Program, counts: impl Fn(usize) -> bool) -> usize {
    let inputs = (0..p.inputs.len()).filter(|&i| counts(i)).map(|i| p.regs[i].dtype.size());
    inputs.chain(p.outputs.iter().map(|o| p.dtype(o.reg).size())).max().unwrap_or(8)
}

/// The kernel's text; its entry point is called NAME.
pub(super) fn text(p: &Program, form: &Form) -> String {
    let mut t = p.includes.clone();
    body(p, &mut t);
    let (v, u) = (form.vector, form.times);
    let count = v * u;
    let _ = write!(
        t,
        "extern \"C\" __global__ void __launch_bounds__({THREADS}) NAME(Record r) {{\n  const uint64 n = r[0];\n"
    );
    for i in one_inputs(p, form) {
        let d = p.regs[i].dtype;
        let read = if form.inputs[i].1 { "read_loose" } else { "read_one" };
        let from = format!("{read}(pointer<const {}>(r[{}]))", stored(d), 1 + i);
        let _ = writeln!(t, "  const {} x{i} = {};", computed(d), widened(d, &from));
    }
    t.push_str(&p.lines(Extent::One, 0));
    for (k, o) in p.outputs.iter().enumerate().filter(|o| p.extent(o.1.reg) == Extent::One) {
        let d = p.dtype(o.reg);
        let at = 1 + p.inputs.len() + k;
        let _ = writeln!(
            t,
            "  if (blockIdx.x == 0 && threadIdx.x == 0) *pointer<{}>(r[{at}]) = {};",
            stored(d),
            narrowed(d, o.reg)
        );
    }
    if let Some(tile) = &form.tile {
        tiled::code(p, form, tile, &mut t);
    } else if form.rank == 0 {
        flat(p, form, &mut t)
    } else {
        strided::code(p, form, &mut t)
    }
    t.push_str("}\n");
    debug_assert!(count > 0);
    t
}

/// Registers that are one element for the whole launch: operands, by extent or by layout.
fn one_inputs<'a>(p: &'a Program, form: &'a Form) -> impl Iterator<Item = usize> + 'a {
    (0..p.inputs.len()).filter(|&i| form.inputs[i].0 == Access::One)
}

pub(super) fn full_outputs(p: &Program) -> impl Iterator<Item = (usize, Reg)> + '_ {
    let full = |o: &(usize, &oxmlx_core::plan::GroupOutput)| p.extent(o.1.reg) == Extent::Full;
    p.outputs.iter().enumerate().filter(full).map(|(k, o)| (k, o.reg))
}

/// `body`: one element. All operands and registers of extent One come in, stored results go out.
fn body(p: &Program, t: &mut String) {
    let mut args: Vec<String> = Vec::new();
    for i in 0..p.inputs.len() {
        args.push(format!("const {} x{i}", computed(p.regs[i].dtype)));
    }
    for s in p.steps.iter().filter(|s| s.extent == Extent::One) {
        args.push(format!("const {} x{}", computed(p.dtype(s.dst)), s.dst));
    }
    for (k, reg) in full_outputs(p) {
        args.push(format!("{}& y{k}", stored(p.dtype(reg))));
    }
    let _ = writeln!(t, "static __device__ __forceinline__ void body({}) {{", args.join(", "));
    t.push_str(&p.lines(Extent::Full, 0));
    for (k, reg) in full_outputs(p) {
        let _ = writeln!(t, "  y{k} = {};", narrowed(p.dtype(reg), reg));
    }
    t.push_str("}\n");
}

/// A call of `body` with operands' elements `a<i>[k]` and results `b<k>[k]`.
pub(super) fn call(p: &Program, form: &Form, index: &str) -> String {
    let mut args: Vec<String> = Vec::new();
    for i in 0..p.inputs.len() {
        args.push(match form.inputs[i].0 {
            Access::One => format!("x{i}"),
            _ => widened(p.regs[i].dtype, &format!("a{i}[{index}]")),
        });
    }
    args.extend(p.steps.iter().filter(|s| s.extent == Extent::One).map(|s| format!("x{}", s.dst)));
    args.extend(full_outputs(p).map(|(k, _)| format!("b{k}[{index}]")));
    format!("body({});", args.join(", "))
}

/// Declares arrays of `count` elements for operands and results.
pub(super) fn arrays(p: &Program, form: &Form, count: usize, indent: &str, t: &mut String) {
    for i in (0..p.inputs.len()).filter(|&i| form.inputs[i].0 != Access::One) {
        let _ = writeln!(t, "{indent}{} a{i}[{count}];", stored(p.regs[i].dtype));
    }
    for (k, reg) in full_outputs(p) {
        let _ = writeln!(t, "{indent}{} b{k}[{count}];", stored(p.dtype(reg)));
    }
}

fn flat(p: &Program, form: &Form, t: &mut String) {
    let (v, u) = (form.vector, form.times);
    let pointers = pointers(p, form);
    t.push_str(&pointers);
    let work = THREADS * v * u;
    let reads = |per: usize, at: &str, to: &str, indent: &str| -> String {
        let some = (0..p.inputs.len()).filter_map(|i| match form.inputs[i] {
            (Access::Linear(_), true) => Some(format!(
                "{indent}for (int e = 0; e < {per}; ++e) a{i}[{to}e] = read_loose(p{i} + {at} + e);\n"
            )),
            (Access::Linear(w), false) => {
                Some(format!("{indent}read<{per}, {}>(a{i} + {to}0, p{i} + {at});\n", w.min(per)))
            }
            _ => None,
        });
        some.collect()
    };
    let writes = |per: usize, at: &str, from: &str, indent: &str| -> String {
        let some = full_outputs(p).map(|(k, _)| {
            format!("{indent}write<{per}, {}>(q{k} + {at}, b{k} + {from}0);\n", form.outputs[k].min(per))
        });
        some.collect()
    };
    let unroll = "#pragma unroll\n";
    let mut scalar = String::new();
    arrays(p, form, 1, "      ", &mut scalar);
    let _ = write!(
        scalar,
        "{}      {}\n{}",
        reads(1, "at", "0 + ", "      ").replace("0 + 0", "0").replace("0 + e", "e"),
        call(p, form, "0"),
        writes(1, "at", "0 + ", "      ").replace("0 + 0", "0")
    );
    let mut vectors = String::new();
    arrays(p, form, v * u, "    ", &mut vectors);
    let _ = write!(
        vectors,
        "{unroll}    for (int u = 0; u < {u}; ++u) {{\n{}    }}\n\
         {unroll}    for (int k = 0; k < {}; ++k) {{\n      {}\n    }}\n\
         {unroll}    for (int u = 0; u < {u}; ++u) {{\n{}    }}\n",
        reads(v, &format!("at + u * {}", THREADS * v), &format!("u * {v} + "), "      "),
        v * u,
        call(p, form, "k"),
        writes(v, &format!("at + u * {}", THREADS * v), &format!("u * {v} + "), "      "),
    );
    let _ = writeln!(t, "  const uint64 first = (uint64)blockIdx.x * {work};");
    if u == 1 {
        let _ = write!(
            t,
            "  const uint64 begin = first + threadIdx.x * {v};\n  if (begin + {v} <= n) {{\n    \
             const uint64 at = begin;\n{vectors}  }} else {{\n    \
             #pragma unroll 1\n    for (uint64 at = begin; at < n; ++at) {{\n{scalar}    }}\n  }}\n"
        );
    } else {
        let _ = write!(
            t,
            "  if (first + {work} <= n) {{\n    const uint64 at = first + threadIdx.x * {v};\n{vectors}  }} else {{\n    \
             #pragma unroll 1\n    for (uint64 at = first + threadIdx.x; at < n; at += {THREADS}) {{\n{scalar}    }}\n  }}\n"
        );
    }
}

/// Declares the operands' and results' addresses.
pub(super) fn pointers(p: &Program, form: &Form) -> String {
    let mut t = String::new();
    for i in (0..p.inputs.len()).filter(|&i| form.inputs[i].0 != Access::One) {
        let s = stored(p.regs[i].dtype);
        let _ = writeln!(t, "  const {s}* const p{i} = pointer<const {s}>(r[{}]);", 1 + i);
    }
    for (k, reg) in full_outputs(p) {
        let s = stored(p.dtype(reg));
        let _ = writeln!(t, "  {s}* const q{k} = pointer<{s}>(r[{}]);", 1 + p.inputs.len() + k);
    }
    t
}
