//! Devices and streams as Python sees them.

use crate::error::OrRaise;
use oxmlx::runtime::{eval, stream};
use oxmlx::{Device, DeviceKind, Stream};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A kind of device: cpu or gpu.
#[pyclass(frozen, name = "DeviceType", module = "mlx.core", from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PyDeviceType(pub DeviceKind);

#[pymethods]
impl PyDeviceType {
    fn __repr__(&self) -> &'static str {
        match self.0 {
            DeviceKind::Cpu => "DeviceType.cpu",
            DeviceKind::Gpu => "DeviceType.gpu",
        }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        device_of(other).is_some_and(|d| d == Device { kind: self.0, index: 0 })
    }

    fn __hash__(&self) -> u64 {
        hash(&Device { kind: self.0, index: 0 })
    }
}

/// One device: `Device(type, index=0)`.
#[pyclass(frozen, name = "Device", module = "mlx.core", from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PyDevice(pub Device);

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (r#type, index=0))]
    fn new(r#type: PyDeviceType, index: u16) -> Self {
        PyDevice(Device { kind: r#type.0, index })
    }

    /// The kind of device.
    #[getter]
    fn r#type(&self) -> PyDeviceType {
        PyDeviceType(self.0.kind)
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        device_of(other).is_some_and(|d| d == self.0)
    }

    fn __hash__(&self) -> u64 {
        hash(&self.0)
    }
}

/// A sequence of work on one device.
#[pyclass(frozen, name = "Stream", module = "mlx.core", from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PyStream(pub Stream);

#[pymethods]
impl PyStream {
    /// Where it runs.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice(self.0.device)
    }

    /// Its number.
    #[getter]
    fn index(&self) -> u32 {
        self.0.index
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyStream>().is_ok_and(|s| s.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        hash(&self.0)
    }
}

fn hash(of: &impl Hash) -> u64 {
    let mut h = DefaultHasher::new();
    of.hash(&mut h);
    h.finish()
}

fn device_of(obj: &Bound<'_, PyAny>) -> Option<Device> {
    if let Ok(d) = obj.cast::<PyDevice>() {
        return Some(d.get().0);
    }
    obj.cast::<PyDeviceType>().ok().map(|t| Device { kind: t.get().0, index: 0 })
}

/// Where an operation shall run: a stream, a device, a kind of device, or None for the default.
#[derive(Clone, Copy, Default)]
pub struct StreamArg(pub Option<Stream>);

impl<'a, 'py> FromPyObject<'a, 'py> for StreamArg {
    type Error = PyErr;

    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let obj: &Bound<'py, PyAny> = &obj;
        if obj.is_none() {
            return Ok(StreamArg(None));
        }
        if let Ok(s) = obj.cast::<PyStream>() {
            return Ok(StreamArg(Some(s.get().0)));
        }
        match device_of(obj) {
            Some(d) => {
                oxmlx::backend::backend(d).or_raise()?;
                Ok(StreamArg(Some(stream::default_stream(d))))
            }
            None => Err(PyTypeError::new_err("stream must be a Stream, a Device, a DeviceType or None.")),
        }
    }
}

impl StreamArg {
    /// Sends new nodes there while the scope lives.
    pub fn enter(&self) -> Option<stream::Scope> {
        self.0.map(stream::scope)
    }
}

/// What `with mx.stream(s)` holds.
#[pyclass(name = "StreamContext", module = "mlx.core", unsendable)]
pub struct StreamContext {
    arg: StreamArg,
    scopes: Vec<stream::Scope>,
}

#[pymethods]
impl StreamContext {
    fn __enter__(&mut self) {
        self.scopes.extend(self.arg.enter());
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&mut self, _args: &Bound<'_, pyo3::types::PyTuple>) {
        self.scopes.pop();
    }
}

#[pyfunction(name = "stream")]
fn stream_context(s: StreamArg) -> StreamContext {
    StreamContext { arg: s, scopes: Vec::new() }
}

/// The device that new work goes to.
#[pyfunction]
fn default_device() -> PyDevice {
    PyDevice(stream::default_device())
}

