//! The CPU backend: fused groups as SIMD loops over cache-sized blocks, structured kernels over strided
//! views, a worker pool shared by all of them.

// Loops over several arrays by one index are what vectorises; iterators over zips hide the common bound.
#![allow(clippy::needless_range_loop)]

mod backend;
#[cfg(test)]
mod bench;
pub mod conv;
pub mod copy;
pub mod create;
mod element;
pub mod elementwise;
mod fold;
pub mod fused;
mod gemm_block;
mod gemv;
pub mod index;
pub mod matmul;
pub mod par;
pub mod pool;
pub mod random;
pub mod reduce;
mod scratch;
pub mod shape;
pub mod simd;
pub mod structured;
#[cfg(test)]
mod testing;
pub mod view;

pub use backend::Cpu;
