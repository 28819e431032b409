//! placeholder
pub mod elementwise;
pub mod fused;
pub mod pool;
pub mod simd;
