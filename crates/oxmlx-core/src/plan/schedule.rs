//! Last structural pass: the order of kernels, where values live, and what may be overwritten.

use super::build::{Builder, view_of};
use super::fuse::{Fused, Unit, apart, fuse};
use super::layout::{Role, Roles, roles};
use super::simplify::{Simplified, simplify};
use super::{Def, Graph, Home, Plan, Step, ValueId, ViewDef, memory};
use crate::primitive::Op;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Plans a graph. A pure function: equal graphs have equal plans.
pub fn plan(g: &Graph) -> Plan {
    let s = simplify(g);
    let roles = roles(g, &s);
    let scheduler = |fused: &Fused| {
        let scheduler = Scheduler { g, s: &s, roles: &roles, fused };
        scheduler.order().map(|order| scheduler.run(&order))
    };
    let planned = scheduler(&fuse(g, &s, &roles));
    debug_assert!(planned.is_some(), "groups in a circle");
    // Should the fuser ever make a circle, the Program runs unfused: slower, with the same bits.
    planned.or_else(|| scheduler(&apart(g, &s, &roles))).unwrap_or_default()
}

struct Scheduler<'a> {
    g: &'a Graph,
    s: &'a Simplified,
    roles: &'a Roles,
    fused: &'a Fused,
}

/// What must be in memory, found by walking back from uses.
struct Needs {
    /// Values that are read from memory or handed out.
    stored: Vec<bool>,
    /// Values whose buffer outlives the run.
    owned: Vec<bool>,
    /// Values that must be written although they repeat an immediate.
    fills: Vec<(ValueId, ValueId)>,
}

