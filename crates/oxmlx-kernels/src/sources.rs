//! The texts of `kernels/`, for NVRTC.

/// Every file of `kernels/`, by its path there.
pub const SOURCES: &[(&str, &str)] = &[
    ("common.cuh", include_str!("../../../kernels/common.cuh")),
    ("elementwise/access.cuh", include_str!("../../../kernels/elementwise/access.cuh")),
    ("elementwise/boolean.cuh", include_str!("../../../kernels/elementwise/boolean.cuh")),
    ("elementwise/cast.cuh", include_str!("../../../kernels/elementwise/cast.cuh")),
    ("elementwise/complex.cuh", include_str!("../../../kernels/elementwise/complex.cuh")),
    ("elementwise/double.cuh", include_str!("../../../kernels/elementwise/double.cuh")),
    ("elementwise/float.cuh", include_str!("../../../kernels/elementwise/float.cuh")),
    ("elementwise/half.cuh", include_str!("../../../kernels/elementwise/half.cuh")),
    ("elementwise/integer.cuh", include_str!("../../../kernels/elementwise/integer.cuh")),
    ("row/chunk.cuh", include_str!("../../../kernels/row/chunk.cuh")),
    ("row/reduce.cuh", include_str!("../../../kernels/row/reduce.cuh")),
];

/// The text of one file.
pub fn source(path: &str) -> Option<&'static str> {
    SOURCES.iter().find(|s| s.0 == path).map(|s| s.1)
}
