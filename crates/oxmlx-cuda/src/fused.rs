//! Groups of a plan as generated kernels.
