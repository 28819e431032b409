//! Generated kernels: compiled where NVRTC is, run by an emulator where a C++ compiler is.

mod emulate;
mod same_bits;
