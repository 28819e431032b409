//! Python's operators on arrays.
//!
//! Two arrays take the short way: no conversion, no message, nothing allocated but the result. All else goes
//! through the rules for mixed operands.

// The glue that pyo3 generates inside our macro is unsafe and not ours to annotate.
#![allow(unsafe_op_in_unsafe_fn)]

use super::{PyArray, convert, item, wrap};
use crate::args;
use crate::error::{OrRaise, raise};
use oxmlx::{Array, Dtype, ops};
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

type Binary = fn(&Array, &Array) -> oxmlx::Result<Array>;

/// The other operand, converted beside `a`.
///
/// # Errors
/// TypeError for None, ValueError naming the operation for all else that is no operand.
fn other(a: &Array, obj: &Bound<'_, PyAny>, verb: &str) -> PyResult<Array> {
    if let Some(b) = args::weak(obj, a.dtype())? {
        return Ok(b);
    }
    if obj.is_none() {
        return Err(PyTypeError::new_err(format!(
            "incompatible function arguments: {verb} of an array and None."
        )));
    }
    let name = obj.get_type().name()?;
    Err(PyValueError::new_err(format!("Cannot perform {verb} on an mlx.core.array and {name}")))
}

#[inline]
fn forward(slf: &PyArray, obj: &Bound<'_, PyAny>, verb: &str, op: Binary) -> PyResult<PyArray> {
    let a = slf.get();
    let made = match obj.cast::<PyArray>() {
        Ok(b) => op(&a, &b.get().get()),
        Err(_) => op(&a, &other(&a, obj, verb)?),
    };
    made.map(PyArray::new).map_err(raise)
}

#[inline]
fn reflected(slf: &PyArray, obj: &Bound<'_, PyAny>, verb: &str, op: Binary) -> PyResult<PyArray> {
    let a = slf.get();
    op(&other(&a, obj, verb)?, &a).map(PyArray::new).map_err(raise)
}

#[inline]
fn in_place(slf: &PyArray, obj: &Bound<'_, PyAny>, verb: &str, op: Binary) -> PyResult<()> {
    let a = slf.get();
    let made = match obj.cast::<PyArray>() {
        Ok(b) => op(&a, &b.get().get()),
        Err(_) => op(&a, &other(&a, obj, verb)?),
    };
    slf.set(made.or_raise()?);
    Ok(())
}

macro_rules! operators {
    ($($verb:literal $op:ident: $forward:ident $reflected:ident $in_place:ident;)*) => {
        $(#[pymethods]
        impl PyArray {
            fn $forward(&self, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
                forward(self, other, $verb, ops::$op)
            }
            fn $reflected(&self, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
                reflected(self, other, $verb, ops::$op)
            }
            fn $in_place(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
                in_place(self, other, $verb, ops::$op)
            }
        })*
    };
}
operators! {
    "addition" add: __add__ __radd__ __iadd__;
    "subtraction" subtract: __sub__ __rsub__ __isub__;
    "multiplication" multiply: __mul__ __rmul__ __imul__;
    "floor division" floor_divide: __floordiv__ __rfloordiv__ __ifloordiv__;
    "modulus" remainder: __mod__ __rmod__ __imod__;
    "bitwise and" bitwise_and: __and__ __rand__ __iand__;
    "bitwise or" bitwise_or: __or__ __ror__ __ior__;
    "bitwise xor" bitwise_xor: __xor__ __rxor__ __ixor__;
    "left shift" left_shift: __lshift__ __rlshift__ __ilshift__;
    "right shift" right_shift: __rshift__ __rrshift__ __irshift__;
}

/// Only arrays can be multiplied as matrices.
fn matrix<'a>(obj: &'a Bound<'_, PyAny>) -> PyResult<&'a PyArray> {
    obj.cast::<PyArray>().map(|b| b.get()).map_err(|_| {
        PyTypeError::new_err(
            "__matmul__(): incompatible function arguments: the other operand must be an array.",
        )
    })
}