/// Sends new work to another device. ValueError if it does not exist.
#[pyfunction]
fn set_default_device(device: &Bound<'_, PyAny>) -> PyResult<()> {
    let d = device_of(device)
        .ok_or_else(|| PyTypeError::new_err("set_default_device takes a Device or DeviceType."))?;
    stream::set_default_device(d).or_raise()
}

/// This thread's default stream on a device.
#[pyfunction]
fn default_stream(device: &Bound<'_, PyAny>) -> PyResult<PyStream> {
    let d = device_of(device)
        .ok_or_else(|| PyTypeError::new_err("default_stream takes a Device or DeviceType."))?;
    oxmlx::backend::backend(d).or_raise()?;
    Ok(PyStream(stream::default_stream(d)))
}

/// Makes a stream this thread's default on its device.
#[pyfunction]
fn set_default_stream(stream: PyStream) {
    stream::set_default_stream(stream.0);
}

/// A new stream on a device.
#[pyfunction]
fn new_stream(device: &Bound<'_, PyAny>) -> PyResult<PyStream> {
    let d =
        device_of(device).ok_or_else(|| PyTypeError::new_err("new_stream takes a Device or DeviceType."))?;
    Ok(PyStream(stream::new_stream(d).or_raise()?))
}

/// Waits for all work on a stream, or on all streams.
#[pyfunction]
#[pyo3(signature = (stream=None))]
fn synchronize(py: Python<'_>, stream: Option<StreamArg>) -> PyResult<()> {
    let of = stream.and_then(|s| s.0);
    py.detach(|| eval::synchronize(of)).or_raise()
}

/// Whether a device exists.
#[pyfunction]
fn is_available(device: &Bound<'_, PyAny>) -> PyResult<bool> {
    let d = device_of(device)
        .ok_or_else(|| PyTypeError::new_err("is_available takes a Device or DeviceType."))?;
    Ok(oxmlx::backend::backend(d).is_ok())
}

/// Number of devices of a kind.
#[pyfunction]
fn device_count(r#type: PyDeviceType) -> usize {
    oxmlx::backend::devices().iter().filter(|d| d.kind == r#type.0).count()
}

/// Facts about a device.
#[pyfunction]
#[pyo3(signature = (device=None))]
fn device_info<'py>(
    py: Python<'py>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
    let d = match device {
        Some(d) => device_of(d).ok_or_else(|| PyValueError::new_err("device_info takes a Device."))?,
        None => stream::default_device(),
    };
    let info = pyo3::types::PyDict::new(py);
    let backend = oxmlx::backend::backend(d).or_raise()?;
    let (name, architecture) = backend.description();
    info.set_item("device_name", name)?;
    info.set_item("architecture", architecture)?;
    info.set_item("memory_size", backend.total_memory())?;
    Ok(info)
}

/// Adds all of this to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyDevice>()?;
    m.add_class::<PyDeviceType>()?;
    m.add_class::<PyStream>()?;
    let kinds = m.getattr("DeviceType")?;
    for (name, kind) in [("cpu", DeviceKind::Cpu), ("gpu", DeviceKind::Gpu)] {
        kinds.setattr(name, PyDeviceType(kind))?;
        m.add(name, PyDeviceType(kind))?;
    }
    m.add_function(wrap_pyfunction!(stream_context, m)?)?;
    m.add_function(wrap_pyfunction!(default_device, m)?)?;
    m.add_function(wrap_pyfunction!(set_default_device, m)?)?;
    m.add_function(wrap_pyfunction!(default_stream, m)?)?;
    m.add_function(wrap_pyfunction!(set_default_stream, m)?)?;
    m.add_function(wrap_pyfunction!(new_stream, m)?)?;
    m.add_function(wrap_pyfunction!(synchronize, m)?)?;
    m.add_function(wrap_pyfunction!(is_available, m)?)?;
    m.add_function(wrap_pyfunction!(device_count, m)?)?;
    m.add_function(wrap_pyfunction!(device_info, m)?)
}
