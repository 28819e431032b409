//! From a group to lines of device code, and the order in which a row kernel runs them.
//!
//! A phase is what can be done before a row's next reductions are known: whatever depends on a reduction's
//! result belongs to a later phase. Every register is a constant `x<number>` of the type in which its dtype
//! computes, rounded to the dtype after each operation, so that fused and unfused runs give the same bits.

use super::functors::{self, Class, computed, element, is_half};
use oxmlx_core::plan::{Extent, Group, GroupInput, GroupOutput, Instr, Reg, RegInfo, ValueId};
use oxmlx_types::{Dtype, Error, Result};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// A reduction's pieces.
#[derive(Debug)]
pub(super) struct Fold {
    /// Combines two values.
    pub function: String,
    /// What nothing reduces to.
    pub identity: String,
    /// Whether swapped operands give the same bits.
    pub symmetric: bool,
}

/// One instruction.
#[derive(Debug)]
pub(super) struct Step {
    pub dst: Reg,
    pub srcs: SmallVec<[Reg; 3]>,
    /// Full for reductions: that is where they happen.
    pub extent: Extent,
    pub phase: usize,
    /// Its statement; empty for a reduction.
    pub line: String,
    pub fold: Option<Fold>,
    weight: u32,
}

/// A lowered group.
#[derive(Debug)]
pub(super) struct Program {
    pub domain: ValueId,
    pub row_axes: usize,
    pub regs: Vec<RegInfo>,
    pub inputs: Vec<GroupInput>,
    pub outputs: Vec<GroupOutput>,
    pub steps: Vec<Step>,
    /// Number of phases; the last may have steps on rows' values only.
    pub phases: usize,
    /// Whether an element's value depends on a reduction of its row.
    pub respreads: bool,
    /// Work for an element, in additions.
    pub weight: u32,
    /// `#include` lines.
    pub includes: String,
}

impl Program {
    pub fn new(group: &Group) -> Result<Program> {
        let mut files = BTreeSet::from(["elementwise/access.cuh"]);
        let mut steps =
            group.instrs.iter().map(|i| step(i, &group.regs, &mut files)).collect::<Result<Vec<Step>>>()?;
        find_phases(group, &mut steps);
        let last = |s: &Step| s.phase + s.fold.is_some() as usize;
        let phases = 1 + steps.iter().map(last).max().unwrap_or(0);
        let full = || steps.iter().filter(|s| s.extent == Extent::Full);
        let respreads = full().any(|s| s.phase > 0);
        let weight = full().map(|s| s.weight).sum::<u32>().max(1);
        if group.row_axes > 0 {
            files.extend(["row/chunk.cuh", "row/reduce.cuh"]);
        }
        let includes = files.iter().map(|f| format!("#include \"{f}\"\n")).collect();
        Ok(Program {
            domain: group.domain,
            row_axes: group.row_axes as usize,
            regs: group.regs.clone(),
            inputs: group.inputs.clone(),
            outputs: group.outputs.clone(),
            steps,
            phases,
            respreads,
            weight,
            includes,
        })
    }

    pub fn dtype(&self, reg: Reg) -> Dtype {
        self.regs[reg as usize].dtype
    }

    pub fn extent(&self, reg: Reg) -> Extent {
        self.regs[reg as usize].extent
    }

    /// Host bytes, roughly.
    pub fn bytes(&self) -> usize {
        let text: usize = self.steps.iter().map(|s| s.line.len() + size_of::<Step>()).sum();
        text + size_of::<Program>() + self.regs.len() * size_of::<RegInfo>()
    }

    /// Whether a register is an operand of the group.
    pub fn is_input(&self, reg: Reg) -> bool {
        (reg as usize) < self.inputs.len()
    }

    /// Steps on elements (no reductions) that the given registers need, in order.
    pub fn needed(&self, targets: &[Reg]) -> Vec<&Step> {
        let mut wanted = vec![false; self.regs.len()];
        for &t in targets {
            wanted[t as usize] = true;
        }
        let mut list = Vec::new();
        for s in self.steps.iter().rev() {
            if s.extent == Extent::Full && s.fold.is_none() && wanted[s.dst as usize] {
                s.srcs.iter().for_each(|&r| wanted[r as usize] = true);
                list.push(s);
            }
        }
        list.reverse();
        list
    }

    /// Reductions of one phase.
    pub fn folds(&self, phase: usize) -> impl Iterator<Item = (&Step, &Fold)> {
        self.steps.iter().filter(move |s| s.phase == phase).filter_map(|s| s.fold.as_ref().map(|f| (s, f)))
    }

    /// Statements of one extent and phase.
    pub fn lines(&self, extent: Extent, phase: usize) -> String {
        let some = self.steps.iter().filter(|s| s.extent == extent && s.phase == phase && s.fold.is_none());
        some.map(|s| format!("  {}\n", s.line)).collect()
    }

