//! Functions made from functions: derivatives, vectorisation, compilation. All of them run the function once
//! on stand-ins and then work on the nodes that it made.

pub mod compile;
pub mod jvp;
pub(crate) mod rules;
mod tape;
pub mod vjp;
pub mod vmap;

pub use compile::Traced;
pub use jvp::jvp;
pub use vjp::{grad, value_and_grad, vjp};
pub use vmap::vmap;
