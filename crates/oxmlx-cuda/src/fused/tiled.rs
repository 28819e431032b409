//! Groups without rows where an operand lies across the domain: a transposed matrix.
//!
//! A block takes a square of the last axis and of the axis along which such an operand is dense. It reads the
//! operand along that axis into shared memory and takes it from there along the last axis, so that both memory
//! and results move in whole lines.

use super::functors::stored;
use super::layout::bucket;
use super::pointwise::{self, Access, Form, THREADS};
use super::program::Program;
use crate::record::{Grid, Word};
use smallvec::SmallVec;
use std::fmt::Write;

/// Length of a square's side.
const SIDE: usize = 32;
/// Elements of a square that a thread takes.
const EACH: usize = SIDE * SIDE / THREADS;
/// Bytes of shared memory that a block may take, at most.
const SHARED: usize = 40 << 10;

/// What a tiled form adds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tile {
    /// Axes besides the two of the square.
    batch: usize,
    /// Operands that go through shared memory.
    through: SmallVec<[bool; 8]>,
}

type Strides = SmallVec<[isize; 6]>;

/// How the launch is tiled, if it should be: operands' strides over `lengths` (`None` for single elements),
/// the results' strides. Adds the words after the operands' and results' addresses.
pub(super) fn plan(
    p: &Program,
    operands: &[Option<&Strides>],
    lengths: &[usize],
    linear: &Strides,
    words: &mut Vec<Word>,
) -> Option<(Tile, Grid)> {
    let rank = lengths.len();
    if rank < 2 || lengths[rank - 1] < SIDE {
        return None;
    }
    let last = rank - 1;
    // The axis along which an operand that lies apart along the last one is dense.
    let apart = |s: &Strides| s[last].unsigned_abs() > 1;
    let dense = |s: &Strides| (0..last).find(|&a| s[a] == 1 && lengths[a] >= SIDE);
    let down = operands.iter().flatten().filter(|s| apart(s)).find_map(|s| dense(s))?;
    let through: SmallVec<[bool; 8]> =
        operands.iter().map(|s| s.is_some_and(|s| apart(s) && s[down] == 1)).collect();
    let sizes = (0..operands.len()).filter(|&i| through[i]).map(|i| p.regs[i].dtype.size());
    if sizes.sum::<usize>() * SIDE * (SIDE + 1) > SHARED {
        return None;
    }
    let others: Vec<usize> = (0..last).filter(|&a| a != down).collect();
    let squares = [lengths[last].div_ceil(SIDE), lengths[down].div_ceil(SIDE)];
    let count = squares[0] * squares[1] * others.iter().map(|&a| lengths[a]).product::<usize>();
    words.extend([squares[0], squares[1], count, lengths[last], lengths[down]].map(Word::from));
    words.extend(others.iter().map(|&a| Word::from(lengths[a])));
    for s in operands.iter().flatten().copied().chain([linear]) {
        words.extend([s[last], s[down]].map(Word::from));
        words.extend(others.iter().map(|&a| Word::from(s[a])));
    }
    Some((Tile { batch: others.len(), through }, Grid::line(bucket(count), THREADS as u32)))
}

/// The kernel after its single elements.
pub(super) fn code(p: &Program, form: &Form, tile: &Tile, t: &mut String) {
    t.push_str(&pointwise::pointers(p, form));
    let head = 1 + p.inputs.len() + p.outputs.len();
    let many: Vec<usize> = (0..p.inputs.len()).filter(|&i| form.inputs[i].0 != Access::One).collect();
    // The words of an operand's strides; the results' come last.
    let own = |n: usize| head + 5 + tile.batch + n * (2 + tile.batch);
    for &i in many.iter().filter(|&&i| tile.through[i]) {
        let _ = writeln!(t, "  __shared__ {} s{i}[{SIDE}][{}];", stored(p.regs[i].dtype), SIDE + 1);
    }
    let _ = write!(
        t,
        "  if (blockIdx.x >= r[{}]) return;\n  const uint32 wide = (uint32)r[{head}], high = (uint32)r[{}];\n  \
         uint32 rest = blockIdx.x / wide;\n  const int64 left = (int64)(blockIdx.x - rest * wide) * {SIDE};\n  \
         const uint32 below = rest / high;\n  const int64 top = (int64)(rest - below * high) * {SIDE};\n  rest = below;\n  \
         const int64 width = (int64)r[{}], height = (int64)r[{}];\n  \
         const int32 lane = threadIdx.x & 31, line = threadIdx.x >> 5;\n",
        head + 2,
        head + 1,
        head + 3,
        head + 4,
    );
    let names: Vec<String> = many.iter().map(|i| format!("o{i}")).chain(["o".into()]).collect();
    for name in &names {
        let _ = writeln!(t, "  int64 {name} = 0;");
    }
    if tile.batch > 0 {
        let _ = write!(
            t,
            "#pragma unroll 1\n  for (int a = {}; a >= 0; --a) {{\n    const uint32 n = (uint32)r[{} + a], q = rest / n;\n    \
             const int64 m = rest - q * n;\n    rest = q;\n",
            tile.batch - 1,
            head + 5
        );
        for (k, name) in names.iter().enumerate() {
            let _ = writeln!(t, "    {name} += m * (int64)r[{} + a];", own(k) + 2);
        }
        t.push_str("  }\n");
    }
    let at = |k: usize, x: &str, y: &str| {
        format!("{} + ({x}) * (int64)r[{}] + ({y}) * (int64)r[{}]", names[k], own(k), own(k) + 1)
    };
    pointwise::arrays(p, form, EACH, "  ", t);
    let each = format!(
        "#pragma unroll\n  for (int i = 0; i < {EACH}; ++i) {{\n    const int32 j = line + {} * i;\n",
        THREADS / 32
    );
    let read = |i: usize| if form.inputs[i].1 { "read_loose" } else { "read_one" };
    t.push_str(&each);
    t.push_str("    if (top + lane < height && left + j < width) {\n");
    for (k, &i) in many.iter().enumerate().filter(|m| tile.through[*m.1]) {
        let _ = writeln!(t, "      a{i}[i] = {}(p{i} + {});", read(i), at(k, "left + j", "top + lane"));
    }
    t.push_str("    }\n    if (left + lane < width && top + j < height) {\n");
    for (k, &i) in many.iter().enumerate().filter(|m| !tile.through[*m.1]) {
        let _ = writeln!(t, "      a{i}[i] = {}(p{i} + {});", read(i), at(k, "left + lane", "top + j"));
    }
    t.push_str("    }\n  }\n");
    // All loads are under way before the first one is waited for.
    t.push_str(&each);
    for &i in many.iter().filter(|&&i| tile.through[i]) {
        let _ = writeln!(t, "    s{i}[j][lane] = a{i}[i];");
    }
    t.push_str("  }\n  __syncthreads();\n");
    t.push_str(&each);
    t.push_str("    if (left + lane < width && top + j < height) {\n");
    for &i in many.iter().filter(|&&i| tile.through[i]) {
        let _ = writeln!(t, "      a{i}[i] = s{i}[lane][j];");
    }
    let _ = writeln!(t, "      {}", pointwise::call(p, form, "i"));
    for (k, _) in pointwise::full_outputs(p) {
        let _ = writeln!(t, "      q{k}[{}] = b{k}[i];", at(many.len(), "left + lane", "top + j"));
    }
    t.push_str("    }\n  }\n");
}
