//! Python values as arguments of operations: operands, weak scalars, axes, shapes and element types.
//!
//! The rules for mixed operands live here once: a Python number takes the dtype of the array beside it, a
//! numpy value is cast to it, and only two arrays promote.

use crate::array::{PyArray, convert};
use crate::dtype::PyDtype;
use oxmlx::{Array, Dtype, Scalar};
use pyo3::Borrowed;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyComplexMethods, PyFloat, PyInt, PyString};

/// A Python number.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
}

impl Number {
    /// The type that an array of just this number has.
    pub fn dtype(self) -> Dtype {
        match self {
            Number::Bool(_) => Dtype::Bool,
            Number::Int(v) if i32::try_from(v).is_err() => Dtype::Int64,
            Number::Int(_) => Dtype::Int32,
            Number::Float(_) => Dtype::Float32,
            Number::Complex(..) => Dtype::Complex64,
        }
    }

    /// Converted as a C cast does: integers wrap, fractions are dropped.
    pub fn to_scalar(self, dtype: Dtype) -> Scalar {
        match self {
            Number::Bool(v) => Scalar::from_i64(v.into(), dtype),
            Number::Int(v) => Scalar::from_i64(v, dtype),
            Number::Float(v) => Scalar::from_f64(v, dtype),
            Number::Complex(re, im) => Scalar::from_complex(re, im, dtype),
        }
    }

    /// As an operand beside an array of type `beside`.
    ///
    /// # Errors
    /// ValueError for an int that an integer type of less than 8 bytes cannot hold.
    pub fn beside(self, beside: Dtype) -> PyResult<Array> {
        self.fitting(beside.promote_weak(self.dtype()))
    }

    /// As `dtype`, where ints that do not fit are refused.
    pub fn fitting(self, dtype: Dtype) -> PyResult<Array> {
        if let Number::Int(v) = self
            && dtype.is_integer()
            && dtype.size() < 8
        {
            let (low, high) = int_range(dtype);
            if !(low..=high).contains(&v.into()) {
                let message = format!("Converting {v} to {dtype} would result in overflow.");
                return Err(PyValueError::new_err(message));
            }
        }
        Ok(Array::scalar(self.to_scalar(dtype)))
    }
}

/// Least and greatest value of an integer type.
pub fn int_range(dtype: Dtype) -> (i128, i128) {
    let bits = dtype.size() as u32 * 8;
    if dtype.is_unsigned() { (0, (1 << bits) - 1) } else { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) }
}

/// The Python number that an object is, if it is one.
///
/// # Errors
/// RuntimeError for ints outside int64, as in MLX.
#[inline]
pub fn number(obj: &Bound<'_, PyAny>) -> PyResult<Option<Number>> {
    if let Ok(v) = obj.cast::<PyFloat>() {
        return Ok(Some(Number::Float(v.value())));
    }
    if obj.is_instance_of::<PyInt>() {
        if let Ok(v) = obj.cast::<PyBool>() {
            return Ok(Some(Number::Bool(v.is_true())));
        }
        return match obj.extract::<i64>() {
            Ok(v) => Ok(Some(Number::Int(v))),
            Err(_) => Err(PyRuntimeError::new_err("std::bad_cast: the integer does not fit in 64 bits.")),
        };
    }
    if let Ok(v) = obj.cast::<PyComplex>() {
        return Ok(Some(Number::Complex(v.real(), v.imag())));
    }
    Ok(None)
}

/// What an operand is, which decides whose dtype counts.
pub enum Operand {
    /// An array: promotes.
    Array(Array),
    /// A Python number: takes the other operand's dtype if its kind allows.
    Number(Number),
    /// A numpy value: is cast to the other operand's dtype.
    Foreign(Array),
}

/// Sorts an object into the kinds of operands; `None` for what is no operand at all.
pub fn operand(obj: &Bound<'_, PyAny>) -> PyResult<Option<Operand>> {
    if let Ok(a) = obj.cast::<PyArray>() {
        return Ok(Some(Operand::Array(a.get().get())));
    }
    if let Some(n) = number(obj)? {
        return Ok(Some(Operand::Number(n)));
    }
    if obj.is_none() || obj.is_instance_of::<PyString>() {
        return Ok(None);
    }
    if let Some(a) = convert::protocol(obj)? {
        return Ok(Some(Operand::Array(a)));
    }
    if convert::is_foreign(obj)? {
        return match convert::foreign(obj, None) {
            Ok(a) => Ok(Some(Operand::Foreign(a))),
            // Its elements are no numbers, so it is no operand; exhausted memory is another matter.
            Err(e) if e.get_type(obj.py()).is(obj.py().get_type::<PyRuntimeError>()) => Ok(None),
            Err(e) => Err(e),
        };
    }
    Ok(None)
}

/// The refusal of an object that is no operand: TypeError for None, ValueError for the rest.
fn refuse(obj: &Bound<'_, PyAny>) -> PyErr {
    if obj.is_none() {
        return PyTypeError::new_err("incompatible function arguments: expected an array, got None.");
    }
    convert::invalid_type(obj)
}

