//! Methods of arrays that are operations: each converts its arguments and calls the engine.

use super::{PyArray, convert};
use crate::args::{Axes, IntList, dtype_arg};
use crate::error::{OrRaise, raise};
use crate::stream::StreamArg;
use oxmlx::ops;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident $op:ident;)*) => {
        $(#[pymethods]
        impl PyArray {
            $(#[$doc])*
            #[pyo3(signature = (*, stream=StreamArg(None)))]
            fn $name(&self, stream: StreamArg) -> PyResult<PyArray> {
                let _scope = stream.enter();
                ops::$op(&self.get()).map(PyArray::new).map_err(raise)
            }
        })*
    };
}
unary_methods! {
    /// Absolute value of each element; same shape. See `abs`.
    abs abs;
    /// Complex conjugate of each element; same shape. See `conjugate`.
    conj conjugate;
    /// Cosine of each element; same shape. See `cos`.
    cos cos;
    /// Exponential of each element; same shape. See `exp`.
    exp exp;
    /// Natural logarithm of each element; same shape. See `log`.
    log log;
    /// Logarithm to base 10 of each element; same shape. See `log10`.
    log10 log10;
    /// log(1 + x) of each element; same shape. See `log1p`.
    log1p log1p;
    /// Logarithm to base 2 of each element; same shape. See `log2`.
    log2 log2;
    /// One over each element; same shape. See `reciprocal`.
    reciprocal reciprocal;
    /// One over the square root of each element; same shape. See `rsqrt`.
    rsqrt rsqrt;
    /// Sine of each element; same shape. See `sin`.
    sin sin;
    /// Square root of each element; same shape. See `sqrt`.
    sqrt sqrt;
    /// Square of each element; same shape. See `square`.
    square square;
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(#[pymethods]
        impl PyArray {
            $(#[$doc])*
            #[pyo3(signature = (axis=Axes(None), keepdims=false, *, stream=StreamArg(None)))]
            fn $name(&self, axis: Axes, keepdims: bool, stream: StreamArg) -> PyResult<PyArray> {
                let _scope = stream.enter();
                ops::$name(&self.get(), axis.0.as_deref(), keepdims).map(PyArray::new).map_err(raise)
            }
        })*
    };
}
reductions! {
    /// Whether all elements are true, along some axes or all. IndexError for a bad axis.
    all;
    /// Whether any element is true, along some axes or all. IndexError for a bad axis.
    any;
    /// The largest element along some axes or all. IndexError for a bad axis, ValueError for nothing.
    max;
    /// The mean along some axes or all. IndexError for a bad axis.
    mean;
    /// The smallest element along some axes or all. IndexError for a bad axis, ValueError for nothing.
    min;
    /// The product along some axes or all. IndexError for a bad axis.
    prod;
    /// The sum along some axes or all. IndexError for a bad axis.
    sum;
    /// log(sum(exp(x))) along some axes or all. IndexError for a bad axis, ValueError for nothing.
    logsumexp;
}

/// Axes or lengths given one by one or as one sequence.
fn spread(values: &Bound<'_, PyTuple>) -> PyResult<Vec<i64>> {
    match values.len() {
        1 => values.get_item(0)?.extract::<IntList>().map(|v| v.0),
        _ => values.extract::<IntList>().map(|v| v.0),
    }
}

#[pymethods]
impl PyArray {
    /// The only element as a Python number. ValueError unless there is just one.
    fn item(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        convert::item_object(py, &self.get())
    }

    /// Nested lists of Python numbers, or a number for 0-d arrays.
    fn tolist(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        convert::to_list(py, &self.get())
    }

    /// The elements as another type; same shape. TypeError unless `dtype` is a Dtype.
    #[pyo3(signature = (dtype, stream=StreamArg(None)))]
    fn astype(&self, dtype: &Bound<'_, PyAny>, stream: StreamArg) -> PyResult<PyArray> {
        let _scope = stream.enter();
        let Some(dtype) = dtype_arg(Some(dtype))? else {
            return Err(PyTypeError::new_err(
                "astype(): incompatible function arguments: dtype must be a Dtype.",
            ));
        };
        ops::astype(&self.get(), dtype).map(PyArray::new).map_err(raise)
    }

