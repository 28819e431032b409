//! Gathers and scatters.
