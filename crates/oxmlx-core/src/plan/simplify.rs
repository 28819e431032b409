//! First pass: which values are other values in disguise, and which nodes nobody needs.
//!
//! Removed are identities, casts, reductions, reshapes, broadcasts and transposes that change nothing, and
//! applications that stand twice. Two nodes with run-time words are never merged: equal words today may differ
//! tomorrow.

use super::{Def, Graph, ONE, ValueId};
use crate::primitive::{Primitive, View};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// What the first pass found.
pub(super) struct Simplified {
    /// Per value: the value that it equals (itself, mostly).
    pub same: Vec<ValueId>,
    /// Per node: whether its output is needed.
    pub live: Vec<bool>,
}

pub(super) fn simplify(g: &Graph) -> Simplified {
    let mut same: Vec<ValueId> = (0..g.values.len() as ValueId).collect();
    let mut seen: FxHashMap<u64, SmallVec<[usize; 1]>> = FxHashMap::default();
    for (i, node) in g.nodes.iter().enumerate() {
        if let Some(input) = disguised(g, i) {
            same[node.out as usize] = same[input as usize];
            continue;
        }
        if node.n_params > 0 {
            continue;
        }
        let key = key(g, i, &same);
        let twins = seen.entry(key).or_default();
        match twins.iter().find(|&&t| equal(g, t, i, &same)) {
            Some(&t) => same[node.out as usize] = g.nodes[t].out,
            None => twins.push(i),
        }
    }
    let live = liveness(g, &same);
    Simplified { same, live }
}

/// The operand that a node merely repeats.
fn disguised(g: &Graph, i: usize) -> Option<ValueId> {
    let node = &g.nodes[i];
    let input = *node.inputs.first()?;
    let unchanged = g.shape(input) == g.shape(node.out);
    let is = match &node.op {
        Primitive::View(View::Identity { .. }) => true,
        Primitive::View(View::Broadcast | View::Reshape) => unchanged,
        Primitive::View(View::Transpose(axes)) => axes.iter().enumerate().all(|(i, &a)| i == a as usize),
        // Along axes of length 1 only. Groups rely on it: with rows of one element, what has one element a row
        // would look as large as the domain.
        Primitive::Reduce(..) => {
            unchanged && g.values[input as usize].dtype == g.values[node.out as usize].dtype
        }
        Primitive::Cast => g.values[input as usize].dtype == g.values[node.out as usize].dtype,
        _ => false,
    };
    is.then_some(input)
}

fn key(g: &Graph, i: usize, same: &[ValueId]) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut h = rustc_hash::FxHasher::default();
    g.nodes[i].op.hash(&mut h);
    for &v in &g.nodes[i].inputs {
        h.write_u32(same[v as usize]);
    }
    h.finish()
}

fn equal(g: &Graph, a: usize, b: usize, same: &[ValueId]) -> bool {
    let (x, y) = (&g.nodes[a], &g.nodes[b]);
    x.op == y.op
        && x.inputs.len() == y.inputs.len()
        && x.inputs.iter().zip(&y.inputs).all(|(&p, &q)| same[p as usize] == same[q as usize])
        && g.shape(x.out) == g.shape(y.out)
        && g.values[x.out as usize].dtype == g.values[y.out as usize].dtype
}

fn liveness(g: &Graph, same: &[ValueId]) -> Vec<bool> {
    let mut live = vec![false; g.nodes.len()];
    let mark = |v: ValueId, live: &mut Vec<bool>| {
        if let Def::Node(n) = g.values[same[v as usize] as usize].def {
            live[n as usize] = true;
        }
    };
    for &v in &g.kept {
        mark(v, &mut live);
    }
    for i in (0..g.nodes.len()).rev() {
        if live[i] {
            for &v in &g.nodes[i].inputs {
                mark(v, &mut live);
            }
        }
    }
    live
}

/// Whether two shapes differ in axes of length 1 only.
pub(super) fn differ_in_ones(a: &[u32], b: &[u32]) -> bool {
    a.iter().filter(|&&s| s != ONE).eq(b.iter().filter(|&&s| s != ONE))
}
