//! Function transforms: Python functions in, Python functions out. Each flattens its arguments' trees to
//! arrays, calls the engine's transform, and hands the function the same trees with stand-ins in place.

use crate::array::PyArray;
use crate::error::{OrRaise, raise};
use crate::tree::{self, Kind, kind};
use oxmlx::runtime::eval;
use oxmlx::{Array, Error, ErrorKind, transforms};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

type Any<'py> = Bound<'py, PyAny>;

/// The array behind a leaf.
pub fn as_array(obj: &Any<'_>) -> Option<Array> {
    obj.cast::<PyArray>().ok().map(|a| a.get().get())
}

/// All arrays of a tree; anything else is refused.
pub fn arrays_of(trees: &Any<'_>) -> PyResult<Vec<Array>> {
    let mut all = Vec::new();
    tree::visit(trees, &mut |leaf| {
        all.push(as_array(leaf).ok_or_else(|| tree::not_an_array(leaf))?);
        Ok(())
    })?;
    Ok(all)
}

/// All arrays of a tree; other leaves are passed over.
fn arrays_within(trees: &Any<'_>, all: &mut Vec<Array>) -> PyResult<()> {
    tree::visit(trees, &mut |leaf| {
        all.extend(as_array(leaf));
        Ok(())
    })
}

/// A tree with its arrays replaced, in order.
pub fn with_arrays<'py>(of: &Any<'py>, arrays: &mut dyn Iterator<Item = Array>) -> PyResult<Any<'py>> {
    let py = of.py();
    tree::map(of, &mut |leaf| {
        if leaf.cast::<PyArray>().is_err() {
            return Ok(leaf.clone());
        }
        match arrays.next() {
            Some(a) => Ok(Bound::new(py, PyArray::new(a))?.into_any()),
            None => Ok(leaf.clone()),
        }
    })
}

/// Runs a Python callback inside an engine call and carries its exception across.
pub struct Callback(Option<PyErr>);

impl Callback {
    /// No exception yet.
    pub fn new() -> Callback {
        Callback(None)
    }

    /// The result for the engine; the exception waits for [`Callback::finish`].
    pub fn run<T>(&mut self, f: impl FnOnce() -> PyResult<T>) -> oxmlx::Result<T> {
        f().map_err(|e| {
            self.0 = Some(e);
            Error::new(ErrorKind::Backend, "", "a Python function raised")
        })
    }

    /// The callback's own exception, else the engine's error.
    pub fn finish<T>(self, outcome: oxmlx::Result<T>) -> PyResult<T> {
        outcome.map_err(|e| self.0.unwrap_or_else(|| raise(e)))
    }
}

