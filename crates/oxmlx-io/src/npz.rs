//! Archives of npy files.

use crate::{failed, npy};
use oxmlx_core::Array;
use oxmlx_types::Result;
use std::io::{Cursor, Read, Write};

/// The archive's bytes; entries are named with `.npy` at the end.
pub fn to_bytes(arrays: &[(String, Array)], deflate: bool) -> Result<Vec<u8>> {
    let method = if deflate { zip::CompressionMethod::Deflated } else { zip::CompressionMethod::Stored };
    let options = zip::write::SimpleFileOptions::default().compression_method(method).large_file(true);
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, a) in arrays {
        let bytes = npy::to_bytes(a)?;
        archive.start_file(format!("{name}.npy"), options).map_err(|e| failed("savez", e.to_string()))?;
        archive.write_all(&bytes).map_err(|e| failed("savez", e.to_string()))?;
    }
    let done = archive.finish().map_err(|e| failed("savez", e.to_string()))?;
    Ok(done.into_inner())
}

/// The arrays by name, in the archive's order.
pub fn from_bytes(bytes: &[u8]) -> Result<Vec<(String, Array)>> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes))
        .map_err(|e| failed("load", format!("Not a npz file: {e}")))?;
    let mut all = Vec::with_capacity(archive.len());
    for i in 0..archive.len() {
        let mut file = archive.by_index(i).map_err(|e| failed("load", e.to_string()))?;
        let name = file.name().to_string();
        let mut data = Vec::new();
        file.read_to_end(&mut data).map_err(|e| failed("load", format!("{name}: {e}")))?;
        all.push((name.strip_suffix(".npy").unwrap_or(&name).to_string(), npy::from_bytes(&data)?));
    }
    Ok(all)
}
