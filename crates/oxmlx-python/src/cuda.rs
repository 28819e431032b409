//! What the Python side asks about NVIDIA GPUs, and tells the engine of where pip put NVIDIA's libraries.

use oxmlx::{DeviceKind, backend};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::PathBuf;

/// Whether a GPU can be used.
#[pyfunction]
fn is_available() -> bool {
    backend::devices().iter().any(|d| d.kind == DeviceKind::Gpu)
}

/// What was found of CUDA: driver, devices, libraries, kernel packs, and what is in the way.
#[pyfunction]
fn cuda_report(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let report = py.detach(oxmlx::cuda_report);
    let devices = PyList::empty(py);
    for info in &report.devices {
        let d = PyDict::new(py);
        d.set_item("name", &info.name)?;
        d.set_item("compute_capability", format!("{}.{}", info.architecture / 10, info.architecture % 10))?;
        d.set_item("memory", info.memory)?;
        devices.append(d)?;
    }
    let libraries = PyDict::new(py);
    for (name, path, _) in &report.libraries {
        libraries.set_item(name, path.as_ref().map(|p| p.display().to_string()))?;
    }
    let d = PyDict::new(py);
    d.set_item("driver", report.driver)?;
    d.set_item("devices", devices)?;
    d.set_item("libraries", libraries)?;
    d.set_item("pack_architectures", report.pack_architectures)?;
    d.set_item("kernel_cache", report.kernel_cache.map(|p| p.display().to_string()))?;
    d.set_item("problem", report.problem)?;
    Ok(d)
}

/// The submodule `cuda`. The engine learns here where Python's packages are.
pub fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    let path = py.import("sys")?.getattr("path")?;
    let folders = path.try_iter()?.filter_map(|p| p.ok()?.extract::<String>().ok());
    oxmlx::set_package_folders(folders.map(PathBuf::from).collect());
    let m = PyModule::new(py, "cuda")?;
    m.add_function(wrap_pyfunction!(is_available, &m)?)?;
    Ok(m)
}

/// Adds the report to the submodule `debug`.
pub fn debug(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(cuda_report, m)?)
}
