//! The text of row kernels; what they do is told in `rows.rs`.

use super::functors::{computed, element, is_half, stored};
use super::program::{Program, Step, narrowed, widened};
use super::rows::{CHUNK, Form, HEAD, Mode, Reading, THREADS};
use oxmlx_core::plan::{Extent, Reg};
use std::fmt::Write;

/// Reductions whose warps meet in shared memory at once.
const BATCH: usize = 32;

/// The kernel's text; its entry point is called NAME.
pub(super) fn text(p: &Program, form: &Form) -> String {
    let mut t = p.includes.clone();
    t.push_str(&p.fold_types());
    let mut w = Writer { p, form, t, words: words(p, form) };
    w.head();
    match form.mode {
        Mode::Kept(chunks) => w.kept(chunks),
        Mode::Walk { many } => w.walk(many),
        Mode::Split => w.split(),
        Mode::Finish => w.finish(),
    }
    if form.mode != Mode::Split {
        w.row_outputs();
    }
    w.t.push_str("}\n");
    w.t
}

/// Steps whose results a later phase needs.
pub(super) fn kept(p: &Program) -> impl Iterator<Item = &Step> {
    let full = |s: &&Step| s.extent == Extent::Full && s.fold.is_none();
    p.steps.iter().filter(full).filter(|s| {
        let read = p.steps.iter().any(|q| q.phase > s.phase && q.srcs.contains(&s.dst));
        read || p.outputs.iter().any(|o| o.reg == s.dst) && store_phase(p, s.dst) > s.phase
    })
}

/// In which phase a register is known.
pub(super) fn known(p: &Program, reg: Reg) -> usize {
    p.steps.iter().find(|s| s.dst == reg).map_or(0, |s| s.phase + s.fold.is_some() as usize)
}

/// Registers that a phase's work on elements reads or stores.
pub(super) fn used(p: &Program, phase: usize) -> Vec<Reg> {
    let steps = p.steps.iter().filter(|s| s.extent == Extent::Full && s.phase == phase);
    let mut all: Vec<Reg> = steps.flat_map(|s| s.srcs.iter().copied()).collect();
    let direct = p.outputs.iter().map(|o| o.reg).filter(|&r| p.is_input(r) && phase == 0);
    all.extend(direct);
    all.sort_unstable();
    all.dedup();
    all
}

/// The phase that first reads an operand, if one does.
pub(super) fn first_read(p: &Program, input: usize) -> Option<usize> {
    (0..p.phases).find(|&phase| used(p, phase).contains(&(input as Reg)))
}

/// When a result of elements is stored: not before all operands have been read, whose memory it may take.
pub(super) fn store_phase(p: &Program, reg: Reg) -> usize {
    let reads = (0..p.inputs.len()).filter_map(|i| first_read(p, i)).max().unwrap_or(0);
    known(p, reg).max(reads)
}

/// The record's word of each operand.
fn words(p: &Program, form: &Form) -> Vec<usize> {
    let mut at = HEAD;
    let mut all = Vec::new();
    for (reading, _) in &form.inputs {
        all.push(at);
        at += reading.words();
    }
    for _ in &p.outputs {
        all.push(at);
        at += 1;
    }
    all
}

pub(super) struct Writer<'a> {
    pub p: &'a Program,
    pub form: &'a Form,
    pub t: String,
    words: Vec<usize>,
}

