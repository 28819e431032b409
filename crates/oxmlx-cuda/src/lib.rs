//! The engine's CUDA backend.
//!
//! A plan becomes a list of [`record::Call`]s and a parameter block. Every kernel of ours takes one argument,
//! the address of its record in that block, so that a repeated plan is one upload of words and one launch of a
//! captured graph, whatever its addresses and immediates are.

pub mod record;

mod conv;
mod copy;
mod create;
#[cfg(test)]
mod emulate;
mod fused;
mod index;
mod matmul;
mod random;
mod reduce;
mod shape;
mod structured;
mod walk;
