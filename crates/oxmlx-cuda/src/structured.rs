//! From an operation of a plan to its encoder: an exhaustive match, so that a new operation without a kernel
//! does not compile.