/// Computes all arrays in the given trees; other leaves are passed over.
#[pyfunction]
#[pyo3(signature = (*args), name = "eval")]
fn eval_(py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<()> {
    let mut arrays = Vec::new();
    arrays_within(args.as_any(), &mut arrays)?;
    py.detach(|| eval::eval(&arrays)).or_raise()
}

/// Starts to compute all arrays in the given trees and returns at once.
#[pyfunction]
#[pyo3(signature = (*args))]
fn async_eval(py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<()> {
    let mut arrays = Vec::new();
    arrays_within(args.as_any(), &mut arrays)?;
    py.detach(|| eval::async_eval(&arrays)).or_raise()
}

/// Which arguments a gradient is taken by.
struct Selection {
    argnums: Vec<usize>,
    argnames: Vec<String>,
}

impl Selection {
    fn parse(op: &str, argnums: Option<&Any<'_>>, argnames: Option<&Any<'_>>) -> PyResult<Selection> {
        let argnames: Vec<String> = match argnames {
            None => Vec::new(),
            Some(n) if n.is_none() => Vec::new(),
            Some(n) => n.extract::<String>().map(|s| vec![s]).or_else(|_| n.extract())?,
        };
        let numbers: Vec<i64> = match argnums.filter(|n| !n.is_none()) {
            None if argnames.is_empty() => vec![0],
            None => Vec::new(),
            Some(n) => n.extract::<i64>().map(|i| vec![i]).or_else(|_| n.extract())?,
        };
        let mut argnums = Vec::with_capacity(numbers.len());
        for n in numbers {
            let i = usize::try_from(n).map_err(|_| {
                PyValueError::new_err(format!(
                    "[{op}] Can't compute the gradient of negative argument index {n}"
                ))
            })?;
            if argnums.contains(&i) {
                return Err(PyValueError::new_err(format!("[{op}] Duplicate argument index {i}")));
            }
            argnums.push(i);
        }
        Ok(Selection { argnums, argnames })
    }

    /// The selected arguments as one list of trees.
    fn pick<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Vec<Any<'py>>> {
        let mut picked = Vec::with_capacity(self.argnums.len() + self.argnames.len());
        for &i in &self.argnums {
            picked.push(args.get_item(i).map_err(|_| {
                PyValueError::new_err(format!(
                    "[value_and_grad] Can't compute the gradient of argument index {i} because the function is called with \
                     only {} positional arguments.",
                    args.len()
                ))
            })?);
        }
        for name in &self.argnames {
            let found = kwargs.map(|k| k.get_item(name)).transpose()?.flatten();
            picked.push(found.ok_or_else(|| {
                PyValueError::new_err(format!(
                    "[value_and_grad] Can't compute the gradient of keyword argument '{name}' because the function is \
                     called without it."
                ))
            })?);
        }
        Ok(picked)
    }
}

/// A function that returns gradients, or value and gradients, of another.
#[pyclass(module = "mlx.core", name = "gradient_function", frozen, weakref)]
struct Gradient {
    fun: Py<PyAny>,
    selection: Selection,
    with_value: bool,
}

#[pymethods]
impl Gradient {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Any<'py>> {
        let picked = self.selection.pick(args, kwargs)?;
        let mut primals = Vec::new();
        let mut counts = Vec::with_capacity(picked.len());
        for tree in &picked {
            let before = primals.len();
            primals.extend(arrays_of(tree)?);
            counts.push(primals.len() - before);
        }
        let mut callback = Callback::new();
        let mut value: Option<Any<'py>> = None;
        let mut f = |tracers: &[Array]| {
            callback.run(|| {
                let result = self.call_with(py, args, kwargs, &picked, tracers)?;
                let first = match result.cast::<PyTuple>() {
                    Ok(t) if !t.is_empty() => t.get_item(0)?,
                    _ => result.clone(),
                };
                let first = as_array(&first).ok_or_else(|| {
                    PyValueError::new_err(
                        "[value_and_grad] The return value of the function whose gradient we want to compute should be \
                         either a scalar array or a tuple with the first value being a scalar array.",
                    )
                })?;
                value = Some(result);
                Ok(vec![first])
            })
        };
        let outcome = transforms::value_and_grad(&mut f, &primals);
        let (_, gradients) = callback.finish(outcome)?;
        let gradients = self.assemble(py, &picked, gradients)?;
        match value {
            Some(value) if self.with_value => Ok((value, gradients).into_pyobject(py)?.into_any()),
            _ => Ok(gradients),
        }
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Any<'py>> {
        self.fun.bind(py).getattr(name)
    }
}

impl Gradient {
    fn call_with<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
        picked: &[Any<'py>],
        tracers: &[Array],
    ) -> PyResult<Any<'py>> {
        let mut next = tracers.iter().cloned();
        let mut items: Vec<Any<'py>> = args.iter().collect();
        let mut named = kwargs.map(|k| k.copy()).transpose()?;
        for (k, tree) in picked.iter().enumerate() {
            let replaced = with_arrays(tree, &mut next)?;
            match self.selection.argnums.get(k) {
                Some(&i) => items[i] = replaced,
                None => {
                    let name = &self.selection.argnames[k - self.selection.argnums.len()];
                    named.get_or_insert_with(|| PyDict::new(py)).set_item(name, replaced)?;
                }
            }
        }
        self.fun.bind(py).call(PyTuple::new(py, items)?, named.as_ref())
    }

    fn assemble<'py>(
        &self,
        py: Python<'py>,
        picked: &[Any<'py>],
        gradients: Vec<Array>,
    ) -> PyResult<Any<'py>> {
        let mut next = gradients.into_iter();
        let trees: Vec<Any<'py>> =
            picked.iter().map(|t| with_arrays(t, &mut next)).collect::<PyResult<_>>()?;
        let n = self.selection.argnums.len();
        // One gradient comes bare, however its argument was named.
        let positional = match n {
            0 => py.None().into_bound(py),
            1 => trees[0].clone(),
            _ => PyTuple::new(py, &trees[..n])?.into_any(),
        };
        if self.selection.argnames.is_empty() {
            return Ok(positional);
        }
        let named = PyDict::new(py);
        for (name, tree) in self.selection.argnames.iter().zip(&trees[n..]) {
            named.set_item(name, tree)?;
        }
        Ok((positional, named).into_pyobject(py)?.into_any())
    }
}

fn gradient(
    op: &str,
    fun: Py<PyAny>,
    argnums: Option<&Any<'_>>,
    argnames: Option<&Any<'_>>,
    with_value: bool,
    py: Python<'_>,
) -> PyResult<Gradient> {
    tree::expect_callable(fun.bind(py), op)?;
    Ok(Gradient { fun, selection: Selection::parse(op, argnums, argnames)?, with_value })
}

