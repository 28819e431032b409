//! From a group to something that can be run: kernels looked up, registers given homes, instructions sorted
//! into phases.
//!
//! A phase is what can be done in one walk over a row: whatever depends on a reduction's result belongs to a
//! later phase. Registers that live within a phase share block-sized slots; those that cross into a later
//! one get a slot as long as the row. Results are written straight to their outputs unless the program is
//! `staged`: then an output may overlap an input, and is copied when everything has been read.

use super::reduce_row::{Reducer, reducer};
use crate::elementwise::{self, Binary, Select, Unary};
use oxmlx_core::plan::{Extent, Group, Instr, RegInfo};
use oxmlx_types::{Error, Result};
use smallvec::SmallVec;

/// What one step does.
#[derive(Clone, Copy)]
pub(super) enum Code {
    Unary(Unary),
    Binary(Binary),
    Select(Select),
    Copy,
    /// Into the reduction's number within its phase.
    Reduce(Reducer, u16),
}

/// One step on registers.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub code: Code,
    pub srcs: [u16; 3],
    pub count: u8,
    pub dst: u16,
}

impl Step {
    pub fn srcs(&self) -> &[u16] {
        &self.srcs[..self.count as usize]
    }
}

/// Where a register's elements are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Home {
    /// Not decided yet, or never used.
    Nowhere,
    /// Operand number n.
    Input(u16),
    /// A slot that is good for one block.
    Slot(u16),
    /// A slot that is good for the whole row (or panel of rows).
    RowSlot(u16),
    /// Values of a panel's rows.
    RowValue(u16),
    /// A word.
    One(u16),
    /// Result number n.
    Output(u16),
}

/// A register.
#[derive(Clone, Copy)]
pub(super) struct Register {
    pub size: usize,
    pub extent: Extent,
    pub home: Home,
}

/// One walk over a row.
#[derive(Default)]
pub(super) struct Phase {
    /// Steps on rows' values, before the walk.
    pub row: Vec<Step>,
    /// Steps on elements.
    pub full: Vec<Step>,
    /// Operands of extent Full that the walk reads, and whether no earlier phase has read them.
    pub loads: Vec<(u16, bool)>,
    /// Result registers of its reductions, with their pieces.
    pub reduces: Vec<(u16, Reducer)>,
}

/// A lowered group.
pub(super) struct Program {
    pub regs: Vec<Register>,
    pub phases: Vec<Phase>,
    /// Steps on single elements: before everything, and after.
    pub ones: Vec<Step>,
    pub ones_last: Vec<Step>,
    /// Steps on rows' values when everything has been read.
    pub rows_last: Vec<Step>,
    /// Element size of each slot.
    pub slots: Vec<usize>,
    pub row_slots: Vec<usize>,
    pub row_values: Vec<usize>,
    pub one_words: usize,
    /// Whether a reduction's operand isn't of extent Full.
    pub odd_reduce: bool,
    /// Work for an element of the domain, in units of a simple operation.
    pub cost: usize,
}

/// An instruction, looked up, with the phase in which it runs.
struct Placed {
    step: Step,
    extent: Extent,
    phase: usize,
}

impl Program {
    /// Lowers a group.
    pub fn new(group: &Group, staged: bool) -> Result<Program> {
        let mut regs: Vec<Register> = group
            .regs
            .iter()
            .map(|r| Register { size: r.dtype.size(), extent: r.extent, home: Home::Nowhere })
            .collect();
        for (i, r) in regs.iter_mut().take(group.inputs.len()).enumerate() {
            r.home = Home::Input(i as u16);
        }
        let mut placed = place(group)?;
        let phases = 1 + placed.iter().map(|p| p.phase + is_reduce(&p.step) as usize).max().unwrap_or(0);
        let cost =
            placed.iter().map(|p| if p.extent == Extent::Full { weight(&p.step) } else { 0 }).sum::<usize>();
        let copies = give_outputs(group, staged, &mut regs);
        placed.sort_by_key(|p| p.phase);
        let mut program = Program {
            regs,
            phases: (0..phases).map(|_| Phase::default()).collect(),
            ones: Vec::new(),
            ones_last: Vec::new(),
            rows_last: Vec::new(),
            slots: Vec::new(),
            row_slots: Vec::new(),
            row_values: Vec::new(),
            one_words: 0,
            odd_reduce: false,
            cost: cost.max(1),
        };
        for p in placed {
            program.push(p);
        }
        for step in copies {
            match program.regs[step.dst as usize].extent {
                Extent::One => program.ones_last.push(step),
                Extent::Row => program.rows_last.push(step),
                Extent::Full => program.phases[phases - 1].full.push(step),
            }
        }
        program.find_loads();
        program.give_slots();
        Ok(program)
    }

