//! What the build embedded: the texts of `kernels/`, for NVRTC, and the packs that nvcc made of them.

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The text of one file.
pub fn source(path: &str) -> Option<&'static str> {
    SOURCES.iter().find(|s| s.0 == path).map(|s| s.1)
}

/// The compiled symbols of one file, a fat binary; `None` if the build found no compiler.
pub fn pack(file: &str) -> Option<&'static [u8]> {
    PACKS.iter().find(|p| p.0 == file).map(|p| p.1)
}

/// The architectures whose machine code the packs hold, for example 90.
pub fn architectures() -> &'static [u32] {
    ARCHITECTURES
}
