//! From units to kernels: instructions and registers of groups, operands of the rest.

use super::fuse::{Form, Unit, form_of};
use super::layout::{Role, Roles};
use super::simplify::Simplified;
use super::{
    Def, Extent, Graph, Group, GroupInput, GroupOutput, Instr, ONE, Reg, RegInfo, Step, Sym, ValueId,
};
use crate::primitive::{Op, Primitive, View};

/// What the passes before know, for building steps.
pub(super) struct Builder<'a> {
    pub g: &'a Graph,
    pub s: &'a Simplified,
    pub roles: &'a Roles,
}

/// How an instruction gets an operand.
enum Operand {
    /// From the register of this member.
    Member(u32),
    /// From memory.
    Load { value: ValueId, extent: Extent, squeezed: bool },
}

impl Builder<'_> {
    /// The values that a unit reads from memory.
    pub fn loads(&self, unit: &Unit) -> Vec<ValueId> {
        let mut all = Vec::new();
        for &m in &unit.members {
            for &v in &self.g.nodes[m as usize].inputs {
                match self.operand(unit, m, self.s.same[v as usize]) {
                    Operand::Load { value, .. } if !all.contains(&value) => all.push(value),
                    _ => {}
                }
            }
        }
        all
    }

    /// The unit's step; `stored` says which values must be written to memory.
    pub fn step(&self, unit: &Unit, stored: &dyn Fn(ValueId) -> bool) -> Step {
        let Some(domain) = unit.domain else { return self.kernel(unit.members[0]) };
        let mut group = Group {
            domain,
            row_axes: unit.row_axes as u8,
            regs: Vec::new(),
            inputs: Vec::new(),
            instrs: Vec::with_capacity(unit.members.len()),
            outputs: Vec::new(),
            respreads: false,
        };
        for &m in &unit.members {
            for &v in &self.g.nodes[m as usize].inputs {
                if let Operand::Load { value, extent, squeezed } =
                    self.operand(unit, m, self.s.same[v as usize])
                {
                    self.load(&mut group, value, extent, squeezed);
                }
            }
        }
        let mut reg_of: Vec<(u32, Reg)> = Vec::with_capacity(unit.members.len());
        for &m in &unit.members {
            let reg = self.instruction(unit, m, &mut group, &reg_of);
            reg_of.push((m, reg));
            let out = self.g.nodes[m as usize].out;
            if stored(out) {
                group.outputs.push(GroupOutput { reg, value: out });
            }
        }
        group.respreads = respreads(&group);
        Step::Group(group)
    }

    /// A group that writes one element everywhere.
    pub fn fill(&self, immediate: ValueId, out: ValueId) -> Step {
        let dtype = self.g.values[out as usize].dtype;
        Step::Group(Group {
            domain: out,
            row_axes: 0,
            regs: vec![RegInfo { dtype, extent: Extent::One }, RegInfo { dtype, extent: Extent::Full }],
            inputs: vec![GroupInput { value: immediate, squeezed: false }],
            instrs: vec![Instr::Cast { src: 0, dst: 1 }],
            outputs: vec![GroupOutput { reg: 1, value: out }],
            respreads: false,
        })
    }

    fn kernel(&self, node: u32) -> Step {
        let n = &self.g.nodes[node as usize];
        let inputs: Vec<ValueId> = n.inputs.iter().map(|&v| self.s.same[v as usize]).collect();
        match &n.op {
            Primitive::Op(op) => Step::Op { op: op.clone(), inputs, out: n.out, params: n.params },
            Primitive::Reduce(op, axes) => {
                Step::Reduce { op: *op, axes: axes.clone(), input: inputs[0], out: n.out }
            }
            // A reshape of something that isn't row-major.
            _ => Step::Op { op: Op::Contiguous, inputs, out: n.out, params: n.params },
        }
    }

    fn operand(&self, unit: &Unit, member: u32, v: ValueId) -> Operand {
        let g = self.g;
        let domain = unit.domain.map_or(&[][..], |d| g.shape(d));
        let Some(root) =
            self.root(v).filter(|r| unit.domain.is_some() && unit.members.binary_search(r).is_ok())
        else {
            return self.load_of(unit, member, v, domain);
        };
        Operand::Member(root)
    }

    fn root(&self, mut v: ValueId) -> Option<u32> {
        loop {
            v = self.s.same[v as usize];
            let Def::Node(n) = self.g.values[v as usize].def else { return None };
            match self.roles.of_node[n as usize] {
                Role::View => v = self.g.nodes[n as usize].inputs[0],
                Role::Fill => return None,
                _ => return Some(n),
            }
        }
    }

    fn load_of(&self, unit: &Unit, member: u32, v: ValueId, domain: &[Sym]) -> Operand {
        let n = &self.g.nodes[member as usize];
        let shape = self.g.shape(v);
        let ones = shape.iter().all(|&s| s == ONE);
        if unit.domain.is_none() || matches!(n.op, Primitive::Reduce(..)) {
            return Operand::Load { value: v, extent: Extent::Full, squeezed: false };
        }
        if let Some(immediate) = self.roles.fill[v as usize] {
            return Operand::Load { value: immediate, extent: Extent::One, squeezed: false };
        }
        let form = form_of(self.g.shape(n.out), domain, unit.row_axes);
        let (extent, squeezed) = match form {
            _ if ones => (Extent::One, false),
            Some(Form::Kept) => (Extent::Row, false),
            Some(Form::Squeezed) => (Extent::Row, true),
            _ => {
                let rows_only =
                    unit.row_axes > 0 && shape.iter().rev().take(unit.row_axes).all(|&s| s == ONE);
                (if rows_only { Extent::Row } else { Extent::Full }, false)
            }
        };
        Operand::Load { value: v, extent, squeezed }
    }

    /// The register of a load, made on first use.
    fn load(&self, group: &mut Group, value: ValueId, extent: Extent, squeezed: bool) -> Reg {
        let input = GroupInput { value, squeezed };
        let info = RegInfo { dtype: self.g.values[value as usize].dtype, extent };
        let found = (0..group.inputs.len()).find(|&i| group.inputs[i] == input && group.regs[i] == info);
        found.unwrap_or_else(|| {
            group.inputs.push(input);
            group.regs.push(info);
            group.inputs.len() - 1
        }) as Reg
    }

    fn instruction(&self, unit: &Unit, member: u32, group: &mut Group, reg_of: &[(u32, Reg)]) -> Reg {
        let n = &self.g.nodes[member as usize];
        let srcs: Vec<Reg> = n
            .inputs
            .iter()
            .map(|&v| match self.operand(unit, member, self.s.same[v as usize]) {
                Operand::Member(m) => {
                    let at = reg_of.binary_search_by_key(&m, |r| r.0).unwrap_or(0);
                    reg_of[at].1
                }
                Operand::Load { value, extent, squeezed } => self.load(group, value, extent, squeezed),
            })
            .collect();
        let domain = self.g.shape(group.domain);
        let full = form_of(self.g.shape(n.out), domain, unit.row_axes) == Some(Form::Full);
        let reduces = matches!(n.op, Primitive::Reduce(..));
        let extent = if full && !(reduces && unit.row_axes > 0) { Extent::Full } else { Extent::Row };
        let dst = group.regs.len() as Reg;
        group.regs.push(RegInfo { dtype: self.g.values[n.out as usize].dtype, extent });
        group.instrs.push(match &n.op {
            Primitive::Unary(op) => Instr::Unary { op: *op, src: srcs[0], dst },
            Primitive::Binary(op) => Instr::Binary { op: *op, a: srcs[0], b: srcs[1], dst },
            Primitive::Select => Instr::Select { cond: srcs[0], a: srcs[1], b: srcs[2], dst },
            Primitive::Reduce(op, _) => Instr::Reduce { op: *op, src: srcs[0], dst },
            _ => Instr::Cast { src: srcs[0], dst },
        });
        dst
    }
}

/// Whether a reduced register feeds an instruction over the whole domain.
fn respreads(group: &Group) -> bool {
    let mut reduced = vec![false; group.regs.len()];
    for i in &group.instrs {
        let from_reduced = i.srcs().iter().any(|&s| reduced[s as usize]);
        if from_reduced && group.regs[i.dst() as usize].extent == Extent::Full {
            return true;
        }
        reduced[i.dst() as usize] = from_reduced || matches!(i, Instr::Reduce { .. });
    }
    false
}

/// Whether a node's view can be resolved by the binder.
pub(super) fn view_of(g: &Graph, node: usize) -> Option<&View> {
    match &g.nodes[node].op {
        Primitive::View(v) => Some(v),
        _ => None,
    }
}
