//! The CPU backend: structured kernels over strided views.

// Loops over several arrays by one index are what vectorises; iterators over zips hide the common bound.
#![allow(clippy::needless_range_loop)]

#[cfg(test)]
mod bench;
pub mod conv;
pub mod copy;
pub mod create;
mod element;
mod fold;
mod gemm_block;
mod gemv;
pub mod index;
mod isa;
pub mod matmul;
pub mod par;
pub mod random;
pub mod reduce;
mod scratch;
pub mod shape;
pub mod structured;
#[cfg(test)]
mod testing;
pub mod view;
