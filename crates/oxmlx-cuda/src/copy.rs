//! Copies into row-major order, and writes into strided windows.
