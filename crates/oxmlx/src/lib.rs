//! oxmlx: lazy arrays for machine learning with the API of MLX.
//!
//! This crate is what other programs depend on. It re-exports the engine and the file formats, registers the
//! devices (call [`init`] before the first array; layers do it themselves) and adds what training needs:
//! [`nn`] and [`optim`]. `examples/digits.rs` trains a classifier from beginning to end.
//!
//! Operations are lazy: they make nodes, and [`eval`] computes what is behind the arrays that it is given. An
//! array that is still held then is a result, and its contents are kept; so nested calls are best bound to a
//! name before they are evaluated, since temporaries live to the end of their statement.
//!
//! ```
//! use oxmlx::{ops, Array, Dtype};
//! oxmlx::init();
//! let x = ops::arange(0.0, 4.0, 1.0, Dtype::Float32)?;
//! let y = ops::sum(&ops::square(&x)?, None, false)?;
//! assert_eq!(y.item()?.to_f64(), 14.0);
//! # Ok::<(), oxmlx::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod nn;
pub mod optim;

pub use oxmlx_core::{
    Array, Primitive, Spec, array, backend, ops, plan, primitive, read, runtime, transforms,
};
pub use oxmlx_core::{binary_table, unary_table};
pub use oxmlx_io as io;
pub use oxmlx_types::*;

pub use runtime::eval::{async_eval, eval};
pub use transforms::{grad, value_and_grad};

/// Makes the devices of this machine known: the CPU at once, GPUs when one is first asked for. Calling it
/// again does nothing.
pub fn init() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        backend::register(std::sync::Arc::new(oxmlx_cpu::Cpu::new()));
        backend::set_discovery(oxmlx_cuda::discover);
    });
}

/// What was found of CUDA on this machine, for people and for error messages.
pub use oxmlx_cuda::{report as cuda_report, set_package_folders};

/// Threads that share a kernel's work on the CPU.
pub fn cpu_threads() -> usize {
    oxmlx_cpu::pool::threads()
}

/// The vector instructions that CPU kernels use.
pub fn cpu_features() -> &'static str {
    oxmlx_cpu::simd::isa().name()
}