/// An object as an array: arrays, Python and numpy numbers, numpy arrays, objects with `__mlx_array__`.
///
/// # Errors
/// ValueError for lists and other types, TypeError for None.
#[inline]
pub fn array_like(obj: &Bound<'_, PyAny>) -> PyResult<Array> {
    match operand(obj)? {
        Some(Operand::Array(a) | Operand::Foreign(a)) => Ok(a),
        Some(Operand::Number(n)) => Ok(Array::scalar(n.to_scalar(n.dtype()))),
        None => Err(refuse(obj)),
    }
}

/// Two operands of a binary function, each converted beside the other.
///
/// # Errors
/// ValueError for lists, other types and ints that do not fit; TypeError for None.
#[inline]
pub fn pair(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>, _op: &str) -> PyResult<(Array, Array)> {
    if let (Ok(x), Ok(y)) = (a.cast::<PyArray>(), b.cast::<PyArray>()) {
        return Ok((x.get().get(), y.get().get()));
    }
    let x = operand(a)?.ok_or_else(|| refuse(a))?;
    let y = operand(b)?.ok_or_else(|| refuse(b))?;
    // Beside a Python number a numpy value counts as an array.
    let side = |o: &Operand| match o {
        Operand::Array(a) => (Some(a.dtype()), true),
        Operand::Foreign(a) => (Some(a.dtype()), false),
        Operand::Number(_) => (None, false),
    };
    let ((dx, strong_x), (dy, strong_y)) = (side(&x), side(&y));
    Ok((settle(x, dy, strong_y)?, settle(y, dx, strong_x)?))
}

/// An operand beside one of dtype `beside`; `strong` says that the other is an array of ours.
fn settle(o: Operand, beside: Option<Dtype>, strong: bool) -> PyResult<Array> {
    match (o, beside) {
        (Operand::Number(n), Some(d)) => n.beside(d),
        (Operand::Number(n), None) => Ok(Array::scalar(n.to_scalar(n.dtype()))),
        (Operand::Foreign(a), Some(d)) if strong => oxmlx::ops::astype(&a, d).map_err(crate::error::raise),
        (Operand::Array(a) | Operand::Foreign(a), _) => Ok(a),
    }
}

/// An operand beside an array of dtype `beside`; `None` for what is no operand.
///
/// # Errors
/// ValueError for ints that do not fit.
#[inline]
pub fn weak(obj: &Bound<'_, PyAny>, beside: Dtype) -> PyResult<Option<Array>> {
    if let Ok(a) = obj.cast::<PyArray>() {
        return Ok(Some(a.get().get()));
    }
    operand(obj)?.map(|o| settle(o, Some(beside), true)).transpose()
}

/// An integer, from anything with `__index__`.
fn integer(obj: &Bound<'_, PyAny>) -> PyResult<i64> {
    obj.extract::<i64>()
}

/// Integers of a sequence.
fn integers(obj: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    if obj.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("expected an integer or a sequence of integers, got str"));
    }
    obj.try_iter()?.map(|item| integer(&item?)).collect()
}

/// An int or a sequence of ints.
fn one_or_many(obj: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    if obj.is_instance_of::<PyInt>() {
        return Ok(vec![integer(obj)?]);
    }
    if obj.is_instance_of::<pyo3::types::PyTuple>() || obj.is_instance_of::<pyo3::types::PyList>() {
        return integers(obj);
    }
    integer(obj).map(|v| vec![v]).or_else(|_| integers(obj)).map_err(|_| {
        let name = obj.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string());
        PyTypeError::new_err(format!("expected an integer or a sequence of integers, got {name}"))
    })
}

/// Axes of a reduction: None (all), an int, or a sequence of ints.
#[derive(Clone, Debug, Default)]
pub struct Axes(pub Option<Vec<i64>>);

impl<'a, 'py> FromPyObject<'a, 'py> for Axes {
    type Error = PyErr;

    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if obj.is_none() { Ok(Axes(None)) } else { one_or_many(&obj).map(|v| Axes(Some(v))) }
    }
}

/// An int or a sequence of ints.
#[derive(Clone, Debug, Default)]
pub struct IntList(pub Vec<i64>);

impl<'a, 'py> FromPyObject<'a, 'py> for IntList {
    type Error = PyErr;

    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        one_or_many(&obj).map(IntList)
    }
}

/// A shape: an int or a sequence of ints.
///
/// # Errors
/// ValueError for negative lengths.
pub fn shape_arg(obj: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let sizes = one_or_many(obj)?;
    let fit = |&n: &i64| {
        usize::try_from(n).map_err(|_| {
            PyValueError::new_err(format!(
                "Negative dimensions are not allowed: the shape has a length of {n}."
            ))
        })
    };
    sizes.iter().map(fit).collect()
}

/// An optional element type.
///
/// # Errors
/// TypeError for anything but a Dtype or None.
pub fn dtype_arg(obj: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Dtype>> {
    match obj {
        None => Ok(None),
        Some(o) if o.is_none() => Ok(None),
        Some(o) => match o.cast::<PyDtype>() {
            Ok(d) => Ok(Some(d.get().0)),
            Err(_) => {
                let name = o.get_type().name()?;
                Err(PyTypeError::new_err(format!(
                    "incompatible function arguments: dtype must be a Dtype, not {name}."
                )))
            }
        },
    }
}
