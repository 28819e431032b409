//! The engine's CUDA backend.
//!
//! A plan becomes a list of [`record::Call`]s and a parameter block. Every kernel of ours takes one argument,
//! the address of its record in that block, so that a repeated plan is one upload of words and one launch of a
//! captured graph, whatever its addresses and immediates are.

pub mod record;

mod block;
mod clock;
mod conv;
mod copy;
mod create;
mod device;
mod driver;
#[cfg(test)]
mod emulate;
mod fused;
mod index;
mod lower;
mod many;
mod matmul;
mod order;
mod product;
mod random;
mod reduce;
mod report;
mod shape;
mod staging;
mod structured;
mod walk;

pub use driver::library::set_package_folders;
pub use driver::recording;
pub use report::{Report, report};

use device::Gpu;
use oxmlx_core::backend::Backend;
use std::sync::Arc;

/// Every GPU that can be used; none where there is no driver. `report` says why.
pub fn discover() -> Vec<Arc<dyn Backend>> {
    // For tests of what the engine asks of a GPU, on machines without one.
    if std::env::var("OXMLX_CUDA_DRIVER").is_ok_and(|v| v == "recording") {
        return vec![recording(Arc::new(recording::Recording::default()))];
    }
    let count = driver::device_count().unwrap_or(0);
    let made = (0..count).filter_map(|i| driver::Cuda::new(i).ok().map(|c| Gpu::new(i, Arc::new(c))));
    made.map(|g| g as Arc<dyn Backend>).collect()
}

/// A GPU that records: see [`recording`].
pub fn recording(driver: Arc<recording::Recording>) -> Arc<dyn Backend> {
    Gpu::new(0, driver)
}