impl Scheduler<'_> {
    fn run(&self, order: &[u32]) -> Plan {
        let builder = Builder { g: self.g, s: self.s, roles: self.roles };
        let needs = self.needs(&builder, order);
        let mut steps: Vec<Step> = needs.fills.iter().map(|&(out, imm)| builder.fill(imm, out)).collect();
        for &u in order {
            let unit = &self.fused.units[u as usize];
            steps.push(builder.step(unit, &|v| needs.stored[v as usize]));
        }
        let mut p = Plan {
            views: self.views(&needs),
            steps,
            homes: vec![Home::Nowhere; self.g.values.len()],
            dtypes: self.g.values.iter().map(|v| v.dtype).collect(),
            slots: Vec::new(),
            owned: Vec::new(),
            outputs: self.g.kept.clone(),
            aliases: Vec::new(),
            fallible: false,
            domains: Vec::new(),
        };
        p.fallible = p.steps.iter().any(|s| matches!(s, Step::Op { op, .. } if may_refuse(op)));
        self.homes(&needs, &mut p);
        let domain = |s: &Step| match s {
            Step::Group(g) if p.homes[g.domain as usize] == Home::Nowhere => Some(g.domain),
            _ => None,
        };
        p.domains = p.steps.iter().filter_map(domain).collect();
        p.domains.sort_unstable();
        memory::assign(self.g, &mut p);
        p
    }

    /// Units in an order in which operands are computed before they are read; among those that are free, the
    /// one that the user wrote first, but updates of leaves last. `None` if there is no such order.
    fn order(&self) -> Option<Vec<u32>> {
        let units = &self.fused.units;
        let builder = Builder { g: self.g, s: self.s, roles: self.roles };
        let mut waiting = vec![0u32; units.len()];
        let mut readers: Vec<Vec<u32>> = vec![Vec::new(); units.len()];
        for (u, unit) in units.iter().enumerate().filter(|(_, u)| !u.members.is_empty()) {
            let mut preds: Vec<u32> = builder
                .loads(unit)
                .into_iter()
                .filter_map(|v| self.unit_behind(v))
                .filter(|&p| p != u as u32)
                .collect();
            preds.sort_unstable();
            preds.dedup();
            waiting[u] = preds.len() as u32;
            for p in preds {
                readers[p as usize].push(u as u32);
            }
        }
        let key = |u: u32| {
            let unit = &units[u as usize];
            let last = readers[u as usize].is_empty() && self.updates_a_leaf(&builder, unit);
            Reverse((last, unit.members[0], u))
        };
        let mut free: BinaryHeap<Reverse<(bool, u32, u32)>> = BinaryHeap::new();
        for (u, unit) in units.iter().enumerate() {
            if !unit.members.is_empty() && waiting[u] == 0 {
                free.push(key(u as u32));
            }
        }
        let mut order = Vec::with_capacity(units.len());
        while let Some(Reverse((_, _, u))) = free.pop() {
            order.push(u);
            for &r in &readers[u as usize] {
                waiting[r as usize] -= 1;
                if waiting[r as usize] == 0 {
                    free.push(key(r));
                }
            }
        }
        let complete = order.len() == units.iter().filter(|u| !u.members.is_empty()).count();
        complete.then_some(order)
    }

    /// Whether a unit makes a new version of a leaf, as an optimiser does of a parameter. Such units stand
    /// together at the end, so that a device can run them as one kernel; the gradients, which this keeps alive,
    /// are what a training step needs at its end anyway.
    fn updates_a_leaf(&self, builder: &Builder<'_>, unit: &Unit) -> bool {
        let Some(domain) = unit.domain.filter(|_| unit.row_axes == 0) else { return false };
        builder.loads(unit).into_iter().any(|v| {
            matches!(self.g.values[v as usize].def, Def::Leaf { contiguous: true })
                && self.g.shape(v) == self.g.shape(domain)
        })
    }

    fn unit_behind(&self, v: ValueId) -> Option<u32> {
        let v = self.base(v);
        match self.g.values[v as usize].def {
            Def::Node(n) => self.fused.unit_of[n as usize],
            _ => None,
        }
    }

    /// The value whose buffer `v` reads.
    fn base(&self, mut v: ValueId) -> ValueId {
        loop {
            v = self.s.same[v as usize];
            match self.g.values[v as usize].def {
                Def::Node(n) if matches!(self.roles.of_node[n as usize], Role::View | Role::Fill) => {
                    v = self.g.nodes[n as usize].inputs[0];
                }
                _ => return v,
            }
        }
    }

    fn needs(&self, builder: &Builder<'_>, order: &[u32]) -> Needs {
        let n = self.g.values.len();
        let mut needs = Needs { stored: vec![false; n], owned: vec![false; n], fills: Vec::new() };
        for &v in &self.g.kept {
            let w = self.s.same[v as usize];
            match self.roles.fill[w as usize] {
                Some(immediate) => {
                    // An immediate itself has no buffer to hand out: the kept value gets its own.
                    let out = if w == immediate { v } else { w };
                    if !needs.owned[out as usize] {
                        needs.fills.push((out, immediate));
                    }
                    needs.stored[out as usize] = true;
                    needs.owned[out as usize] = true;
                }
                None => {
                    self.need(w, &mut needs);
                    needs.owned[self.base(w) as usize] = true;
                }
            }
        }
        for &u in order {
            for v in builder.loads(&self.fused.units[u as usize]) {
                self.need(v, &mut needs);
            }
        }
        needs
    }

    /// Marks a value and everything between it and its buffer.
    fn need(&self, v: ValueId, needs: &mut Needs) {
        let mut v = self.s.same[v as usize];
        while !needs.stored[v as usize] {
            needs.stored[v as usize] = true;
            match self.g.values[v as usize].def {
                Def::Node(n) if matches!(self.roles.of_node[n as usize], Role::View | Role::Fill) => {
                    v = self.s.same[self.g.nodes[n as usize].inputs[0] as usize];
                }
                _ => return,
            }
        }
    }

    fn views(&self, needs: &Needs) -> Vec<ViewDef> {
        let filled = |v: ValueId| needs.fills.iter().any(|f| f.0 == v);
        let all = self.g.nodes.iter().enumerate();
        all.filter(|(i, n)| {
            matches!(self.roles.of_node[*i], Role::View | Role::Fill)
                && needs.stored[n.out as usize]
                && !filled(n.out)
        })
        .filter_map(|(i, n)| {
            let input = self.s.same[n.inputs[0] as usize];
            view_of(self.g, i).map(|view| ViewDef { view: view.clone(), input, out: n.out, params: n.params })
        })
        .collect()
    }

    fn homes(&self, needs: &Needs, p: &mut Plan) {
        for (v, value) in self.g.values.iter().enumerate() {
            let same = self.s.same[v];
            p.homes[v] = match value.def {
                Def::Leaf { .. } => Home::Leaf,
                Def::Immediate(word) => Home::Param(word),
                Def::Node(_)
                    if needs.owned[v]
                        && (same == v as ValueId || needs.fills.iter().any(|f| f.0 == v as ValueId)) =>
                {
                    p.owned.push(v as ValueId);
                    Home::Owned(p.owned.len() as u32 - 1)
                }
                Def::Node(_) if same != v as ValueId => {
                    if self.g.kept.contains(&(v as ValueId)) {
                        Home::Same(same)
                    } else {
                        Home::Nowhere
                    }
                }
                Def::Node(_) if !needs.stored[v] => Home::Nowhere,
                Def::Node(n) => match self.roles.of_node[n as usize] {
                    Role::View | Role::Fill => {
                        Home::ViewOf(self.s.same[self.g.nodes[n as usize].inputs[0] as usize])
                    }
                    // The slot's number is filled in by the memory pass.
                    _ => Home::Arena(u32::MAX),
                },
            };
        }
    }
}

/// Whether a kernel looks at its operands' contents and may refuse them.
fn may_refuse(op: &Op) -> bool {
    matches!(op, Op::Gather { .. } | Op::Scatter { .. } | Op::GatherAxis { .. } | Op::ScatterAxis { .. })
}
