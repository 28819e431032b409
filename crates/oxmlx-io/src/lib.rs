//! File formats: npy, npz and safetensors. Every size in a file is checked before it is trusted.

#![forbid(unsafe_code)]

pub mod npy;
pub mod npz;
pub mod safetensors;

use oxmlx_types::{Error, ErrorKind, Result};
use std::path::Path;

pub(crate) fn failed(op: &'static str, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Io, op, message)
}

/// The bytes of a file.
pub fn read_file(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| failed("load", format!("Failed to open {}: {e}", path.display())))
}

/// Writes a file; a file of that name is replaced only once all bytes are written.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".partial-{}", std::process::id()));
    let written = std::fs::write(&partial, bytes).and_then(|()| std::fs::rename(&partial, path));
    written.map_err(|e| {
        // The first failure is the one to report.
        let _ = std::fs::remove_file(&partial);
        failed("save", format!("Failed to write {}: {e}", path.display()))
    })
}
