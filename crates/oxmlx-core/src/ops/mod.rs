//! Operations, by family.
pub mod elementwise;
