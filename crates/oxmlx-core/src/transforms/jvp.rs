//! Forward mode: from tangents of a function's arguments to tangents of its results.

use super::rules::{self, App};
use super::tape::{address, tape};
use crate::array::Array;
use crate::ops;
use crate::runtime::trace::Tracing;
use oxmlx_types::{Error, Result, format_shape};
use rustc_hash::FxHashMap;

/// Results of `f` at `primals`, and the change of the results along `tangents`.
pub fn jvp(
    f: &mut dyn FnMut(&[Array]) -> Result<Vec<Array>>,
    primals: &[Array],
    tangents: &[Array],
) -> Result<(Vec<Array>, Vec<Array>)> {
    if primals.len() != tangents.len() {
        let message = format!("{} primals but {} tangents.", primals.len(), tangents.len());
        return Err(Error::invalid("jvp", message));
    }
    if let Some((p, t)) = primals.iter().zip(tangents).find(|(p, t)| p.shape() != t.shape()) {
        let (p, t) = (format_shape(p.shape()), format_shape(t.shape()));
        return Err(Error::invalid("jvp", format!("Primal shape {p} does not match tangent shape {t}.")));
    }
    let _tracing = Tracing::new();
    let variables: Vec<Array> = primals.iter().map(Array::tracer).collect();
    let outputs = f(&variables)?;
    let mut changes: FxHashMap<(usize, u32), Array> = FxHashMap::default();
    for (v, t) in variables.iter().zip(tangents) {
        changes.insert((address(&v.node), v.index), ops::astype(t, v.dtype())?);
    }
    for entry in tape(&outputs, &variables) {
        let of: Vec<Option<Array>> =
            entry.inputs.iter().map(|i| changes.get(&(address(&i.node), i.index)).cloned()).collect();
        if of.iter().all(Option::is_none) {
            continue;
        }
        let node = &entry.out.node;
        let app = App { op: &node.op, params: &node.params, inputs: &entry.inputs, out: &entry.out };
        if let Some(t) = rules::jvp(&app, &of)? {
            changes.insert((address(node), entry.out.index), t);
        }
    }
    let moved = outputs
        .iter()
        .map(|o| match changes.get(&(address(&o.node), o.index)) {
            Some(t) => ops::broadcast_to(&ops::astype(t, o.dtype())?, o.shape()),
            None => ops::zeros_like(o),
        })
        .collect::<Result<_>>()?;
    Ok((outputs, moved))
}
