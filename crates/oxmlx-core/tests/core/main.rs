//! Tests of the engine without a device, as one binary: the planner on graphs made by hand and at random, and
//! the way from arrays to a backend with a backend that only takes notes.

// The helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used)]

mod binder;
mod graphs;
mod interpret;
mod planner;
mod random_plans;
mod recorder;
