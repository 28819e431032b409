//! How arrays print: MLX's own form, which doctests and programs depend on.
//!
//! Numbers follow the default of C++ streams (`%.6g`; `%.nf` where a precision is set), nested rows are indented below each other, and an axis
//! longer than six shows its first and last three elements.

use super::{PyArray, host};
use oxmlx::read::element;
use oxmlx::{Array, Dtype, Layout, Scalar};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::fmt::Write;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Digits after the point; negative means the default, six significant digits.
static PRECISION: AtomicI32 = AtomicI32::new(-1);

/// Elements shown at each end of an axis that is too long.
const EDGE: usize = 3;

/// A float in the form that is set.
fn float(v: f64) -> String {
    match usize::try_from(PRECISION.load(Relaxed)) {
        Ok(decimals) if v.is_finite() => format!("{v:.decimals$}"),
        _ => general(v, 6),
    }
}

/// A float as C's `%.{digits}g` writes it.
pub fn general(v: f64, digits: usize) -> String {
    if v.is_nan() {
        return "nan".into();
    }
    if v.is_infinite() {
        return if v > 0.0 { "inf" } else { "-inf" }.into();
    }
    let digits = digits.max(1);
    let scientific = format!("{:.*e}", digits - 1, v);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{v:.decimals$}")).to_owned()
}

/// Without zeros at the end of a fraction.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

fn write_scalar(out: &mut String, s: Scalar) {
    match s.dtype {
        Dtype::Bool => out.push_str(if s.to_bool() { "True" } else { "False" }),
        Dtype::Uint64 => {
            let _ = write!(out, "{}", s.bits);
        }
        Dtype::Complex64 => {
            let c = s.to_complex();
            let (re, im) = (f64::from(c.re), f64::from(c.im));
            let plus = if im >= 0.0 || im.is_nan() { "+" } else { "" };
            let _ = write!(out, "{}{plus}{}j", float(re), float(im));
        }
        d if d.is_floating() => out.push_str(&float(s.to_f64())),
        _ => {
            let _ = write!(out, "{}", s.to_i64());
        }
    }
}

/// Writes the part of an array below `axis` that begins at element `at`.
fn write_axis(out: &mut String, bytes: &[u8], dtype: Dtype, layout: &Layout, axis: usize, at: isize) {
    let Some(&n) = layout.shape.get(axis) else {
        write_scalar(out, element(bytes, at as usize, dtype));
        return;
    };
    let last = axis + 1 == layout.ndim();
    let separate = |out: &mut String| {
        out.push(',');
        if last {
            out.push(' ');
        } else {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', 7 + axis));
        }
    };
    out.push('[');
    let mut i = 0;
    while i < n {
        if i > 0 {
            separate(out);
        }
        if n > 2 * EDGE && i == EDGE {
            out.push_str("...");
            i = n - EDGE;
            continue;
        }
        write_axis(out, bytes, dtype, layout, axis + 1, at + i as isize * layout.strides[axis]);
        i += 1;
    }
    out.push(']');
}

/// The text of an array, which is evaluated.
pub fn text(py: Python<'_>, a: &Array) -> PyResult<String> {
    let mut out = String::from("array(");
    let (buffer, layout) = host(py, a)?;
    write_axis(&mut out, buffer.bytes(), a.dtype(), &layout, 0, layout.offset as isize);
    let _ = write!(out, ", dtype={})", a.dtype());
    Ok(out)
}

#[pymethods]
impl PyArray {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        text(py, &self.get())
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        text(py, &self.get())
    }

    /// The Python number formatted, for 0-d arrays. TypeError for a format of any other array.
    fn __format__(&self, py: Python<'_>, spec: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let a = self.get();
        if a.ndim() == 0 {
            let value = super::convert::item_object(py, &a)?;
            return Ok(value.bind(py).call_method1("__format__", (spec,))?.unbind());
        }
        if spec.is_truthy()? {
            return Err(PyTypeError::new_err("unsupported format string passed to array.__format__"));
        }
        Ok(text(py, &a)?.into_pyobject(py)?.into_any().unbind())
    }
}

/// No float has more digits after the point.
const MAX_PRECISION: i32 = 1100;

/// Sets how many digits after the point floats print with; a negative precision restores the default, six
/// significant digits.
#[pyfunction]
#[pyo3(signature = (precision=-1))]
fn set_printoptions(precision: i32) {
    PRECISION.store(precision.min(MAX_PRECISION), Relaxed);
}

/// A `with` block in which floats print with `precision` digits after the point.
#[pyclass(name = "printoptions", module = "oxmlx.core", frozen)]
pub struct PrintOptions {
    precision: i32,
    before: AtomicI32,
}

#[pymethods]
impl PrintOptions {
    #[new]
    #[pyo3(signature = (precision=-1))]
    fn new(precision: i32) -> PrintOptions {
        PrintOptions { precision: precision.min(MAX_PRECISION), before: AtomicI32::new(-1) }
    }

    fn __enter__(&self) {
        self.before.store(PRECISION.swap(self.precision, Relaxed), Relaxed);
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        PRECISION.store(self.before.load(Relaxed), Relaxed);
    }
}

/// Adds the functions that set the precision to a module.
pub fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PrintOptions>()?;
    m.add_function(wrap_pyfunction!(set_printoptions, m)?)
}
