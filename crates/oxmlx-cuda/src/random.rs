//! Random words: Threefry-2x32, as on the CPU.
