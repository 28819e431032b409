//! Vectorisation: a function of one example becomes a function of a batch.

use super::rules::{self, App, Batched};
use super::tape::{address, tape};
use crate::array::{Array, Spec};
use crate::ops;
use crate::runtime::trace::Tracing;
use oxmlx_types::{Error, Result, normalize_axis};
use rustc_hash::FxHashMap;

/// Runs `f`, written for one example, over a batch. `in_axes` says which axis of each argument is the batch
/// (`None`: shared); `out_axes`, given the number of results, where the batch goes in each.
pub fn vmap(
    f: &mut dyn FnMut(&[Array]) -> Result<Vec<Array>>,
    args: &[Array],
    in_axes: &[Option<i64>],
    out_axes: &mut dyn FnMut(usize) -> Result<Vec<Option<i64>>>,
) -> Result<Vec<Array>> {
    let (batches, size) = batches(args, in_axes)?;
    let _tracing = Tracing::new();
    let stand_ins: Vec<Array> = batches
        .iter()
        .map(|b| {
            let shape = if b.batched { b.array.shape()[1..].into() } else { b.array.shape().into() };
            Array::placeholder(Spec { shape, dtype: b.array.dtype() })
        })
        .collect();
    let outputs = f(&stand_ins)?;
    let mut known: FxHashMap<(usize, u32), Batched> = FxHashMap::default();
    for (s, b) in stand_ins.iter().zip(batches) {
        known.insert((address(&s.node), s.index), b);
    }
    let find =
        |known: &FxHashMap<(usize, u32), Batched>, a: &Array| match known.get(&(address(&a.node), a.index)) {
            Some(b) => b.clone(),
            None => Batched { array: a.clone(), batched: false },
        };
    for entry in tape(&outputs, &stand_ins) {
        let inputs: Vec<Batched> = entry.inputs.iter().map(|i| find(&known, i)).collect();
        let node = &entry.out.node;
        let app = App { op: &node.op, params: &node.params, inputs: &entry.inputs, out: &entry.out };
        let batched = inputs.iter().any(|b| b.batched);
        let array = if batched {
            rules::vmap(&app, &inputs, size)?
        } else {
            app.reapply(inputs.into_iter().map(|b| b.array).collect())
        };
        known.insert((address(node), entry.out.index), Batched { array, batched });
    }
    let places = out_axes(outputs.len())?;
    if places.len() != outputs.len() {
        let message = format!("{} outputs but {} output axes.", outputs.len(), places.len());
        return Err(Error::invalid("vmap", message));
    }
    outputs.iter().zip(places).map(|(o, place)| put_back(&find(&known, o), place, size)).collect()
}

/// Arguments with their batch axis in front, and the batch's size.
fn batches(args: &[Array], in_axes: &[Option<i64>]) -> Result<(Vec<Batched>, usize)> {
    let mut size = None;
    let mut all = Vec::with_capacity(args.len());
    for (a, axis) in args.iter().zip(in_axes) {
        let Some(axis) = axis else {
            all.push(Batched { array: a.clone(), batched: false });
            continue;
        };
        let axis = normalize_axis("vmap", *axis, a.ndim())?;
        let n = a.shape()[axis];
        if size.is_some_and(|s| s != n) {
            let message = format!("Inconsistent axis sizes: {} and {n}.", size.unwrap_or(0));
            return Err(Error::invalid("vmap", message));
        }
        size = Some(n);
        all.push(Batched { array: ops::moveaxis(a, axis as i64, 0)?, batched: true });
    }
    match size {
        Some(size) => Ok((all, size)),
        None => Err(Error::invalid("vmap", "At least one of in_axes must be non-None.")),
    }
}

fn put_back(b: &Batched, place: Option<i64>, size: usize) -> Result<Array> {
    match place {
        Some(axis) => ops::moveaxis(&b.spread(size)?, 0, axis),
        None if b.batched => {
            Err(Error::invalid("vmap", "A result that depends on the batch needs an output axis."))
        }
        None => Ok(b.array.clone()),
    }
}
