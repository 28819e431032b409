//! Memory counters and limits, and the submodule `debug`.

use oxmlx::plan::cache;
use oxmlx::runtime::{memory, stats};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Bytes in arrays that somebody holds.
#[pyfunction]
fn get_active_memory() -> usize {
    memory::usage().active
}

/// The most bytes that were ever active at once.
#[pyfunction]
fn get_peak_memory() -> usize {
    memory::usage().peak
}

/// Bytes in freed blocks that are kept for reuse.
#[pyfunction]
fn get_cache_memory() -> usize {
    memory::usage().cache
}

/// Starts the peak over from what is active now.
#[pyfunction]
fn reset_peak_memory() {
    memory::reset_peak();
}

/// Gives cached memory back to the system.
#[pyfunction]
fn clear_cache() {
    memory::clear_cache();
}

/// The most bytes that may be active.
#[pyfunction]
fn get_memory_limit() -> usize {
    memory::memory_limit()
}

/// Sets the most bytes that may be active; returns the limit until now.
#[pyfunction]
fn set_memory_limit(limit: usize) -> usize {
    memory::set_memory_limit(limit)
}

/// Sets the most bytes that may be kept for reuse; returns the limit until now.
#[pyfunction]
fn set_cache_limit(limit: usize) -> usize {
    memory::set_cache_limit(limit)
}

/// There is no wired memory on this platform: returns 0 and changes nothing.
#[pyfunction]
fn set_wired_limit(limit: usize) -> usize {
    let _ = limit;
    0
}

/// Counters of what the engine did: plans made, cache hits on both levels, kernels, bytes.
#[pyfunction]
fn cache_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let d = PyDict::new(py);
    for (name, value) in stats::all() {
        d.set_item(name, value)?;
    }
    let pinned = memory::pinned_usage();
    d.set_item("pinned_active_bytes", pinned.active)?;
    d.set_item("pinned_cache_bytes", pinned.cache)?;
    d.set_item("plan_entries", cache::entries())?;
    d.set_item("plan_bytes", cache::bytes())?;
    Ok(d)
}

/// Forgets every plan.
#[pyfunction]
fn clear_plans() {
    cache::clear();
}

/// Threads that share a kernel's work.
#[pyfunction]
fn num_threads() -> usize {
    oxmlx::cpu_threads()
}

/// The vector instructions in use.
#[pyfunction]
fn cpu_features() -> &'static str {
    oxmlx::cpu_features()
}

/// Adds the counters and limits.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(get_active_memory, m)?)?;
    m.add_function(wrap_pyfunction!(get_peak_memory, m)?)?;
    m.add_function(wrap_pyfunction!(get_cache_memory, m)?)?;
    m.add_function(wrap_pyfunction!(reset_peak_memory, m)?)?;
    m.add_function(wrap_pyfunction!(clear_cache, m)?)?;
    m.add_function(wrap_pyfunction!(get_memory_limit, m)?)?;
    m.add_function(wrap_pyfunction!(set_memory_limit, m)?)?;
    m.add_function(wrap_pyfunction!(set_cache_limit, m)?)?;
    m.add_function(wrap_pyfunction!(set_wired_limit, m)?)
}

/// The submodule `debug`.
pub fn debug<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyModule>> {
    let m = PyModule::new(py, "debug")?;
    m.add_function(wrap_pyfunction!(cache_stats, &m)?)?;
    m.add_function(wrap_pyfunction!(clear_plans, &m)?)?;
    m.add_function(wrap_pyfunction!(num_threads, &m)?)?;
    m.add_function(wrap_pyfunction!(cpu_features, &m)?)?;
    crate::cuda::debug(&m)?;
    Ok(m)
}
