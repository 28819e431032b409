//! The texts of `kernels/`, for NVRTC.

/// Every file of `kernels/`, by its path there.
pub const SOURCES: &[(&str, &str)] = &[("common.cuh", include_str!("../../../kernels/common.cuh"))];

/// The text of one file.
pub fn source(path: &str) -> Option<&'static str> {
    SOURCES.iter().find(|s| s.0 == path).map(|s| s.1)
}
