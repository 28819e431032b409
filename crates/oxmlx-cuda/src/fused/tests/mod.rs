//! Generated kernels: compiled where NVRTC is, run by an emulator where a C++ compiler is.

mod compile;
mod emulate;
mod encode;
mod functions;
mod nvrtc;
mod same_bits;
