//! `mx.compile`: a function that is run once per kind of arguments and afterwards replayed from its nodes.

use crate::array::PyArray;
use crate::error::OrRaise;
use crate::random::RandomState;
use crate::transforms::{Callback, as_array};
use crate::tree::{self, Kind, kind};
use oxmlx::transforms::Traced;
use oxmlx::{Array, Dtype, runtime::settings};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::sync::Arc;

type Any<'py> = Bound<'py, PyAny>;

/// What two calls must share to share a trace.
#[derive(PartialEq, Eq, Clone)]
struct Key {
    /// Structure of the arguments, with constants spelt out.
    structure: String,
    arrays: Vec<(Vec<usize>, Dtype)>,
}

/// Traces that one function keeps: constants that are new each time must not fill memory.
const MAX_TRACES: usize = 256;

/// One traced kind of call.
struct Trace {
    key: Key,
    traced: Traced,
    /// What the function returned, with its traced arrays in place.
    result: Py<PyAny>,
    results: usize,
}

/// A compiled function.
#[pyclass(module = "mlx.core", name = "compiled_function", frozen, weakref)]
pub struct Compiled {
    fun: Py<PyAny>,
    inputs: Option<Py<PyAny>>,
    outputs: Option<Py<PyAny>>,
    shapeless: bool,
    traces: Mutex<Vec<Arc<Trace>>>,
}

/// Collects the arrays of arguments and describes the rest.
fn describe(obj: &Any<'_>, arrays: &mut Vec<Array>, text: &mut String) -> PyResult<()> {
    let _level = tree::Level::enter()?;
    match kind(obj) {
        Kind::Dict(d) => {
            text.push('{');
            for (k, v) in d.iter() {
                // Keys with their type and length, so that no two structures read alike.
                let key = k.repr()?.to_string();
                text.push_str(&format!("{}:{key}", key.len()));
                describe(&v, arrays, text)?;
            }
            text.push('}');
        }
        Kind::List(l) => {
            text.push('[');
            l.iter().try_for_each(|v| describe(&v, arrays, text))?;
            text.push(']');
        }
        Kind::Tuple(t) => {
            text.push('(');
            t.iter().try_for_each(|v| describe(&v, arrays, text))?;
            text.push(')');
        }
        Kind::Leaf => {
            if let Some(a) = as_array(obj) {
                arrays.push(a);
                text.push('*');
            } else if obj.is_none() {
                text.push('N');
            } else if obj.cast::<PyBool>().is_ok() || obj.cast::<PyInt>().is_ok() {
                text.push_str(&format!("i{};", obj.repr()?));
            } else if let Ok(f) = obj.cast::<PyFloat>() {
                text.push_str(&format!("f{:x};", f.value().to_bits()));
            } else if obj.cast::<PyString>().is_ok() {
                text.push_str(&format!("s{}:{obj};", obj.len()?));
            } else {
                let ty = obj.get_type().name()?;
                return Err(PyValueError::new_err(format!(
                    "[compile] Function arguments must be trees of arrays or constants (floats, ints, strings, or None), \
                     but received type {ty}."
                )));
            }
        }
    }
    Ok(())
}

/// Collects the arrays of a state tree (the random state counts as one).
fn state_arrays(tree: &Any<'_>, out: &mut Vec<Array>) -> PyResult<()> {
    tree::visit(tree, &mut |leaf| {
        if leaf.cast::<RandomState>().is_ok() {
            out.push(oxmlx::ops::random::state().or_raise()?);
        } else {
            out.extend(as_array(leaf));
        }
        Ok(())
    })
}

/// Writes arrays back into a state tree, in the order in which [`state_arrays`] reads them.
fn fill_state(tree: &Any<'_>, arrays: &mut dyn Iterator<Item = Array>) -> PyResult<()> {
    let _level = tree::Level::enter()?;
    let mut put = |container: &Any<'_>, key: Any<'_>, value: &Any<'_>| -> PyResult<()> {
        if value.cast::<PyArray>().is_ok() {
            if let Some(a) = arrays.next() {
                container.set_item(key, PyArray::new(a))?;
            }
            return Ok(());
        }
        fill_state(value, arrays)
    };
    match kind(tree) {
        Kind::Dict(d) => d.iter().try_for_each(|(k, v)| put(tree, k, &v)),
        Kind::List(l) => {
            (0..l.len()).try_for_each(|i| put(tree, i.into_pyobject(tree.py())?.into_any(), &l.get_item(i)?))
        }
        // A tuple can't be written to, but what it holds may be.
        Kind::Tuple(t) => t.iter().try_for_each(|v| fill_state(&v, arrays)),
        Kind::Leaf => {
            if tree.cast::<RandomState>().is_ok()
                && let Some(a) = arrays.next()
            {
                oxmlx::ops::random::set_state(a).or_raise()?;
            }
            Ok(())
        }
    }
}

