//! What there is of CUDA on this machine, and what is missing, for people.

use crate::driver::{self, Driver, Info, library, nvrtc_folder};
use std::path::PathBuf;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Version of the driver's interface.
    pub driver: Option<String>,
    /// The GPUs.
    pub devices: Vec<Info>,
    /// Libraries by name, with where they are and the pip package that brings them.
    pub libraries: Vec<(&'static str, Option<PathBuf>, &'static str)>,
    /// Architectures for which kernels are embedded.
    pub pack_architectures: Vec<u32>,
    /// Where compiled kernels are kept.
    pub kernel_cache: Option<PathBuf>,
    /// Why no GPU can be used.
    pub problem: Option<String>,
}

/// Looks.
pub fn report() -> Report {
    let count = driver::device_count();
    let mut devices = Vec::new();
    let mut problem = count.clone().err();
    for i in 0..count.unwrap_or(0) {
        match driver::Cuda::new(i) {
            Ok(cuda) => devices.push(cuda.info().clone()),
            Err(e) => problem = Some(e.message),
        }
    }
    let libraries = library::ALL.iter().map(|l| (l.name, l.open().ok().map(PathBuf::from), l.package));
    Report {
        driver: driver::driver_version(),
        devices,
        libraries: libraries.collect(),
        pack_architectures: oxmlx_kernels::architectures().to_vec(),
        kernel_cache: nvrtc_folder().map(PathBuf::from),
        problem,
    }
}
