//! placeholder
pub mod elementwise;
pub mod pool;
pub mod simd;
