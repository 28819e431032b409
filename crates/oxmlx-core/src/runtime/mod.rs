//! What happens around plans: memory, streams, and the way from a pending array to its contents.

pub mod binder;
pub mod eval;
#[allow(unsafe_code)]
pub mod memory;
pub mod profile;
pub mod program;
pub mod settings;
pub mod stats;
pub mod stream;
pub mod trace;
