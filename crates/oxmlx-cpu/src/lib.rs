//! The CPU backend: vector kernels on a worker pool. Kernels see addresses and layouts only; graphs, order and
//! lifetimes are the engine's.
pub mod elementwise;
pub mod fused;
pub mod pool;
pub mod simd;