#[pymethods]
impl PyArray {
    fn __truediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        forward(self, other, "division", ops::divide)
    }

    fn __rtruediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        reflected(self, other, "division", ops::divide)
    }

    /// ValueError for integers, whose quotient would be of another type.
    fn __itruediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        if !self.get().dtype().is_inexact() {
            return Err(PyValueError::new_err("In place division cannot be performed on integer arrays."));
        }
        in_place(self, other, "division", ops::divide)
    }

    fn __pow__(&self, other: &Bound<'_, PyAny>, _modulo: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        forward(self, other, "power", ops::power)
    }

    fn __rpow__(&self, other: &Bound<'_, PyAny>, _modulo: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        reflected(self, other, "power", ops::power)
    }

    fn __ipow__(&self, other: &Bound<'_, PyAny>, _modulo: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, other, "power", ops::power)
    }

    fn __matmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        ops::matmul(&self.get(), &matrix(other)?.get()).map(PyArray::new).map_err(raise)
    }

    fn __imatmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(ops::matmul(&self.get(), &matrix(other)?.get()).or_raise()?);
        Ok(())
    }

    fn __neg__(&self) -> PyResult<PyArray> {
        ops::negative(&self.get()).map(PyArray::new).map_err(raise)
    }

    fn __pos__(&self) -> PyArray {
        PyArray::new(self.get())
    }

    fn __abs__(&self) -> PyResult<PyArray> {
        ops::abs(&self.get()).map(PyArray::new).map_err(raise)
    }

    fn __invert__(&self) -> PyResult<PyArray> {
        ops::bitwise_invert(&self.get()).map(PyArray::new).map_err(raise)
    }

    /// Element by element. `==` and `!=` with what is no operand are False and True.
    fn __richcmp__(&self, py: Python<'_>, obj: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let (verb, f): (&str, Binary) = match op {
            CompareOp::Lt => ("less than", ops::less),
            CompareOp::Le => ("less than or equal", ops::less_equal),
            CompareOp::Eq => ("equal", ops::equal),
            CompareOp::Ne => ("not equal", ops::not_equal),
            CompareOp::Gt => ("greater than", ops::greater),
            CompareOp::Ge => ("greater than or equal", ops::greater_equal),
        };
        if matches!(op, CompareOp::Eq | CompareOp::Ne) && !obj.is_none() && !obj.is_instance_of::<PyArray>() {
            let a = self.get();
            return match args::weak(obj, a.dtype())? {
                Some(b) => Ok(wrap(py, f(&a, &b).or_raise()?)?.into_any()),
                None => Ok(matches!(op, CompareOp::Ne).into_pyobject(py)?.to_owned().into_any().unbind()),
            };
        }
        Ok(Py::new(py, forward(self, obj, verb, f)?)?.into_any())
    }

    /// By identity, since comparison is element by element.
    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        (slf.as_ptr() as usize >> 4) as isize
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(item(py, &self.get())?.to_bool())
    }

    fn __int__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let value = convert::item_object(py, &self.get())?;
        Ok(py.get_type::<pyo3::types::PyInt>().call1((value,))?.unbind())
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        convert::item_object(py, &self.get())?.extract(py)
    }

    fn __complex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyComplex>> {
        let c = item(py, &self.get())?;
        let im = if c.dtype == Dtype::Complex64 { f64::from(c.to_complex().im) } else { 0.0 };
        Ok(pyo3::types::PyComplex::from_doubles(py, c.to_f64(), im))
    }

    /// For 0-d integers only. TypeError for all else.
    fn __index__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let a = self.get();
        if a.ndim() > 0 || a.dtype().is_inexact() || a.dtype() == Dtype::Bool {
            return Err(PyTypeError::new_err(
                "Only 0-dimensional integer arrays can be converted to an index.",
            ));
        }
        convert::item_object(py, &a)
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.get().shape().first().copied();
        first.ok_or_else(|| PyTypeError::new_err("len() 0-dimensional array."))
    }

    fn __iter__(&self) -> PyResult<ArrayIterator> {
        let array = self.get();
        if array.ndim() == 0 {
            return Err(PyTypeError::new_err("iter() 0-dimensional array."));
        }
        Ok(ArrayIterator { array, next: 0.into() })
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let a = self.get();
        Ok(PyBytes::new(py, &py.detach(|| a.to_bytes()).or_raise()?))
    }

    fn __copy__(&self) -> PyArray {
        PyArray::new(self.get())
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> PyArray {
        PyArray::new(self.get())
    }

    fn __getstate__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        convert::to_state(py, &self.get())
    }

    fn __setstate__(&self, state: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.set(convert::from_state(state)?);
        Ok(())
    }

    /// Pickled as an array of any value that then gets its state.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let state = slf.get().__getstate__(py)?;
        let new = py.import("copyreg")?.getattr("__newobj__")?;
        Ok((new, (slf.get_type(), 0), state).into_pyobject(py)?.into_any())
    }

    /// A numpy array, as numpy asks for it; bfloat16 has none (TypeError).
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if slf.get().get().dtype() == Dtype::Bfloat16 {
            return Err(PyTypeError::new_err("bfloat16 arrays cannot be converted to NumPy."));
        }
        let view = py.get_type::<pyo3::types::PyMemoryView>().call1((slf,))?;
        let keywords = PyDict::new(py);
        if let Some(d) = dtype {
            keywords.set_item("dtype", d)?;
        }
        let copied = copy.is_some_and(|c| c.is_truthy().unwrap_or(false));
        let function = if copied { "array" } else { "asarray" };
        py.import("numpy")?.call_method(function, (view,), Some(&keywords))
    }

    /// The module with the functions on arrays.
    #[pyo3(signature = (api_version=None))]
    fn __array_namespace__<'py>(
        &self,
        py: Python<'py>,
        api_version: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyModule>> {
        let _ = api_version;
        py.import("oxmlx.core")
    }
}

/// Iterates over the first axis.
#[pyclass(module = "oxmlx.core", frozen)]
pub struct ArrayIterator {
    array: Array,
    next: std::sync::atomic::AtomicUsize,
}

#[pymethods]
impl ArrayIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self) -> PyResult<Option<PyArray>> {
        let i = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if i >= self.array.shape()[0] {
            return Ok(None);
        }
        super::index::row(&self.array, i).map(|a| Some(PyArray::new(a)))
    }
}
