//! From arrays to a backend's calls.