/// A function that returns the gradient of `fun`'s result, a 0-d array, by chosen arguments (trees of arrays).
#[pyfunction]
#[pyo3(signature = (fun, argnums=None, argnames=None))]
fn grad(
    py: Python<'_>,
    fun: Py<PyAny>,
    argnums: Option<&Any<'_>>,
    argnames: Option<&Any<'_>>,
) -> PyResult<Gradient> {
    gradient("grad", fun, argnums, argnames, false, py)
}

/// A function that returns `fun`'s result and its gradient by chosen arguments. `fun` may return a tuple whose
/// first item is the 0-d array.
#[pyfunction]
#[pyo3(signature = (fun, argnums=None, argnames=None))]
fn value_and_grad(
    py: Python<'_>,
    fun: Py<PyAny>,
    argnums: Option<&Any<'_>>,
    argnames: Option<&Any<'_>>,
) -> PyResult<Gradient> {
    gradient("value_and_grad", fun, argnums, argnames, true, py)
}

/// Arrays that a function returned: one, or a list or tuple of them.
fn returned(result: &Any<'_>) -> PyResult<Vec<Array>> {
    match as_array(result) {
        Some(a) => Ok(vec![a]),
        None if result.cast::<PyList>().is_ok() || result.cast::<PyTuple>().is_ok() => result
            .try_iter()?
            .map(|r| r.and_then(|r| as_array(&r).ok_or_else(|| tree::not_an_array(&r))))
            .collect(),
        None => Err(PyValueError::new_err("The function must return an array or a list or tuple of arrays.")),
    }
}

fn wrapped<'py>(py: Python<'py>, arrays: Vec<Array>) -> PyResult<Bound<'py, PyList>> {
    PyList::new(
        py,
        arrays.into_iter().map(PyArray::new).map(|a| Bound::new(py, a)).collect::<PyResult<Vec<_>>>()?,
    )
}

fn call_arrays<'py>(fun: &Any<'py>, arrays: &[Array]) -> PyResult<Any<'py>> {
    let items: Vec<_> =
        arrays.iter().map(|a| Bound::new(fun.py(), PyArray::new(a.clone()))).collect::<PyResult<_>>()?;
    fun.call1(PyTuple::new(fun.py(), items)?)
}

type Lists<'py> = (Bound<'py, PyList>, Bound<'py, PyList>);

/// Results of `fun` at `primals`, and cotangents of the primals for `cotangents` of the results.
#[pyfunction]
fn vjp<'py>(fun: &Any<'py>, primals: &Any<'py>, cotangents: &Any<'py>) -> PyResult<Lists<'py>> {
    let (p, c) = (arrays_of(primals)?, arrays_of(cotangents)?);
    let mut callback = Callback::new();
    let outcome = transforms::vjp(&mut |x| callback.run(|| returned(&call_arrays(fun, x)?)), &p, &c);
    let (outputs, back) = callback.finish(outcome)?;
    Ok((wrapped(fun.py(), outputs)?, wrapped(fun.py(), back)?))
}

/// Results of `fun` at `primals`, and the results' change along `tangents` of the primals.
#[pyfunction]
fn jvp<'py>(fun: &Any<'py>, primals: &Any<'py>, tangents: &Any<'py>) -> PyResult<Lists<'py>> {
    let (p, t) = (arrays_of(primals)?, arrays_of(tangents)?);
    let mut callback = Callback::new();
    let outcome = transforms::jvp(&mut |x| callback.run(|| returned(&call_arrays(fun, x)?)), &p, &t);
    let (outputs, moved) = callback.finish(outcome)?;
    Ok((wrapped(fun.py(), outputs)?, wrapped(fun.py(), moved)?))
}

/// Batch axes for each leaf of a tree: a number or None for all below, or a tree of them.
fn axes_for(tree: &Any<'_>, axes: &Any<'_>, out: &mut Vec<Option<i64>>) -> PyResult<()> {
    let _level = tree::Level::enter()?;
    let uniform: Option<Option<i64>> =
        if axes.is_none() { Some(None) } else { axes.extract::<i64>().ok().map(Some) };
    let mismatch =
        || PyValueError::new_err("[vmap] The axes must have the structure of what they stand for.");
    match (uniform, kind(tree)) {
        (Some(axis), _) => tree::visit(tree, &mut |leaf| {
            if as_array(leaf).is_none() && axis.is_some() {
                return Err(tree::not_an_array(leaf));
            }
            if as_array(leaf).is_some() {
                out.push(axis);
            }
            Ok(())
        }),
        (None, Kind::Dict(d)) => d.iter().try_for_each(|(k, v)| axes_for(&v, &axes.get_item(k)?, out)),
        (None, Kind::List(_) | Kind::Tuple(_)) => {
            if axes.len()? != tree.len()? {
                return Err(mismatch());
            }
            tree.try_iter()?.zip(axes.try_iter()?).try_for_each(|(t, a)| axes_for(&t?, &a?, out))
        }
        (None, Kind::Leaf) => Err(mismatch()),
    }
}

