//! Reverse mode: from cotangents of a function's results to cotangents of its arguments.

use super::rules::{self, App};
use super::tape::{address, tape};
use crate::array::Array;
use crate::ops;
use crate::runtime::trace::Tracing;
use oxmlx_types::{Error, Result, Scalar, format_shape};
use rustc_hash::FxHashMap;

/// Results of `f` at `primals`, and cotangents of the primals for `cotangents` of the results.
pub fn vjp(
    f: &mut dyn FnMut(&[Array]) -> Result<Vec<Array>>,
    primals: &[Array],
    cotangents: &[Array],
) -> Result<(Vec<Array>, Vec<Array>)> {
    let mut check = |outputs: &[Array]| {
        if outputs.len() != cotangents.len() {
            let message = format!("{} outputs but {} cotangents.", outputs.len(), cotangents.len());
            return Err(Error::invalid("vjp", message));
        }
        if let Some((o, c)) = outputs.iter().zip(cotangents).find(|(o, c)| o.shape() != c.shape()) {
            let message = format!(
                "Output shape {} does not match cotangent shape {}.",
                format_shape(o.shape()),
                format_shape(c.shape())
            );
            return Err(Error::invalid("vjp", message));
        }
        Ok(cotangents.to_vec())
    };
    pull(f, primals, &mut check)
}

/// Value and gradients of a function whose first result is a 0-d array; the other results are handed on.
pub fn value_and_grad(
    f: &mut dyn FnMut(&[Array]) -> Result<Vec<Array>>,
    primals: &[Array],
) -> Result<(Vec<Array>, Vec<Array>)> {
    let mut seed = |outputs: &[Array]| {
        let Some(first) = outputs.first() else {
            return Err(Error::invalid("grad", "The function returned no array."));
        };
        if first.size() != 1 || first.ndim() != 0 {
            let message = format!(
                "The function whose gradient we want to compute should return a scalar array but it returned an array \
                 with shape {}.",
                format_shape(first.shape())
            );
            return Err(Error::invalid("grad", message));
        }
        Ok(vec![Array::scalar(Scalar::from_f64(1.0, first.dtype()))])
    };
    pull(f, primals, &mut seed)
}

/// Gradients only.
pub fn grad(f: &mut dyn FnMut(&[Array]) -> Result<Vec<Array>>, primals: &[Array]) -> Result<Vec<Array>> {
    Ok(value_and_grad(f, primals)?.1)
}

/// `seed` gives cotangents for the first results.
fn pull(
    f: &mut dyn FnMut(&[Array]) -> Result<Vec<Array>>,
    primals: &[Array],
    seed: &mut dyn FnMut(&[Array]) -> Result<Vec<Array>>,
) -> Result<(Vec<Array>, Vec<Array>)> {
    let _tracing = Tracing::new();
    let variables: Vec<Array> = primals.iter().map(Array::tracer).collect();
    let outputs = f(&variables)?;
    let seeds = seed(&outputs)?;
    let back = backward(&outputs[..seeds.len()], &seeds, &variables)?;
    Ok((outputs, back))
}

/// Cotangents of `variables`, given those of `outputs`.
pub(crate) fn backward(outputs: &[Array], seeds: &[Array], variables: &[Array]) -> Result<Vec<Array>> {
    let mut cotangents: FxHashMap<(usize, u32), Array> = FxHashMap::default();
    for (o, s) in outputs.iter().zip(seeds) {
        add(&mut cotangents, o, s.clone())?;
    }
    for entry in tape(outputs, variables).iter().rev() {
        let Some(g) = cotangents.remove(&key(&entry.out)) else { continue };
        let node = &entry.out.node;
        let app = App { op: &node.op, params: &node.params, inputs: &entry.inputs, out: &entry.out };
        for (by, input) in entry.inputs.iter().enumerate() {
            if input.node.traced
                && let Some(c) = rules::vjp(&app, by, &g)?
            {
                add(&mut cotangents, input, c)?;
            }
        }
    }
    variables
        .iter()
        .map(|v| match cotangents.get(&key(v)) {
            Some(g) => ops::broadcast_to(g, v.shape()),
            None => ops::zeros_like(v),
        })
        .collect()
}

fn key(a: &Array) -> (usize, u32) {
    (address(&a.node), a.index)
}

fn add(all: &mut FxHashMap<(usize, u32), Array>, of: &Array, g: Array) -> Result<()> {
    let g = ops::astype(&g, of.dtype())?;
    let sum = match all.get(&key(of)) {
        Some(old) => ops::add(old, &g)?,
        None => g,
    };
    all.insert(key(of), sum);
    Ok(())
}