#[pymethods]
impl Compiled {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Any<'py>> {
        if settings::compile_disabled() {
            return self.fun.bind(py).call(args, kwargs);
        }
        let mut arrays = Vec::new();
        let mut structure = String::new();
        describe(args.as_any(), &mut arrays, &mut structure)?;
        if let Some(k) = kwargs {
            describe(k.as_any(), &mut arrays, &mut structure)?;
        }
        if let Some(state) = &self.inputs {
            state_arrays(state.bind(py), &mut arrays)?;
        }
        let spec = |a: &Array| (if self.shapeless { vec![a.ndim()] } else { a.shape().to_vec() }, a.dtype());
        let key = Key { structure, arrays: arrays.iter().map(spec).collect() };
        let known = self.traces.lock().iter().find(|t| t.key == key).cloned();
        let trace = match known {
            Some(t) => t,
            None => {
                let t = Arc::new(self.trace(py, args, kwargs, &arrays, key)?);
                let mut traces = self.traces.lock();
                if traces.len() >= MAX_TRACES {
                    traces.remove(0);
                }
                traces.push(t.clone());
                t
            }
        };
        let mut outputs = trace.traced.call(&arrays, self.shapeless).or_raise()?;
        let state = outputs.split_off(trace.results);
        if let Some(tree) = &self.outputs {
            fill_state(tree.bind(py), &mut state.into_iter())?;
        }
        crate::transforms::with_arrays(trace.result.bind(py), &mut outputs.into_iter())
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Any<'py>> {
        self.fun.bind(py).getattr(name)
    }
}

impl Compiled {
    /// Runs the function on stand-ins, in the arguments and in the captured state.
    fn trace<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
        arrays: &[Array],
        key: Key,
    ) -> PyResult<Trace> {
        let mut callback = Callback::new();
        let mut result: Option<Any<'py>> = None;
        let mut results = 0;
        let mut before = Vec::new();
        if let Some(state) = &self.inputs {
            state_arrays(state.bind(py), &mut before)?;
        }
        let mut f = |x: &[Array]| {
            callback.run(|| {
                let mut next = x.iter().cloned();
                let inner =
                    crate::transforms::with_arrays(args.as_any(), &mut next)?.cast_into::<PyTuple>()?;
                let named = match kwargs {
                    Some(k) => {
                        Some(crate::transforms::with_arrays(k.as_any(), &mut next)?.cast_into::<PyDict>()?)
                    }
                    None => None,
                };
                if let Some(state) = &self.inputs {
                    fill_state(state.bind(py), &mut next)?;
                }
                let out = self.fun.bind(py).call(inner, named.as_ref())?;
                let mut outputs = Vec::new();
                collect_results(&out, &mut outputs)?;
                results = outputs.len();
                if let Some(state) = &self.outputs {
                    state_arrays(state.bind(py), &mut outputs)?;
                }
                result = Some(out);
                Ok(outputs)
            })
        };
        let outcome = Traced::trace(&mut f, arrays);
        // Whatever happened, the state must not keep stand-ins.
        if let Some(state) = &self.inputs {
            fill_state(state.bind(py), &mut before.into_iter())?;
        }
        let traced = callback.finish(outcome)?;
        let result = result.unwrap_or_else(|| py.None().into_bound(py)).unbind();
        Ok(Trace { key, traced, result, results })
    }
}

/// Arrays of a result; other leaves stay as they are.
fn collect_results(out: &Any<'_>, arrays: &mut Vec<Array>) -> PyResult<()> {
    tree::visit(out, &mut |leaf| {
        arrays.extend(as_array(leaf));
        Ok(())
    })
}

fn captured(py: Python<'_>, state: Option<Py<PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    let Some(state) = state.filter(|s| !s.is_none(py)) else { return Ok(None) };
    let bound = state.bind(py);
    let good = bound.cast::<PyList>().is_ok()
        || bound.cast::<PyDict>().is_ok()
        || bound.cast::<PyTuple>().is_ok()
        || bound.cast::<RandomState>().is_ok();
    if !good {
        return Err(PyValueError::new_err(
            "[compile] Captured state must be a list, a dict or mx.random.state.",
        ));
    }
    Ok(Some(state))
}

/// `fun`, run once for each kind of arguments (shapes, dtypes, constants) and replayed afterwards. `inputs` and
/// `outputs` are trees of arrays that `fun` reads and writes besides its arguments. With `shapeless`, other
/// shapes of the same rank share a trace.
#[pyfunction]
#[pyo3(signature = (fun, inputs=None, outputs=None, shapeless=false))]
fn compile(
    py: Python<'_>,
    fun: Py<PyAny>,
    inputs: Option<Py<PyAny>>,
    outputs: Option<Py<PyAny>>,
    shapeless: bool,
) -> PyResult<Compiled> {
    tree::expect_callable(fun.bind(py), "compile")?;
    let (inputs, outputs) = (captured(py, inputs)?, captured(py, outputs)?);
    Ok(Compiled { fun, inputs, outputs, shapeless, traces: Mutex::new(Vec::new()) })
}

/// Makes compiled functions call their originals.
#[pyfunction]
fn disable_compile() {
    settings::set_compile_disabled(true);
}

/// Undoes `disable_compile`.
#[pyfunction]
fn enable_compile() {
    settings::set_compile_disabled(false);
}

/// Adds all of this to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(compile, m)?)?;
    m.add_function(wrap_pyfunction!(disable_compile, m)?)?;
    m.add_function(wrap_pyfunction!(enable_compile, m)?)
}
