//! Third pass: which nodes run as one kernel.
//!
//! Nodes are visited in order; each joins the group of an operand if it can read that operand from a register
//! and if joining makes no circle, then groups that it connects are merged. A group has one domain. A
//! reduction along the domain's last axes turns it into a row group, whose members are either as large as the
//! domain or have one element a row (with the reduced axes kept as 1, or dropped).

use super::layout::{Role, Roles};
use super::simplify::{Simplified, differ_in_ones};
use super::{Def, Graph, ONE, Sym, ValueId};
use crate::primitive::{Primitive, View};
use smallvec::SmallVec;

/// Instructions of one group, at most: beyond that registers spill out of the first cache.
const MAX_MEMBERS: usize = 128;

/// A node that runs alone, or nodes that run together.
#[derive(Debug, Default)]
pub(super) struct Unit {
    /// Nodes, ascending.
    pub members: Vec<u32>,
    /// For groups: a value with the domain's shape.
    pub domain: Option<ValueId>,
    /// Trailing axes of the domain that make a row.
    pub row_axes: usize,
    /// Units whose results this one reads.
    pub preds: Vec<u32>,
    /// Units that read this one's results.
    readers: Vec<u32>,
    /// The last node in this unit or in any that it needs.
    latest: u32,
    merged_into: Option<u32>,
}

/// How a value looks to a group's instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// As large as the domain.
    Full,
    /// One a row; the row axes are there with length 1.
    Kept,
    /// One a row; the row axes are gone.
    Squeezed,
    /// One a row, broadcast over the rows.
    Spread,
}

pub(super) struct Fused {
    pub units: Vec<Unit>,
    /// Per node: its unit.
    pub unit_of: Vec<Option<u32>>,
}

pub(super) struct Fuser<'a> {
    pub g: &'a Graph,
    pub s: &'a Simplified,
    pub roles: &'a Roles,
    units: Vec<Unit>,
    unit_of: Vec<Option<u32>>,
}

pub(super) fn fuse(g: &Graph, s: &Simplified, roles: &Roles) -> Fused {
    let mut f = Fuser { g, s, roles, units: Vec::new(), unit_of: vec![None; g.nodes.len()] };
    for i in 0..g.nodes.len() {
        match roles.of_node[i] {
            Role::Kernel => f.alone(i),
            Role::Fusable => f.place(i),
            Role::Dead | Role::View | Role::Fill => {}
        }
    }
    let Fuser { units, unit_of, .. } = f;
    Fused { units, unit_of }
}

/// Every node by itself.
pub(super) fn apart(g: &Graph, s: &Simplified, roles: &Roles) -> Fused {
    let mut f = Fuser { g, s, roles, units: Vec::new(), unit_of: vec![None; g.nodes.len()] };
    for i in 0..g.nodes.len() {
        match roles.of_node[i] {
            Role::Kernel => f.alone(i),
            Role::Fusable => f.start(i),
            Role::Dead | Role::View | Role::Fill => {}
        }
    }
    Fused { units: f.units, unit_of: f.unit_of }
}

/// Form of a value with this shape in a domain, by shape alone.
pub(super) fn form_of(shape: &[Sym], domain: &[Sym], row_axes: usize) -> Option<Form> {
    let lead = domain.len() - row_axes;
    if shape == domain {
        Some(Form::Full)
    } else if row_axes == 0 {
        None
    } else if shape.len() == domain.len()
        && shape[..lead] == domain[..lead]
        && shape[lead..].iter().all(|&s| s == ONE)
    {
        Some(Form::Kept)
    } else if shape == &domain[..lead] {
        Some(Form::Squeezed)
    } else {
        None
    }
}

