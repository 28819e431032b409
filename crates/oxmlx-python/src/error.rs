//! Errors of the engine as Python exceptions: one place that maps kinds to classes.
//!
//! Programs written for MLX catch the builtin classes, and different versions of MLX raise different ones
//! for the same mistake; the classes made here derive from both, so that either handler catches them.

use oxmlx::{Error, ErrorKind};
use pyo3::exceptions::{
    PyIndexError, PyKeyboardInterrupt, PyMemoryError, PyNotImplementedError, PyOSError, PyRuntimeError,
    PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

static INTERRUPTION: parking_lot::Mutex<Option<PyErr>> = parking_lot::Mutex::new(None);

/// Whether a signal's handler raised; what it raised is kept for the eval that it ends.
pub fn interrupted() -> bool {
    let raised = Python::try_attach(|py| py.check_signals().err()).flatten();
    let is = raised.is_some();
    if is {
        *INTERRUPTION.lock() = raised;
    }
    is
}

/// Exception classes of the package.
pub struct Classes {
    /// IndexError and ValueError: an axis that the array does not have.
    pub axis: Py<PyType>,
    /// NotImplementedError (a RuntimeError): not available for this combination.
    pub unsupported: Py<PyType>,
    /// OSError and RuntimeError: a file that cannot be read or written.
    pub file: Py<PyType>,
    /// MemoryError and RuntimeError: memory is exhausted.
    pub out_of_memory: Py<PyType>,
}

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

fn derive(py: Python<'_>, name: &str, doc: &str, bases: Vec<Bound<'_, PyType>>) -> PyResult<Py<PyType>> {
    let dict = PyDict::new(py);
    dict.set_item("__module__", "oxmlx")?;
    dict.set_item("__doc__", doc)?;
    let bases = pyo3::types::PyTuple::new(py, bases)?;
    let class = py.get_type::<PyType>().call1((name, bases, dict))?;
    Ok(class.cast_into::<PyType>()?.unbind())
}

/// The package's exception classes, made on first use.
pub fn classes(py: Python<'_>) -> PyResult<&'static Classes> {
    CLASSES.get_or_try_init(py, || {
        let runtime = py.get_type::<PyRuntimeError>();
        Ok(Classes {
            axis: derive(
                py,
                "AxisError",
                "An axis that the array does not have.",
                vec![py.get_type::<PyIndexError>(), py.get_type::<PyValueError>()],
            )?,
            unsupported: derive(
                py,
                "UnsupportedError",
                "An operation that is not available for this combination.",
                vec![py.get_type::<PyNotImplementedError>()],
            )?,
            file: derive(
                py,
                "FileError",
                "A file that cannot be read or written.",
                vec![py.get_type::<PyOSError>(), runtime.clone()],
            )?,
            out_of_memory: derive(
                py,
                "OutOfMemoryError",
                "Memory is exhausted, also after cached blocks were given back.",
                vec![py.get_type::<PyMemoryError>(), runtime],
            )?,
        })
    })
}

/// Adds the exception classes to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let all = classes(m.py())?;
    for class in [&all.axis, &all.unsupported, &all.file, &all.out_of_memory] {
        let class = class.bind(m.py());
        m.add(class.name()?, class)?;
    }
    Ok(())
}

/// The Python exception for an error of the engine.
pub fn raise(e: Error) -> PyErr {
    let text = e.to_string();
    let own = |pick: fn(&Classes) -> &Py<PyType>| {
        Python::attach(|py| match classes(py) {
            Ok(all) => PyErr::from_type(pick(all).bind(py).clone(), text.clone()),
            Err(failed) => failed,
        })
    };
    match e.kind {
        ErrorKind::InvalidArgument => PyValueError::new_err(text),
        ErrorKind::Type => PyTypeError::new_err(text),
        ErrorKind::OutOfRange => PyIndexError::new_err(text),
        // What the signal's handler raised, mostly KeyboardInterrupt.
        ErrorKind::Interrupted => {
            INTERRUPTION.lock().take().unwrap_or_else(|| PyKeyboardInterrupt::new_err(text))
        }
        ErrorKind::Backend => PyRuntimeError::new_err(text),
        ErrorKind::Axis => own(|c| &c.axis),
        ErrorKind::Unsupported => own(|c| &c.unsupported),
        ErrorKind::Io => own(|c| &c.file),
        ErrorKind::OutOfMemory => own(|c| &c.out_of_memory),
    }
}

/// `?` from the engine's results to Python's.
pub trait OrRaise<T> {
    /// The value, or the Python exception for the error.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Error> {
    #[inline]
    fn or_raise(self) -> PyResult<T> {
        self.map_err(raise)
    }
}
