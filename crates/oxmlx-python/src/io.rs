//! `save`, `savez`, `save_safetensors` and `load`.

use crate::args::array_like;
use crate::array::PyArray;
use crate::error::OrRaise;
use oxmlx::{Array, io};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type Any<'py> = Bound<'py, PyAny>;

/// A path, or an object with `read` or `write`.
enum Target<'py> {
    Path(PathBuf),
    File(Any<'py>),
}

fn target<'py>(file: &Any<'py>) -> PyResult<Target<'py>> {
    if let Ok(path) = file.extract::<PathBuf>() {
        return Ok(Target::Path(path));
    }
    if file.hasattr("read")? || file.hasattr("write")? {
        return Ok(Target::File(file.clone()));
    }
    Err(PyTypeError::new_err("The file must be a path or a file object."))
}

fn with_extension(path: PathBuf, extension: &str) -> PathBuf {
    if path.extension().is_some_and(|e| e == extension) {
        return path;
    }
    let mut name = path.into_os_string();
    name.push(".");
    name.push(extension);
    PathBuf::from(name)
}

fn write(file: &Any<'_>, extension: &str, bytes: Vec<u8>) -> PyResult<()> {
    let py = file.py();
    match target(file)? {
        Target::Path(p) => {
            let path = with_extension(p, extension);
            py.detach(|| io::write_file(&path, &bytes)).or_raise()
        }
        Target::File(f) => f.call_method1("write", (PyBytes::new(py, &bytes),)).map(|_| ()),
    }
}

/// Writes one array to a .npy file (the extension is added) or file object.
#[pyfunction]
fn save(py: Python<'_>, file: &Any<'_>, arr: &Any<'_>) -> PyResult<()> {
    let a = array_like(arr)?;
    let bytes = py.detach(|| io::npy::to_bytes(&a)).or_raise()?;
    write(file, "npy", bytes)
}

fn archive(
    file: &Any<'_>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
    deflate: bool,
) -> PyResult<()> {
    let py = file.py();
    let mut all: Vec<(String, Array)> = Vec::new();
    if let Some(k) = kwargs {
        for (name, a) in k.iter() {
            all.push((name.extract()?, array_like(&a)?));
        }
    }
    for (i, a) in args.iter().enumerate() {
        let name = format!("arr_{i}");
        if all.iter().any(|(n, _)| *n == name) {
            return Err(PyValueError::new_err(format!(
                "[savez] Cannot use un-named variables and keyword {name}"
            )));
        }
        all.push((name, array_like(&a)?));
    }
    let bytes = py.detach(|| io::npz::to_bytes(&all, deflate)).or_raise()?;
    write(file, "npz", bytes)
}

/// Writes arrays to an uncompressed .npz archive; positional ones are named arr_0, arr_1, …
#[pyfunction]
#[pyo3(signature = (file, *args, **kwargs))]
fn savez(file: &Any<'_>, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    archive(file, args, kwargs, false)
}

/// Writes arrays to a compressed .npz archive.
#[pyfunction]
#[pyo3(signature = (file, *args, **kwargs))]
fn savez_compressed(
    file: &Any<'_>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    archive(file, args, kwargs, true)
}

/// Writes a dict of arrays, and a dict of strings as metadata, to a .safetensors file or file object.
#[pyfunction]
#[pyo3(signature = (file, arrays, metadata=None))]
fn save_safetensors(
    py: Python<'_>,
    file: &Any<'_>,
    arrays: &Bound<'_, PyDict>,
    metadata: Option<BTreeMap<String, String>>,
) -> PyResult<()> {
    let mut all: BTreeMap<String, Array> = BTreeMap::new();
    for (name, a) in arrays.iter() {
        all.insert(name.extract()?, array_like(&a)?);
    }
    let bytes = py.detach(|| io::safetensors::to_bytes(&all, metadata.as_ref())).or_raise()?;
    write(file, "safetensors", bytes)
}

fn contents(file: &Any<'_>) -> PyResult<(Vec<u8>, Option<PathBuf>)> {
    let py = file.py();
    match target(file)? {
        Target::Path(p) => {
            let bytes = py.detach(|| io::read_file(&p)).or_raise()?;
            Ok((bytes, Some(p)))
        }
        Target::File(f) => Ok((f.call_method0("read")?.extract::<Vec<u8>>()?, None)),
    }
}

fn format_of(path: Option<&Path>, format: Option<String>, bytes: &[u8]) -> PyResult<String> {
    if let Some(f) = format {
        return Ok(f);
    }
    if let Some(e) = path.and_then(|p| p.extension()) {
        return Ok(e.to_string_lossy().into_owned());
    }
    match bytes {
        [0x93, b'N', ..] => Ok("npy".into()),
        [b'P', b'K', ..] => Ok("npz".into()),
        _ => Err(PyValueError::new_err("[load] Could not infer file format from extension")),
    }
}

fn dict<'py>(
    py: Python<'py>,
    arrays: impl IntoIterator<Item = (String, Array)>,
) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    for (name, a) in arrays {
        d.set_item(name, PyArray::new(a))?;
    }
    Ok(d)
}

/// Reads a .npy file (an array), a .npz archive or a .safetensors file (a dict), by path or file object.
/// `return_metadata` gives (arrays, metadata) for safetensors.
#[pyfunction]
#[pyo3(signature = (file, /, format=None, return_metadata=false, *, stream=None))]
fn load<'py>(
    py: Python<'py>,
    file: &Any<'py>,
    format: Option<String>,
    return_metadata: bool,
    stream: Option<crate::stream::StreamArg>,
) -> PyResult<Any<'py>> {
    let _scope = stream.and_then(|s| s.enter());
    if let (Target::Path(p), None) = (target(file)?, &format)
        && let Some(e) = p.extension().map(|e| e.to_string_lossy().into_owned())
        && !["npy", "npz", "safetensors"].contains(&e.as_str())
    {
        return Err(PyValueError::new_err(format!("[load] Unknown file format {e}")));
    }
    let (bytes, path) = contents(file)?;
    let format = format_of(path.as_deref(), format, &bytes)?;
    if return_metadata && format != "safetensors" {
        return Err(PyValueError::new_err(format!("[load] metadata not supported for format {format}")));
    }
    match format.as_str() {
        "npy" => {
            let a = py.detach(|| io::npy::from_bytes(&bytes)).or_raise()?;
            Ok(Bound::new(py, PyArray::new(a))?.into_any())
        }
        "npz" => Ok(dict(py, py.detach(|| io::npz::from_bytes(&bytes)).or_raise()?)?.into_any()),
        "safetensors" => {
            let (arrays, metadata) = py.detach(|| io::safetensors::from_bytes(&bytes)).or_raise()?;
            let arrays = dict(py, arrays)?;
            if return_metadata {
                Ok((arrays, metadata).into_pyobject(py)?.into_any())
            } else {
                Ok(arrays.into_any())
            }
        }
        other => Err(PyValueError::new_err(format!("[load] Unknown file format {other}"))),
    }
}

/// Adds all of this to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(save, m)?)?;
    m.add_function(wrap_pyfunction!(savez, m)?)?;
    m.add_function(wrap_pyfunction!(savez_compressed, m)?)?;
    m.add_function(wrap_pyfunction!(save_safetensors, m)?)?;
    m.add_function(wrap_pyfunction!(load, m)?)
}
