//! The memory pass: how long intermediates live, who may overwrite whom, and, per set of sizes, where in the
//! arena each one is.

use super::{Def, Extent, Graph, Group, Home, Plan, Slot, Step, Sym, ValueId};
use crate::primitive::Op;

/// Where the slots of a plan are, for one set of sizes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arena {
    /// Byte offset of each slot.
    pub offsets: Vec<usize>,
    /// Bytes in all.
    pub bytes: usize,
}

/// Alignment of everything in the arena.
const ALIGN: usize = 64;

/// Fills in slots, arena homes and alias candidates.
pub(super) fn assign(g: &Graph, p: &mut Plan) {
    let last = last_uses(p);
    let mut overwritten = vec![false; p.homes.len()];
    for i in 0..p.steps.len() {
        let step = &p.steps[i];
        let outputs = step.outputs();
        for out in outputs {
            let reuse = in_place_candidates(g, p, &p.steps[i], out)
                .into_iter()
                .find(|&v| last[v as usize] == i as u32 && !overwritten[v as usize] && reads_alone(p, i, v));
            match (p.homes[out as usize], reuse) {
                (Home::Arena(_), Some(v)) if matches!(p.homes[v as usize], Home::Arena(_)) => {
                    overwritten[v as usize] = true;
                    let Home::Arena(s) = p.homes[v as usize] else { continue };
                    p.homes[out as usize] = Home::Arena(s);
                    p.slots[s as usize].values.push(out);
                    p.slots[s as usize].last = last[out as usize].max(i as u32);
                }
                (Home::Arena(_), _) => {
                    p.homes[out as usize] = Home::Arena(p.slots.len() as u32);
                    let last = last[out as usize].max(i as u32);
                    p.slots.push(Slot { values: vec![out], first: i as u32, last });
                }
                (Home::Owned(_), Some(v)) if p.homes[v as usize] == Home::Leaf => {
                    if matches!(g.values[v as usize].def, Def::Leaf { contiguous: true }) {
                        overwritten[v as usize] = true;
                        p.aliases.push((v, out));
                    }
                }
                _ => {}
            }
        }
    }
}

fn element_size(g: &Graph, v: ValueId) -> usize {
    g.values[v as usize].dtype.size()
}

/// The value whose buffer `v` is in.
fn base(p: &Plan, mut v: ValueId) -> ValueId {
    while let Home::ViewOf(of) | Home::Same(of) = p.homes[v as usize] {
        v = of;
    }
    v
}

/// Per buffer: the last step that reads it. What the caller gets is read for ever.
fn last_uses(p: &Plan) -> Vec<u32> {
    let mut last = vec![0; p.homes.len()];
    for (i, step) in p.steps.iter().enumerate() {
        for v in step.inputs() {
            last[base(p, v) as usize] = i as u32;
        }
    }
    for &v in &p.outputs {
        last[base(p, v) as usize] = u32::MAX;
    }
    last
}

/// Whether only one operand of a step lies in v's buffer: otherwise another may still be read when v's
/// elements are already overwritten.
fn reads_alone(p: &Plan, step: usize, v: ValueId) -> bool {
    p.steps[step].inputs().into_iter().filter(|&i| base(p, i) == v).count() == 1
}

/// Operands whose buffer the output could take, element for element.
fn in_place_candidates(g: &Graph, p: &Plan, step: &Step, out: ValueId) -> Vec<ValueId> {
    match step {
        Step::Op {
            op: Op::SliceUpdate { .. } | Op::Scatter { .. } | Op::ScatterAxis { .. }, inputs, ..
        } => inputs[..1].iter().copied().filter(|&v| base(p, v) == v).collect(),
        Step::Group(group) => group_candidates(g, p, group, out),
        _ => Vec::new(),
    }
}

fn group_candidates(g: &Graph, p: &Plan, group: &Group, out: ValueId) -> Vec<ValueId> {
    let full_out =
        group.outputs.iter().any(|o| o.value == out && group.regs[o.reg as usize].extent == Extent::Full);
    let suits = |i: usize| {
        let v = group.inputs[i].value;
        full_out
            && group.regs[i].extent == Extent::Full
            && base(p, v) == v
            && g.shape(v) == g.shape(out)
            && element_size(g, v) == element_size(g, out)
    };
    (0..group.inputs.len()).filter(|&i| suits(i)).map(|i| group.inputs[i].value).collect()
}

/// Places every slot of a plan for given lengths: first fit by time.
pub fn arena(g: &Graph, p: &Plan, dims: &[usize]) -> Arena {
    let length = |s: &Sym| dims[*s as usize];
    let bytes = |v: ValueId| -> usize {
        let n: usize = g.shape(v).iter().map(length).product();
        (n * element_size(g, v)).next_multiple_of(ALIGN)
    };
    let mut order: Vec<usize> = (0..p.slots.len()).collect();
    order.sort_by_key(|&s| p.slots[s].first);
    let mut arena = Arena { offsets: vec![0; p.slots.len()], bytes: 0 };
    // Slots that live at the current step, by offset.
    let mut live: Vec<(usize, usize, u32)> = Vec::new();
    for s in order {
        let slot = &p.slots[s];
        let size = bytes(slot.values[0]);
        live.retain(|l| l.2 >= slot.first);
        let mut at = 0;
        let mut place = live.len();
        for (i, l) in live.iter().enumerate() {
            if at + size <= l.0 {
                place = i;
                break;
            }
            at = at.max(l.1);
        }
        live.insert(place, (at, at + size, slot.last));
        arena.offsets[s] = at;
        arena.bytes = arena.bytes.max(at + size);
    }
    arena
}
