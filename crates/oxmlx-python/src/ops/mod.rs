//! The functions of `mlx.core`, by family: a file here binds the family's file of the engine.

mod attention;
mod conv;
mod create;
mod elementwise;
mod index;
mod matmul;
mod norm;
mod reduce;
mod shape;

use pyo3::prelude::*;

/// Adds every function to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    elementwise::register(m)?;
    create::register(m)?;
    shape::register(m)?;
    index::register(m)?;
    reduce::register(m)?;
    norm::register(m)?;
    matmul::register(m)?;
    conv::register(m)
}

/// The submodule `fast`.
pub fn fast<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyModule>> {
    let m = PyModule::new(py, "fast")?;
    norm::register_fast(&m)?;
    attention::register_fast(&m)?;
    Ok(m)
}
