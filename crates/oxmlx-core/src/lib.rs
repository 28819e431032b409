//! The engine: arrays, operations, transforms, planning and memory; no device.
#![forbid(unsafe_code)]
pub mod backend;
#[macro_use]
pub mod ops;
pub mod plan;
pub mod primitive;
pub use primitive::Primitive;