    /// Index of the largest element along an axis, or in the flattened array. ValueError for nothing.
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=StreamArg(None)))]
    fn argmax(&self, axis: Option<i64>, keepdims: bool, stream: StreamArg) -> PyResult<PyArray> {
        let _scope = stream.enter();
        ops::argmax(&self.get(), axis, keepdims).map(PyArray::new).map_err(raise)
    }

    /// Index of the smallest element along an axis, or in the flattened array. ValueError for nothing.
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=StreamArg(None)))]
    fn argmin(&self, axis: Option<i64>, keepdims: bool, stream: StreamArg) -> PyResult<PyArray> {
        let _scope = stream.enter();
        ops::argmin(&self.get(), axis, keepdims).map(PyArray::new).map_err(raise)
    }

    /// Axes `start_axis` to `end_axis` made one.
    #[pyo3(signature = (start_axis=0, end_axis=-1, *, stream=StreamArg(None)))]
    fn flatten(&self, start_axis: i64, end_axis: i64, stream: StreamArg) -> PyResult<PyArray> {
        let _scope = stream.enter();
        ops::flatten(&self.get(), start_axis, end_axis).map(PyArray::new).map_err(raise)
    }

    /// One axis moved to another place. IndexError for a bad axis.
    #[pyo3(signature = (source, destination, *, stream=StreamArg(None)))]
    fn moveaxis(&self, source: i64, destination: i64, stream: StreamArg) -> PyResult<PyArray> {
        let _scope = stream.enter();
        ops::moveaxis(&self.get(), source, destination).map(PyArray::new).map_err(raise)
    }

    /// The same elements under another shape; one length may be -1. ValueError if they do not fit.
    #[pyo3(signature = (*shape, stream=StreamArg(None)))]
    fn reshape(&self, shape: &Bound<'_, PyTuple>, stream: StreamArg) -> PyResult<PyArray> {
        let _scope = stream.enter();
        ops::reshape(&self.get(), &spread(shape)?).map(PyArray::new).map_err(raise)
    }

    /// Rounded to `decimals` places, halves to even; same shape.
    #[pyo3(signature = (decimals=0, *, stream=StreamArg(None)))]
    fn round(&self, decimals: i32, stream: StreamArg) -> PyResult<PyArray> {
        let _scope = stream.enter();
        ops::round_to(&self.get(), decimals).map(PyArray::new).map_err(raise)
    }

    /// Equal parts along an axis, or parts that begin at the given indices. ValueError for uneven parts.
    #[pyo3(signature = (indices_or_sections, axis=0, *, stream=StreamArg(None)))]
    fn split(
        &self,
        py: Python<'_>,
        indices_or_sections: &Bound<'_, PyAny>,
        axis: i64,
        stream: StreamArg,
    ) -> PyResult<Py<PyList>> {
        let _scope = stream.enter();
        let a = self.get();
        let parts = match indices_or_sections.extract::<i64>() {
            Ok(count) => ops::split(&a, count, axis),
            Err(_) => ops::split_at(&a, &indices_or_sections.extract::<IntList>()?.0, axis),
        };
        convert::list_of(py, parts.or_raise()?)
    }

    /// Without axes of length 1: the given ones or all. ValueError for longer axes.
    #[pyo3(signature = (axis=Axes(None), *, stream=StreamArg(None)))]
    fn squeeze(&self, axis: Axes, stream: StreamArg) -> PyResult<PyArray> {
        let _scope = stream.enter();
        ops::squeeze(&self.get(), axis.0.as_deref()).map(PyArray::new).map_err(raise)
    }

    /// The standard deviation along some axes or all, with `ddof` (or `correction`) taken from the count.
    #[pyo3(signature = (axis=Axes(None), keepdims=false, ddof=0, *, correction=None, stream=StreamArg(None)))]
    fn std(
        &self,
        axis: Axes,
        keepdims: bool,
        ddof: i64,
        correction: Option<i64>,
        stream: StreamArg,
    ) -> PyResult<PyArray> {
        let _scope = stream.enter();
        let ddof = correction.unwrap_or(ddof);
        ops::std(&self.get(), axis.0.as_deref(), keepdims, ddof).map(PyArray::new).map_err(raise)
    }

    /// The variance along some axes or all, with `ddof` (or `correction`) taken from the count.
    #[pyo3(signature = (axis=Axes(None), keepdims=false, ddof=0, *, correction=None, stream=StreamArg(None)))]
    fn var(
        &self,
        axis: Axes,
        keepdims: bool,
        ddof: i64,
        correction: Option<i64>,
        stream: StreamArg,
    ) -> PyResult<PyArray> {
        let _scope = stream.enter();
        let ddof = correction.unwrap_or(ddof);
        ops::var(&self.get(), axis.0.as_deref(), keepdims, ddof).map(PyArray::new).map_err(raise)
    }

    /// Two axes exchanged. IndexError for a bad axis.
    #[pyo3(signature = (axis1, axis2, *, stream=StreamArg(None)))]
    fn swapaxes(&self, axis1: i64, axis2: i64, stream: StreamArg) -> PyResult<PyArray> {
        let _scope = stream.enter();
        ops::swapaxes(&self.get(), axis1, axis2).map(PyArray::new).map_err(raise)
    }

    /// The axes in another order, reversed without one. IndexError for a bad axis.
    #[pyo3(signature = (*axes, stream=StreamArg(None)))]
    fn transpose(&self, axes: &Bound<'_, PyTuple>, stream: StreamArg) -> PyResult<PyArray> {
        let _scope = stream.enter();
        let none = axes.is_empty() || (axes.len() == 1 && axes.get_item(0)?.is_none());
        let axes = if none { None } else { Some(spread(axes)?) };
        ops::transpose(&self.get(), axes.as_deref()).map(PyArray::new).map_err(raise)
    }
}

#[pymethods]
impl PyArray {
    /// The same bytes as elements of another dtype. See `view`.
    #[pyo3(signature = (dtype, *, stream=StreamArg(None)))]
    fn view(&self, dtype: &Bound<'_, PyAny>, stream: StreamArg) -> PyResult<PyArray> {
        let _scope = stream.enter();
        let a = self.get();
        let to = dtype_arg(Some(dtype))?.unwrap_or(a.dtype());
        ops::bitcast(&a, to).map(PyArray::new).map_err(raise)
    }

    /// The k-th diagonals of the planes of two axes. See `diagonal`.
    #[pyo3(signature = (offset=0, axis1=0, axis2=1, *, stream=StreamArg(None)))]
    fn diagonal(&self, offset: i64, axis1: i64, axis2: i64, stream: StreamArg) -> PyResult<PyArray> {
        let _scope = stream.enter();
        ops::diagonal(&self.get(), offset, axis1, axis2).map(PyArray::new).map_err(raise)
    }

    /// A matrix with this vector as its diagonal, or this matrix's diagonal. See `diag`.
    #[pyo3(signature = (k=0, *, stream=StreamArg(None)))]
    fn diag(&self, k: i64, stream: StreamArg) -> PyResult<PyArray> {
        let _scope = stream.enter();
        ops::diag(&self.get(), k).map(PyArray::new).map_err(raise)
    }
}