    /// The types of all reductions.
    pub fn fold_types(&self) -> String {
        let one = |s: &Step| {
            let f = s.fold.as_ref()?;
            let c = computed(self.dtype(s.dst));
            Some(format!(
                "struct Fold{} {{\n  typedef {c} C;\n  static constexpr bool symmetric = {};\n  \
                 static __device__ __forceinline__ C identity() {{ return {}; }}\n  \
                 static __device__ __forceinline__ C combine(C a, C b) {{ return {}(a, b); }}\n}};\n",
                s.dst, f.symmetric, f.identity, f.function
            ))
        };
        self.steps.iter().filter_map(one).collect()
    }
}

/// The value of an operand of the group, from a stored element.
pub(super) fn widened(d: Dtype, stored: &str) -> String {
    format!("Element<{}>::widen({stored})", element(d))
}

/// A register, rounded as all are, as it is stored.
pub(super) fn narrowed(d: Dtype, reg: Reg) -> String {
    format!("Element<{}>::store(x{reg})", element(d))
}

/// One instruction's statement; notes the files that it needs.
fn step(instr: &Instr, regs: &[RegInfo], files: &mut BTreeSet<&'static str>) -> Result<Step> {
    let dtype = |r: Reg| regs[r as usize].dtype;
    let missing = |name: &'static str, r: Reg| {
        Error::unsupported(name, format!("Not available for {} on the GPU.", dtype(r)))
    };
    let srcs = instr.srcs();
    let (mut fold, mut weight) = (None, 1);
    let (value, exact) = match *instr {
        Instr::Unary { op, src, .. } => {
            let f = functors::unary(op, dtype(src)).ok_or_else(|| missing(op.name(), src))?;
            files.insert(Class::of(dtype(src)).file());
            weight = f.weight;
            (format!("{}(x{src})", f.name), f.exact)
        }
        Instr::Binary { op, a, b, .. } => {
            let f = functors::binary(op, dtype(a)).ok_or_else(|| missing(op.name(), a))?;
            files.insert(Class::of(dtype(a)).file());
            weight = f.weight;
            (format!("{}(x{a}, x{b})", f.name), f.exact)
        }
        Instr::Select { cond, a, b, .. } => (format!("x{cond} ? x{a} : x{b}"), true),
        Instr::Cast { src, dst } => {
            let (s, d) = (dtype(src), dtype(dst));
            if computed(s) == computed(d) {
                (format!("x{src}"), s == d)
            } else {
                files.insert("elementwise/cast.cuh");
                (format!("cast::To<{}, {}>::from(x{src})", computed(d), computed(s)), s == Dtype::Bool)
            }
        }
        Instr::Reduce { op, src, .. } => {
            let (function, identity) =
                functors::fold(op, dtype(src)).ok_or_else(|| missing(op.name(), src))?;
            files.insert(Class::of(dtype(src)).file());
            use oxmlx_core::primitive::ReduceOp;
            let symmetric = !matches!(op, ReduceOp::Max | ReduceOp::Min);
            fold = Some(Fold { function, identity, symmetric });
            (String::new(), true)
        }
    };
    let dst = instr.dst();
    let info = regs[dst as usize];
    let line = match &fold {
        Some(_) => String::new(),
        None if is_half(info.dtype) && !exact => {
            format!("const float32 x{dst} = Element<{}>::round({value});", element(info.dtype))
        }
        None => format!("const {} x{dst} = {value};", computed(info.dtype)),
    };
    let extent = if fold.is_some() { Extent::Full } else { info.extent };
    Ok(Step { dst, srcs, extent, phase: 0, line, fold, weight })
}

/// Each step's phase; what only reads operands waits until it is needed, so that it need not be kept.
fn find_phases(group: &Group, steps: &mut [Step]) {
    let mut ready = vec![0usize; group.regs.len()];
    for s in steps.iter_mut() {
        s.phase = s.srcs.iter().map(|&r| ready[r as usize]).max().unwrap_or(0);
        ready[s.dst as usize] = s.phase + s.fold.is_some() as usize;
    }
    let mut needed = vec![usize::MAX; group.regs.len()];
    for o in &group.outputs {
        needed[o.reg as usize] = 0;
    }
    for s in steps.iter_mut().rev() {
        let from_operands = s
            .srcs
            .iter()
            .all(|&r| (r as usize) < group.inputs.len() || group.regs[r as usize].extent != Extent::Full);
        let use_at = needed[s.dst as usize];
        if s.extent == Extent::Full && s.fold.is_none() && from_operands && use_at != usize::MAX {
            s.phase = s.phase.max(use_at);
        }
        for &r in &s.srcs {
            needed[r as usize] = needed[r as usize].min(s.phase);
        }
    }
}