    fn push(&mut self, p: Placed) {
        let phase = &mut self.phases[p.phase];
        let mut step = p.step;
        match (&mut step.code, p.extent) {
            (Code::Reduce(r, number), _) => {
                *number = phase.reduces.len() as u16;
                phase.reduces.push((step.dst, *r));
                self.odd_reduce |= self.regs[step.srcs[0] as usize].extent != Extent::Full;
                phase.full.push(step);
            }
            (_, Extent::Full) => phase.full.push(step),
            (_, Extent::Row) => phase.row.push(step),
            (_, Extent::One) => self.ones.push(step),
        }
    }

    fn find_loads(&mut self) {
        let mut seen: SmallVec<[u16; 8]> = SmallVec::new();
        for phase in &mut self.phases {
            for &s in phase.full.iter().flat_map(|s| s.srcs().iter()) {
                let reg = self.regs[s as usize];
                let operand = matches!(reg.home, Home::Input(_)) && reg.extent == Extent::Full;
                if operand && !phase.loads.iter().any(|l| l.0 == s) {
                    phase.loads.push((s, !seen.contains(&s)));
                    seen.push(s);
                }
            }
        }
    }

    /// Slots by liveness; a step never writes to a slot that it reads, as kernels forbid that.
    fn give_slots(&mut self) {
        let order: Vec<(usize, Step)> =
            self.phases.iter().enumerate().flat_map(|(i, p)| p.full.iter().map(move |s| (i, *s))).collect();
        // (first phase, last phase, last step) of each register.
        let mut lives = vec![(0usize, 0usize, 0usize); self.regs.len()];
        for (at, (phase, step)) in order.iter().enumerate() {
            lives[step.dst as usize] = (*phase, *phase, at);
            for &s in step.srcs() {
                (lives[s as usize].1, lives[s as usize].2) = (*phase, at);
            }
        }
        let mut busy: Vec<(usize, Home)> = Vec::new();
        let mut free: Vec<Home> = Vec::new();
        for (at, (_, step)) in order.iter().enumerate() {
            let reg = self.regs[step.dst as usize];
            if reg.home != Home::Nowhere || reg.extent != Extent::Full {
                continue;
            }
            busy.retain(|&(last, home)| {
                let keep = last >= at;
                if !keep {
                    free.push(home);
                }
                keep
            });
            let (first, last, end) = lives[step.dst as usize];
            let home = self.slot(first != last, reg.size, &mut free);
            self.regs[step.dst as usize].home = home;
            busy.push((end, home));
        }
        for r in &mut self.regs {
            match (r.home, r.extent) {
                (Home::Nowhere, Extent::One) => {
                    r.home = Home::One(self.one_words as u16);
                    self.one_words += 1;
                }
                (Home::Nowhere, Extent::Row) => {
                    r.home = Home::RowValue(self.row_values.len() as u16);
                    self.row_values.push(r.size);
                }
                _ => {}
            }
        }
    }

    fn slot(&mut self, whole_row: bool, size: usize, free: &mut Vec<Home>) -> Home {
        let fits = |h: &Home| match *h {
            Home::Slot(i) => !whole_row && self.slots[i as usize] == size,
            Home::RowSlot(i) => whole_row && self.row_slots[i as usize] == size,
            _ => false,
        };
        if let Some(i) = free.iter().rposition(fits) {
            return free.swap_remove(i);
        }
        let list = if whole_row { &mut self.row_slots } else { &mut self.slots };
        list.push(size);
        let number = list.len() as u16 - 1;
        if whole_row { Home::RowSlot(number) } else { Home::Slot(number) }
    }
}

