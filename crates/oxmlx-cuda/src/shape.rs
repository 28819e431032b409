//! Joining arrays.
