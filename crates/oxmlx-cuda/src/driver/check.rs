//! From the driver's status codes to typed errors.

use cudarc::driver::sys::{self, CUresult};
use oxmlx_types::{Error, ErrorKind, Result};
use std::ffi::CStr;

/// The error of a failed call; `what` says what was tried.
pub(super) fn check(status: CUresult, what: &str) -> Result<()> {
    if status == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let kind = match status {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => ErrorKind::OutOfMemory,
        _ => ErrorKind::Backend,
    };
    let advice = match status {
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
        | CUresult::CUDA_ERROR_LAUNCH_FAILED
        | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
        | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | CUresult::CUDA_ERROR_ASSERT
        | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR => {
            " A kernel failed, and this process can't use the GPU any more: save what is on the host and start \
             again. OXMLX_EAGER=1 shows which operation it was."
        }
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
            " The kernels don't fit this GPU or its driver: update the driver, or install nvidia-cuda-nvrtc."
        }
        _ => "",
    };
    Err(Error::new(kind, "cuda", format!("{what}: {}.{advice}", describe(status))))
}

/// The driver's words for a status.
fn describe(status: CUresult) -> String {
    let (mut name, mut text) = (std::ptr::null(), std::ptr::null());
    // SAFETY: both pointers are valid for writes; the strings that come back are static.
    let words = unsafe {
        let _ = sys::cuGetErrorName(status, &mut name);
        let _ = sys::cuGetErrorString(status, &mut text);
        [name, text].map(|p: *const std::ffi::c_char| {
            if p.is_null() { String::new() } else { CStr::from_ptr(p).to_string_lossy().into_owned() }
        })
    };
    format!("{} ({})", words[1], words[0])
}
