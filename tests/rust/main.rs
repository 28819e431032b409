//! Tests of the crate as its users see it: one binary, a module a theme.

mod engine;
mod nn;
mod random_programs;
