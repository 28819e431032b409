//! The device code: sources of every CUDA kernel and, where a compiler was found at build time, their packs.
//!
//! This crate is plain data. A [`Symbol`] names one kernel, the source that its template is in, and the line
//! that instantiates it; from that, either route makes the same code: the build compiles all symbols of a
//! family into a pack with nvcc, or a program without packs compiles one symbol with NVRTC when it is first
//! used.

#![forbid(unsafe_code)]

mod families;
mod sources;
mod symbols;

pub use sources::{SOURCES, architectures, pack, source};
pub use symbols::{Symbol, symbols};