fn is_reduce(step: &Step) -> bool {
    matches!(step.code, Code::Reduce(..))
}

/// A rough guess: most functions are an order of magnitude dearer than an addition.
fn weight(step: &Step) -> usize {
    if matches!(step.code, Code::Unary(_)) { 4 } else { 1 }
}

/// Looks the kernels up and finds each instruction's phase.
fn place(group: &Group) -> Result<Vec<Placed>> {
    let mut ready = vec![0usize; group.regs.len()];
    let mut placed = Vec::with_capacity(group.instrs.len());
    for instr in &group.instrs {
        let step = look_up(instr, &group.regs)?;
        let phase = step.srcs().iter().map(|&s| ready[s as usize]).max().unwrap_or(0);
        let reduce = is_reduce(&step);
        ready[step.dst as usize] = phase + reduce as usize;
        let extent = if reduce { Extent::Full } else { group.regs[step.dst as usize].extent };
        placed.push(Placed { step, extent, phase });
    }
    sink(group, &mut placed);
    Ok(placed)
}

/// What only reads operands waits until it is needed, so that it need not be kept from phase to phase.
fn sink(group: &Group, placed: &mut [Placed]) {
    let mut needed = vec![usize::MAX; group.regs.len()];
    for o in &group.outputs {
        needed[o.reg as usize] = 0;
    }
    for p in placed.iter_mut().rev() {
        let from_operands = p
            .step
            .srcs()
            .iter()
            .all(|&s| (s as usize) < group.inputs.len() || group.regs[s as usize].extent != Extent::Full);
        let use_at = needed[p.step.dst as usize];
        if p.extent == Extent::Full && !is_reduce(&p.step) && from_operands && use_at != usize::MAX {
            p.phase = p.phase.max(use_at);
        }
        for &s in p.step.srcs() {
            needed[s as usize] = needed[s as usize].min(p.phase);
        }
    }
}

fn look_up(instr: &Instr, regs: &[RegInfo]) -> Result<Step> {
    let dtype = |r: u16| regs[r as usize].dtype;
    let missing = |name: &'static str, r: u16| {
        Error::unsupported(name, format!("Not available for {} on the CPU.", dtype(r)))
    };
    let step = match *instr {
        Instr::Unary { op, src, dst } => {
            let f = elementwise::unary(op, dtype(src)).ok_or_else(|| missing(op.name(), src))?;
            Step { code: Code::Unary(f), srcs: [src, 0, 0], count: 1, dst }
        }
        Instr::Binary { op, a, b, dst } => {
            let f = elementwise::binary(op, dtype(a)).ok_or_else(|| missing(op.name(), a))?;
            Step { code: Code::Binary(f), srcs: [a, b, 0], count: 2, dst }
        }
        Instr::Select { cond, a, b, dst } => {
            Step { code: Code::Select(elementwise::select(dtype(dst))), srcs: [cond, a, b], count: 3, dst }
        }
        Instr::Cast { src, dst } => {
            let f = elementwise::cast(dtype(src), dtype(dst));
            Step { code: Code::Unary(f), srcs: [src, 0, 0], count: 1, dst }
        }
        Instr::Reduce { op, src, dst } => {
            let r = reducer(op, dtype(src)).ok_or_else(|| missing(op.name(), src))?;
            Step { code: Code::Reduce(r, 0), srcs: [src, 0, 0], count: 1, dst }
        }
    };
    Ok(step)
}

/// Lets registers live in their outputs where that is safe; returns copies for the others.
fn give_outputs(group: &Group, staged: bool, regs: &mut Vec<Register>) -> Vec<Step> {
    let mut copies = Vec::new();
    for (i, o) in group.outputs.iter().enumerate() {
        let home = Home::Output(i as u16);
        let reg = &mut regs[o.reg as usize];
        if !staged && reg.home == Home::Nowhere {
            reg.home = home;
        } else {
            let copy = Register { home, ..*reg };
            regs.push(copy);
            copies.push(Step { code: Code::Copy, srcs: [o.reg, 0, 0], count: 1, dst: regs.len() as u16 - 1 });
        }
    }
    copies
}