impl Writer<'_> {
    pub fn line(&mut self, s: impl AsRef<str>) {
        self.t.push_str(s.as_ref());
        self.t.push('\n');
    }

    /// Words of shared memory for one batch of reductions.
    fn slots(&self) -> usize {
        (0..self.p.phases).map(|i| self.p.folds(i).count()).max().unwrap_or(0).min(BATCH) * 32
    }

    /// The entry point up to the row's own values: single elements, rows' values, addresses.
    fn head(&mut self) {
        let (p, form) = (self.p, self.form);
        let index = if matches!(form.mode, Mode::Kept(_)) { "int32" } else { "int64" };
        let bound = if form.lanes > 0 { THREADS } else { form.bound };
        self.line(format!("extern \"C\" __global__ void __launch_bounds__({bound}) NAME(Record r) {{"));
        self.line(format!("  const uint64 rows = r[0];\n  const {index} len = ({index})r[1];"));
        if form.lanes == 0 && form.mode != Mode::Finish && self.slots() > 0 {
            let slots = self.slots();
            self.line(format!("  __shared__ uint64 slots[2][{slots}];"));
        }
        match (form.mode, form.lanes) {
            (Mode::Split, _) => self.line(
                "  const uint32 t = threadIdx.x;\n  const uint32 parts = (uint32)r[2];\n  const uint64 row = blockIdx.x / parts, part = blockIdx.x % parts;\n  \
                 if (row >= rows) return;\n  constexpr bool active = true;",
            ),
            (_, 0) => self.line(
                "  const uint32 t = threadIdx.x;\n  const uint64 row = blockIdx.x;\n  if (row >= rows) return;\n  \
                 constexpr bool active = true;",
            ),
            (_, lanes) => {
                let per = THREADS / lanes;
                self.line(format!(
                    "  const uint32 t = threadIdx.x & {};\n  const uint64 first = (uint64)blockIdx.x * {per};\n  \
                     if (first >= rows) return;\n  const uint64 place = first + threadIdx.x / {lanes};\n  \
                     const bool active = place < rows;\n  const uint64 row = active ? place : rows - 1;",
                    lanes - 1
                ));
            }
        }
        self.line("  (void)t;\n  (void)active;\n  (void)len;");
        for i in 0..p.inputs.len() {
            self.row_input(i);
        }
        let ones = p.lines(Extent::One, 0);
        self.t.push_str(&ones);
        for (k, o) in p.outputs.iter().enumerate() {
            let (d, word) = (p.dtype(o.reg), self.words[p.inputs.len() + k]);
            let s = stored(d);
            match p.extent(o.reg) {
                Extent::Full if form.mode != Mode::Finish => {
                    self.line(format!("  {s}* const q{k} = pointer<{s}>(r[{word}]) + row * len;"));
                }
                Extent::One if form.mode != Mode::Finish => self.line(format!(
                    "  if (blockIdx.x == 0 && threadIdx.x == 0) *pointer<{s}>(r[{word}]) = {};",
                    narrowed(d, o.reg)
                )),
                _ => {}
            }
        }
    }

    fn row_input(&mut self, i: usize) {
        let (d, word) = (self.p.regs[i].dtype, self.words[i]);
        let (reading, loose) = self.form.inputs[i];
        let (s, c) = (stored(d), computed(d));
        let read = if loose { "read_loose" } else { "read_one" };
        let base = format!("pointer<const {s}>(r[{word}])");
        let row = |lead: usize| format!("{base} + walk<{lead}>(row, r + {})", word + 1);
        match reading {
            Reading::One => {
                self.line(format!("  const {c} x{i} = {};", widened(d, &format!("{read}({base})"))));
            }
            Reading::Row(lead) => {
                // A group's row registers are no use beyond the row; the operand may also be one of elements.
                self.line(format!("  const {c} x{i} = {};", widened(d, &format!("{read}({})", row(lead)))));
            }
            _ if self.form.mode == Mode::Finish => {}
            Reading::Unit(lead, _) | Reading::Apart(lead) | Reading::Walked(lead, _) => {
                self.line(format!("  const {s}* const p{i} = {};", row(lead)));
            }
        }
    }

    /// Reads four elements of an operand, from column c on, to this address.
    pub fn read(&self, i: usize, to: &str, indent: &str) -> String {
        let word = self.words[i];
        let (reading, loose) = self.form.inputs[i];
        let whole = self.form.whole;
        match reading {
            Reading::Unit(_, per) => {
                format!("{indent}row::read_unit<{per}, {whole}>({to}, p{i} + c, left);\n")
            }
            Reading::Apart(lead) => {
                let stride = word + 1 + 2 * lead;
                format!(
                    "{indent}row::read_strided({to}, p{i} + c * (int64)r[{stride}], (int64)r[{stride}], left);\n"
                )
            }
            Reading::Walked(lead, rank) => {
                let name = if loose { "read_loosely" } else { "read_walked" };
                format!("{indent}row::{name}<{rank}>({to}, p{i}, r + {}, c, left);\n", word + 1 + 2 * lead)
            }
            Reading::One | Reading::Row(_) => String::new(),
        }
    }

    /// Whether a register is read from memory, element by element.
    pub fn is_loaded(&self, reg: Reg) -> bool {
        self.p.is_input(reg) && self.form.inputs[reg as usize].0.is_full()
    }

    /// One element's work in an element loop: reductions take `x` to `g<dst>[e]`, results to `b<k>[e]`.
    pub fn take(&self, phase: usize, stores: &[usize]) -> String {
        let mut t = String::new();
        for (s, _) in self.p.folds(phase) {
            let _ = writeln!(
                t,
                "      g{0}[e] = {1} ? x{2} : Fold{0}::identity();",
                s.dst,
                self.within(),
                s.srcs[0]
            );
        }
        for &k in stores {
            let reg = self.p.outputs[k].reg;
            let _ = writeln!(t, "      b{k}[e] = {};", narrowed(self.p.dtype(reg), reg));
        }
        t
    }

    /// Whether element e of a chunk that begins within the row does lie within it.
    fn within(&self) -> &'static str {
        if self.form.whole { "true" } else { "e < left" }
    }

    pub fn chunk_arrays(&self, phase: usize, stores: &[usize]) -> String {
        let mut t = String::new();
        for (s, _) in self.p.folds(phase) {
            let _ = writeln!(t, "    Fold{0}::C g{0}[{CHUNK}];", s.dst);
        }
        for &k in stores {
            let _ = writeln!(t, "    {} b{k}[{CHUNK}];", stored(self.p.dtype(self.p.outputs[k].reg)));
        }
        t
    }

    /// After the element loop: chunks join their accumulators, results are stored.
    pub fn chunk_end(&self, phase: usize, stores: &[usize]) -> String {
        let mut t = String::new();
        for (s, _) in self.p.folds(phase) {
            let d = s.dst;
            let _ = writeln!(
                t,
                "    if (left > 0) s{d} = Fold{d}::combine(s{d}, row::four<Fold{d}>(g{d}[0], g{d}[1], g{d}[2], g{d}[3]));"
            );
        }
        for &k in stores {
            let _ = writeln!(
                t,
                "    if (active) row::write_unit<{}, {}>(q{k} + c, b{k}, left);",
                self.form.outputs[k], self.form.whole
            );
        }
        t
    }

    pub fn accumulators(&mut self, phase: usize) {
        for (s, _) in self.p.folds(phase) {
            let _ = writeln!(self.t, "  Fold{0}::C s{0} = Fold{0}::identity();", s.dst);
        }
    }

    /// Combines the accumulators `s<dst>` over the row's threads into constants `z<dst>`.
    pub fn combine(&mut self, phase: usize, parity: &str, indent: &str) {
        let all: Vec<Reg> = self.p.folds(phase).map(|(s, _)| s.dst).collect();
        if self.form.lanes > 0 {
            for d in all {
                let lanes = self.form.lanes;
                self.line(format!("{indent}const Fold{d}::C z{d} = row::lanes<Fold{d}, {lanes}>(s{d});"));
            }
            return;
        }
        for (i, batch) in all.chunks(BATCH).enumerate() {
            if i > 0 {
                self.line(format!("{indent}__syncthreads();"));
            }
            for (n, d) in batch.iter().enumerate() {
                self.line(format!("{indent}row::leave<Fold{d}>(s{d}, slots[{parity}] + {});", 32 * n));
            }
            self.line(format!("{indent}__syncthreads();"));
            for (n, d) in batch.iter().enumerate() {
                self.line(format!(
                    "{indent}const Fold{d}::C z{d} = row::collect<Fold{d}>(slots[{parity}] + {});",
                    32 * n
                ));
            }
        }
    }

    /// Registers of a phase's reductions, rounded, from expressions.
    pub fn results(&mut self, phase: usize, value: impl Fn(Reg) -> String) {
        for (s, _) in self.p.folds(phase) {
            let d = self.p.dtype(s.dst);
            let v = value(s.dst);
            let v = if is_half(d) { format!("Element<{}>::round({v})", element(d)) } else { v };
            let _ = writeln!(self.t, "  const {} x{} = {v};", computed(d), s.dst);
        }
    }

    pub fn full_outputs(&self) -> Vec<usize> {
        let p = self.p;
        (0..p.outputs.len()).filter(|&k| p.extent(p.outputs[k].reg) == Extent::Full).collect()
    }

    fn row_outputs(&mut self) {
        let p = self.p;
        for (k, o) in p.outputs.iter().enumerate().filter(|o| p.extent(o.1.reg) == Extent::Row) {
            let (d, word) = (p.dtype(o.reg), self.words[p.inputs.len() + k]);
            self.line(format!(
                "  if (t == 0 && active) pointer<{}>(r[{word}])[row] = {};",
                stored(d),
                narrowed(d, o.reg)
            ));
        }
    }
}
