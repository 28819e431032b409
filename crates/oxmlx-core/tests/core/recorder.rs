//! A backend that computes nothing and remembers what it was asked for.
