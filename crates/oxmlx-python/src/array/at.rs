//! `x.at[idx].add(v)`: updates in which every occurrence of an index counts, as a new array.
//!
//! `x[idx] += v` reads once and writes once, so that a repeated index counts once; these do not.

use super::PyArray;
use super::assign::{Update, value, write};
use super::index::items;
use oxmlx::Array;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Waits for an index: `x.at[idx]`, then for what to do there.
#[pyclass(name = "ArrayAt", module = "oxmlx.core", frozen)]
pub struct ArrayAt {
    array: Array,
    key: Option<Py<PyAny>>,
}

impl ArrayAt {
    /// Updates of `array`.
    pub fn new(array: Array) -> ArrayAt {
        ArrayAt { array, key: None }
    }

    fn update(&self, v: &Bound<'_, PyAny>, update: Update) -> PyResult<PyArray> {
        let Some(key) = &self.key else {
            return Err(PyValueError::new_err("Must provide indices to array.at first: x.at[idx].add(v)."));
        };
        let converted = value(v, self.array.dtype())?;
        write(&self.array, &items(key.bind(v.py()))?, &converted, update).map(PyArray::new)
    }
}

#[pymethods]
impl ArrayAt {
    fn __getitem__(&self, key: Py<PyAny>) -> ArrayAt {
        ArrayAt { array: self.array.clone(), key: Some(key) }
    }

    /// `value` added.
    fn add(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.update(value, Update::Add)
    }

    /// `value` subtracted.
    fn subtract(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.update(value, Update::Subtract)
    }

    /// Multiplied by `value`.
    fn multiply(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.update(value, Update::Multiply)
    }

    /// Divided by `value`.
    fn divide(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.update(value, Update::Divide)
    }

    /// The larger of what is there and `value`.
    fn maximum(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.update(value, Update::Maximum)
    }

    /// The smaller of what is there and `value`.
    fn minimum(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.update(value, Update::Minimum)
    }
}