impl Fuser<'_> {
    fn operands(&self, node: usize) -> impl Iterator<Item = ValueId> + '_ {
        self.g.nodes[node].inputs.iter().map(|&v| self.s.same[v as usize])
    }

    /// The node that computes what a value shows, behind any views; `None` for leaves and immediates.
    fn root(&self, mut v: ValueId) -> Option<usize> {
        loop {
            v = self.s.same[v as usize];
            let Def::Node(n) = self.g.values[v as usize].def else { return None };
            match self.roles.of_node[n as usize] {
                Role::View => v = self.g.nodes[n as usize].inputs[0],
                Role::Fill => return None,
                _ => return Some(n as usize),
            }
        }
    }

    fn unit_of_value(&self, v: ValueId) -> Option<u32> {
        self.root(v).and_then(|n| self.unit_of[n])
    }

    fn alone(&mut self, node: usize) {
        let id = self.units.len() as u32;
        let preds = self.preds_of(node, id);
        self.add(Unit { members: vec![node as u32], preds, ..Unit::default() });
    }

    fn preds_of(&self, node: usize, own: u32) -> Vec<u32> {
        let mut preds: Vec<u32> = Vec::new();
        for v in self.operands(node) {
            if let Some(u) = self.unit_of_value(v)
                && u != own
                && !preds.contains(&u)
            {
                preds.push(u);
            }
        }
        preds
    }

    fn place(&mut self, node: usize) {
        let candidates: SmallVec<[u32; 4]> =
            self.operands(node).filter_map(|v| self.unit_of_value(v)).collect();
        let joined =
            candidates.iter().copied().find_map(|u| self.row_axes_if_joined(node, u).map(|k| (u, k)));
        let Some((mut unit, row_axes)) = joined else { return self.start(node) };
        let preds = self.preds_of(node, unit);
        let u = &mut self.units[unit as usize];
        u.members.push(node as u32);
        u.row_axes = row_axes;
        for p in preds {
            if !self.units[unit as usize].preds.contains(&p) {
                self.units[unit as usize].preds.push(p);
                self.units[p as usize].readers.push(unit);
            }
        }
        self.unit_of[node] = Some(unit);
        self.touch(unit, node as u32);
        for other in candidates {
            let other = self.current(other);
            if other != unit && self.may_merge(unit, other, node) {
                unit = self.merge(unit, other);
            }
        }
    }

    fn start(&mut self, node: usize) {
        let id = self.units.len() as u32;
        let n = &self.g.nodes[node];
        let (domain, row_axes) = match &n.op {
            Primitive::Reduce(_, axes) => (self.s.same[n.inputs[0] as usize], axes.len()),
            _ => (n.out, 0),
        };
        let preds = self.preds_of(node, id);
        self.add(Unit {
            members: vec![node as u32],
            domain: Some(domain),
            row_axes,
            preds,
            ..Unit::default()
        });
    }

    /// A new unit, of one node.
    fn add(&mut self, mut unit: Unit) {
        let id = self.units.len() as u32;
        unit.latest = unit.members[0];
        self.unit_of[unit.members[0] as usize] = Some(id);
        for &p in &unit.preds {
            self.units[p as usize].readers.push(id);
        }
        self.units.push(unit);
    }

    /// Records that a unit, and so all that need it, now needs `node`, the last one so far.
    fn touch(&mut self, unit: u32, node: u32) {
        self.units[unit as usize].latest = node;
        let mut stack = self.units[unit as usize].readers.clone();
        while let Some(r) = stack.pop() {
            let r = self.current(r) as usize;
            if self.units[r].latest < node {
                self.units[r].latest = node;
                stack.extend_from_slice(&self.units[r].readers);
            }
        }
    }

    fn current(&self, mut unit: u32) -> u32 {
        while let Some(next) = self.units[unit as usize].merged_into {
            unit = next;
        }
        unit
    }

    /// If `node` may become a member of `unit`: the row axes that the unit then has.
    fn row_axes_if_joined(&self, node: usize, unit: u32) -> Option<usize> {
        let u = &self.units[unit as usize];
        let domain = u.domain?;
        let n = &self.g.nodes[node];
        if u.members.len() >= MAX_MEMBERS {
            return None;
        }
        let row_axes = match &n.op {
            // What lies behind a view can have another rank than what the reduction reads.
            Primitive::Reduce(..) if self.g.shape(n.inputs[0]) != self.g.shape(domain) => return None,
            Primitive::Reduce(_, axes) if u.row_axes == 0 || u.row_axes == axes.len() => axes.len(),
            Primitive::Reduce(..) => return None,
            _ => u.row_axes,
        };
        if !self.reads_registers(node, unit, domain, row_axes) {
            return None;
        }
        let circle = self
            .operands(node)
            .filter_map(|v| self.unit_of_value(v))
            .any(|p| p != unit && self.reaches(p, unit, None));
        (!circle).then_some(row_axes)
    }

    /// Whether a node's own shape and all its operands out of `unit` suit an instruction of a group with this
    /// domain.
    fn reads_registers(&self, node: usize, unit: u32, domain: ValueId, row_axes: usize) -> bool {
        let g = self.g;
        let d = g.shape(domain);
        let n = &g.nodes[node];
        let reduces = matches!(n.op, Primitive::Reduce(..));
        let own = if reduces { Some(Form::Full) } else { form_of(g.shape(n.out), d, row_axes) };
        let Some(own) = own else { return false };
        // A single row that is as long as the whole array must not be held back in scratch memory.
        let one_row = d[..d.len() - row_axes].iter().all(|&s| s == ONE);
        self.operands(node).all(|v| {
            if self.unit_of_value(v) != Some(unit) {
                return true;
            }
            match (own, self.form_in(v, d, row_axes)) {
                (Form::Full, Some(Form::Full)) => true,
                (Form::Full, Some(Form::Kept | Form::Spread)) => !reduces && !one_row,
                (Form::Kept, Some(Form::Kept)) | (Form::Squeezed, Some(Form::Squeezed)) => true,
                _ => false,
            }
        })
    }

    /// Form of a value that a member of a group computes, through the views between.
    pub(super) fn form_in(&self, v: ValueId, domain: &[Sym], row_axes: usize) -> Option<Form> {
        form_in(self.g, self.s, self.roles, v, domain, row_axes)
    }

    /// Whether a unit reads, directly or through others, what `target` computes. Units that need no node as
    /// late as the target's latest can't; where their own nodes end says nothing, since what they read may
    /// have grown since.
    fn reaches(&self, from: u32, target: u32, without: Option<u32>) -> bool {
        let latest = self.units[target as usize].latest;
        let mut stack: SmallVec<[u32; 16]> = smallvec::smallvec![from];
        let mut seen: SmallVec<[u32; 16]> = SmallVec::new();
        while let Some(u) = stack.pop() {
            let u = self.current(u);
            if u == target {
                return true;
            }
            let unit = &self.units[u as usize];
            if Some(u) == without || seen.contains(&u) || unit.latest < latest {
                continue;
            }
            seen.push(u);
            // Far-reaching searches cost more than the fusion saves.
            if seen.len() > 256 {
                return true;
            }
            stack.extend(unit.preds.iter().copied());
        }
        false
    }

    fn may_merge(&self, a: u32, b: u32, joint: usize) -> bool {
        let (x, y) = (&self.units[a as usize], &self.units[b as usize]);
        let (Some(da), Some(db)) = (x.domain, y.domain) else { return false };
        let row_axes = x.row_axes.max(y.row_axes);
        let suits = self.g.shape(da) == self.g.shape(db)
            && (x.row_axes == row_axes || x.row_axes == 0)
            && (y.row_axes == row_axes || y.row_axes == 0)
            && x.members.len() + y.members.len() <= MAX_MEMBERS
            && self.reads_registers(joint, b, da, row_axes);
        if !suits {
            return false;
        }
        // Other members of one may read the other, too: each must be able to from a register.
        let all_read = |from: &Unit, to: u32| {
            from.members.iter().all(|&m| self.reads_registers(m as usize, to, da, row_axes))
        };
        let indirect = |from: &Unit, own: u32, to: u32| {
            from.preds.iter().any(|&p| {
                let p = self.current(p);
                p != to && p != own && self.reaches(p, to, Some(own))
            })
        };
        all_read(x, b) && all_read(y, a) && !indirect(x, a, b) && !indirect(y, b, a)
    }

    fn merge(&mut self, a: u32, b: u32) -> u32 {
        let other = std::mem::take(&mut self.units[b as usize]);
        self.units[b as usize].merged_into = Some(a);
        for &m in &other.members {
            self.unit_of[m as usize] = Some(a);
        }
        let unit = &mut self.units[a as usize];
        unit.members.extend(other.members);
        unit.members.sort_unstable();
        unit.row_axes = unit.row_axes.max(other.row_axes);
        unit.readers.extend(other.readers);
        unit.preds.extend(other.preds);
        let mut preds: Vec<u32> =
            std::mem::take(&mut unit.preds).into_iter().map(|p| self.current(p)).collect();
        preds.sort_unstable();
        preds.dedup();
        preds.retain(|&p| p != a);
        self.units[a as usize].preds = preds;
        // What needed the one now needs the other, too.
        let latest = self.units[a as usize].latest.max(other.latest);
        self.touch(a, latest);
        a
    }
}

/// See [`Fuser::form_in`].
pub(super) fn form_in(
    g: &Graph,
    s: &Simplified,
    roles: &Roles,
    v: ValueId,
    domain: &[Sym],
    row_axes: usize,
) -> Option<Form> {
    let v = s.same[v as usize];
    let Def::Node(n) = g.values[v as usize].def else { return None };
    let node = &g.nodes[n as usize];
    if roles.of_node[n as usize] != Role::View {
        return form_of(g.shape(v), domain, row_axes);
    }
    let base = s.same[node.inputs[0] as usize];
    let below = form_in(g, s, roles, base, domain, row_axes)?;
    let shape = g.shape(v);
    match (&node.op, below) {
        (Primitive::View(View::Broadcast), Form::Kept) if shape == domain => Some(Form::Spread),
        (Primitive::View(View::Reshape), Form::Kept | Form::Squeezed)
            if differ_in_ones(g.shape(base), shape) =>
        {
            match form_of(shape, domain, row_axes) {
                Some(f @ (Form::Kept | Form::Squeezed)) => Some(f),
                _ => None,
            }
        }
        _ => None,
    }
}
