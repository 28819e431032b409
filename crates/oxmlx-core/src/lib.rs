//! The engine: arrays, operations, transforms, planning and memory; no device.
//!
//! An operation makes a node and computes nothing. Evaluating an array claims the pending nodes behind it,
//! recognises or makes their plan, binds it to buffers and hands it to a device's backend, which registered
//! itself; this crate names none.

#![deny(unsafe_code)]

#[macro_use]
pub mod ops;
pub mod array;
pub mod backend;
pub mod plan;
pub mod primitive;
pub mod read;
pub mod runtime;
pub mod transforms;

pub use array::{Array, Node, Spec};
pub use primitive::Primitive;
