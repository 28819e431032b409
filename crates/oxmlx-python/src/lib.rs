//! The Python module `oxmlx._core`: a thin skin over the crate `oxmlx`. Its functions convert arguments and
//! call the engine; there is no mathematics here.

mod args;
mod array;
mod compile;
mod cuda;
mod dtype;
mod error;
mod io;
mod memory;
mod ops;
mod random;
mod stream;
mod transforms;
mod tree;

use pyo3::prelude::*;

/// There is no Metal on this platform.
#[pyfunction]
fn is_available() -> bool {
    false
}

/// The submodule `metal`, which only says that its device is absent.
fn metal(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    let m = PyModule::new(py, "metal")?;
    m.add_function(wrap_pyfunction!(is_available, &m)?)?;
    Ok(m)
}

/// The module.
#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    oxmlx::init();
    let py = m.py();
    error::register(m)?;
    dtype::add_to(m)?;
    m.add_class::<array::PyArray>()?;
    array::register(m)?;
    stream::register(m)?;
    ops::register(m)?;
    transforms::register(m)?;
    compile::register(m)?;
    memory::register(m)?;
    io::register(m)?;
    m.add_submodule(&random::module(py)?)?;
    m.add_submodule(&ops::fast(py)?)?;
    m.add_submodule(&tree::module(py)?)?;
    m.add_submodule(&memory::debug(py)?)?;
    m.add_submodule(&metal(py)?)?;
    m.add_submodule(&cuda::module(py)?)?;
    m.add("inf", f64::INFINITY)?;
    m.add("nan", f64::NAN)?;
    m.add("pi", std::f64::consts::PI)?;
    m.add("e", std::f64::consts::E)?;
    m.add("euler_gamma", 0.577_215_664_901_532_9)?;
    m.add("newaxis", py.None())?;
    m.add("__version__", env!("CARGO_PKG_VERSION"))
}