/// A function over batches of another's arguments.
#[pyclass(module = "mlx.core", name = "vmapped_function", frozen, weakref)]
struct Vmapped {
    fun: Py<PyAny>,
    in_axes: Py<PyAny>,
    out_axes: Py<PyAny>,
}

#[pymethods]
impl Vmapped {
    #[pyo3(signature = (*args))]
    fn __call__<'py>(&self, py: Python<'py>, args: &Bound<'py, PyTuple>) -> PyResult<Any<'py>> {
        let mut arrays = Vec::new();
        arrays_within(args.as_any(), &mut arrays)?;
        let mut in_axes = Vec::with_capacity(arrays.len());
        axes_for(args.as_any(), self.in_axes.bind(py), &mut in_axes)?;
        // Both callbacks may raise; they never run at the same time.
        let callback = std::cell::RefCell::new(Callback::new());
        let result: std::cell::RefCell<Option<Any<'py>>> = std::cell::RefCell::new(None);
        let mut f = |x: &[Array]| {
            callback.borrow_mut().run(|| {
                let inner = with_arrays(args.as_any(), &mut x.iter().cloned())?;
                let out = self.fun.bind(py).call1(inner.cast_into::<PyTuple>()?)?;
                let arrays = arrays_of(&out).map_err(|_| {
                    PyValueError::new_err("[vmap] The function must return arrays or trees of arrays.")
                })?;
                *result.borrow_mut() = Some(out);
                Ok(arrays)
            })
        };
        let mut places = |_: usize| {
            callback.borrow_mut().run(|| {
                let mut out = Vec::new();
                if let Some(r) = &*result.borrow() {
                    axes_for(r, self.out_axes.bind(py), &mut out)?;
                }
                Ok(out)
            })
        };
        let outcome = transforms::vmap(&mut f, &arrays, &in_axes, &mut places);
        let outputs = callback.into_inner().finish(outcome)?;
        let shape = result.into_inner().unwrap_or_else(|| py.None().into_bound(py));
        with_arrays(&shape, &mut outputs.into_iter())
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Any<'py>> {
        self.fun.bind(py).getattr(name)
    }
}

/// `fun`, written for one example, over a batch: `in_axes` and `out_axes` say which axis of each argument and
/// result is the batch (None: none).
#[pyfunction]
#[pyo3(signature = (fun, in_axes=None, out_axes=None), text_signature = "(fun, in_axes=0, out_axes=0)")]
fn vmap(
    py: Python<'_>,
    fun: Py<PyAny>,
    in_axes: Option<Given>,
    out_axes: Option<Given>,
) -> PyResult<Vmapped> {
    tree::expect_callable(fun.bind(py), "vmap")?;
    let or_zero = |g: Option<Given>| match g {
        Some(g) => Ok(g.0),
        None => Ok::<_, PyErr>(0i64.into_pyobject(py)?.into_any().unbind()),
    };
    Ok(Vmapped { fun, in_axes: or_zero(in_axes)?, out_axes: or_zero(out_axes)? })
}

/// Any object, None included: tells "not given" from "given as None".
struct Given(Py<PyAny>);

impl<'a, 'py> FromPyObject<'a, 'py> for Given {
    type Error = PyErr;

    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Given(obj.to_owned().unbind()))
    }
}

/// The same array, invisible to differentiation.
#[pyfunction]
#[pyo3(signature = (a, /, *, stream=None))]
fn stop_gradient(a: &Any<'_>, stream: Option<crate::stream::StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.unwrap_or_default().enter();
    Ok(PyArray::new(oxmlx::ops::stop_gradient(&crate::args::array_like(a)?).or_raise()?))
}

/// Adds all of this to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    oxmlx::runtime::eval::set_interrupt_hook(crate::error::interrupted);
    m.add_function(wrap_pyfunction!(eval_, m)?)?;
    m.add_function(wrap_pyfunction!(async_eval, m)?)?;
    m.add_function(wrap_pyfunction!(grad, m)?)?;
    m.add_function(wrap_pyfunction!(value_and_grad, m)?)?;
    m.add_function(wrap_pyfunction!(vjp, m)?)?;
    m.add_function(wrap_pyfunction!(jvp, m)?)?;
    m.add_function(wrap_pyfunction!(vmap, m)?)?;
    m.add_function(wrap_pyfunction!(stop_gradient, m)?)
}
