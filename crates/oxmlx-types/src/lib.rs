//! The vocabulary that every other crate speaks: element types and their promotion, shapes, strides,
//! layouts, host scalars, devices and errors.
//!
//! Nothing here knows about graphs, memory or devices' drivers, and nothing here is unsafe. A value type
//! lives in this crate when two crates that may not see each other (a backend and the file formats, say)
//! must agree on it.

#![forbid(unsafe_code)]

mod device;
mod dtype;
mod error;
mod layout;
mod scalar;

pub use device::{Device, DeviceKind, Stream};
pub use dtype::{Category, Dtype};
pub use error::{Error, ErrorKind, Result};
pub use layout::{
    Layout, Shape, Strides, broadcast_shapes, contiguous_strides, format_shape, normalize_axis,
};
pub use scalar::Scalar;

pub use half::{bf16, f16};
/// complex64: two float32 parts.
pub type Complex = num_complex::Complex<f32>;
