//! The nodes between a function's arguments and its results, in order.

use crate::array::{Array, Inputs, Node};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// One node with the operands that it had.
pub(crate) struct Entry {
    pub out: Array,
    pub inputs: Inputs,
}

/// Traced nodes behind `outputs`, operands first. Nodes that no transform follows are left out, and so are
/// the arguments themselves.
pub(crate) fn tape(outputs: &[Array], arguments: &[Array]) -> Vec<Entry> {
    let mut order: Vec<Entry> = Vec::new();
    let mut seen: FxHashMap<usize, ()> = FxHashMap::default();
    for a in arguments {
        seen.insert(address(&a.node), ());
    }
    let mut stack: Vec<(Entry, usize)> = Vec::new();
    for out in outputs {
        visit(out, &mut seen, &mut stack);
        while let Some((entry, next)) = stack.last_mut() {
            if *next < entry.inputs.len() {
                *next += 1;
                let child = entry.inputs[*next - 1].clone();
                visit(&child, &mut seen, &mut stack);
            } else if let Some((entry, _)) = stack.pop() {
                order.push(entry);
            }
        }
    }
    order
}

fn visit(a: &Array, seen: &mut FxHashMap<usize, ()>, stack: &mut Vec<(Entry, usize)>) {
    if !a.node.traced || seen.insert(address(&a.node), ()).is_some() {
        return;
    }
    let inputs = a.inputs();
    if !inputs.is_empty() {
        stack.push((Entry { out: a.clone(), inputs }, 0));
    }
}

pub(crate) fn address(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node) as usize
}
