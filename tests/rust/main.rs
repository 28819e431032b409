//! Tests of the crate as its users see it: one binary, a module a theme.

// The helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used)]

mod engine;
mod nn;
mod random_programs;
