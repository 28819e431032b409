//! Compiling kernels while running, with a cache on disk.
//!
//! The cache's key covers the architecture, the compiler's version, the flags and every text that went in. A file
//! is written under another name and then moved, so that no other process sees half of one; a folder that can't
//! be written to only costs time.

use super::library::NVRTC;
use cudarc::nvrtc::sys;
use oxmlx_core::runtime::{profile, stats};
use oxmlx_types::{Error, ErrorKind, Result};
use std::ffi::{CStr, CString, c_char};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Bytes that the cache on disk may have; above it, the files used longest ago go.
const DISK_LIMIT: u64 = 512 << 20;

fn failed(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Backend, "cuda", what.into())
}

/// The machine code of a text for one architecture (90 for Hopper).
///
/// # Errors
/// Backend: no compiler, or a text that it refuses, with the compiler's words.
pub(super) fn compile(name: &str, text: &str, architecture: u32) -> Result<Vec<u8>> {
    let key = key(text, architecture)?;
    let file = folder().map(|f| f.join(format!("{key:032x}.cubin")));
    if let Some(file) = &file
        && let Ok(code) = std::fs::read(file)
        && !code.is_empty()
    {
        stats::COMPILE_HITS.add(1);
        return Ok(code);
    }
    stats::COMPILES.add(1);
    let _span = profile::span("compile", "compile").text("kernel", || name.into());
    let code = compile_now(name, text, architecture)?;
    if let Some(file) = &file {
        store(file, &code);
    }
    Ok(code)
}

/// Version of the compiler, once it has been opened.
fn version() -> Result<(i32, i32)> {
    NVRTC.open()?;
    static VERSION: OnceLock<(i32, i32)> = OnceLock::new();
    Ok(*VERSION.get_or_init(|| {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the library is open; both places are valid for writes.
        let _ = unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
        (major, minor)
    }))
}

fn key(text: &str, architecture: u32) -> Result<u128> {
    static SOURCES: OnceLock<u64> = OnceLock::new();
    let sources = *SOURCES.get_or_init(|| {
        let mut h = rustc_hash::FxHasher::default();
        oxmlx_kernels::SOURCES.hash(&mut h);
        h.finish()
    });
    let half = |seed: u64| {
        let mut h = rustc_hash::FxHasher::default();
        (seed, sources, architecture, FLAGS).hash(&mut h);
        text.hash(&mut h);
        h.finish()
    };
    let (major, minor) = version()?;
    let seed = (major as u64) << 32 | minor as u64;
    Ok((half(seed) as u128) << 64 | half(!seed) as u128)
}

const FLAGS: [&str; 2] = ["-std=c++17", "--fmad=false"];

fn compile_now(name: &str, text: &str, architecture: u32) -> Result<Vec<u8>> {
    let c = |s: &str| CString::new(s).map_err(|_| failed("a kernel's text holds a zero byte"));
    let (program_text, program_name) = (c(text)?, c(name)?);
    let headers = oxmlx_kernels::SOURCES.iter().map(|s| c(s.1)).collect::<Result<Vec<CString>>>()?;
    let names = oxmlx_kernels::SOURCES.iter().map(|s| c(s.0)).collect::<Result<Vec<CString>>>()?;
    let header_pointers: Vec<*const c_char> = headers.iter().map(|h| h.as_ptr()).collect();
    let name_pointers: Vec<*const c_char> = names.iter().map(|n| n.as_ptr()).collect();
    let options = FLAGS.iter().map(|f| c(f)).chain([c(&format!("--gpu-architecture=sm_{architecture}"))]);
    let options = options.collect::<Result<Vec<CString>>>()?;
    let option_pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
    let mut program = std::ptr::null_mut();
    // SAFETY: all strings end in zero and live to the end of this function, as do the arrays of pointers to
    // them, whose lengths are given.
    let status = unsafe {
        sys::nvrtcCreateProgram(
            &mut program,
            program_text.as_ptr(),
            program_name.as_ptr(),
            headers.len() as i32,
            header_pointers.as_ptr(),
            name_pointers.as_ptr(),
        )
    };
    if status != sys::nvrtcResult::NVRTC_SUCCESS {
        return Err(failed(format!("The compiler refuses to start: {status:?}.")));
    }
    // SAFETY: the program was made above and is destroyed once, below.
    let outcome = unsafe {
        let status = sys::nvrtcCompileProgram(program, options.len() as i32, option_pointers.as_ptr());
        if status == sys::nvrtcResult::NVRTC_SUCCESS { code(program) } else { Err(log(program, name)) }
    };
    // SAFETY: as above.
    let _ = unsafe { sys::nvrtcDestroyProgram(&mut program) };
    outcome
}

/// # Safety
/// The program has been compiled.
unsafe fn code(program: sys::nvrtcProgram) -> Result<Vec<u8>> {
    let mut size = 0;
    // SAFETY: the caller's promise; the vector is as long as the compiler says.
    unsafe {
        let _ = sys::nvrtcGetCUBINSize(program, &mut size);
        let mut code = vec![0u8; size];
        let status = sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast());
        if status == sys::nvrtcResult::NVRTC_SUCCESS && size > 0 {
            return Ok(code);
        }
        Err(failed(format!("The compiler gave no machine code: {status:?}.")))
    }
}

/// # Safety
/// The program is valid.
unsafe fn log(program: sys::nvrtcProgram, name: &str) -> Error {
    let mut size = 0;
    // SAFETY: the caller's promise; the vector is as long as the compiler says, and the text ends in zero.
    let text = unsafe {
        let _ = sys::nvrtcGetProgramLogSize(program, &mut size);
        let mut log = vec![0u8; size.max(1)];
        let _ = sys::nvrtcGetProgramLog(program, log.as_mut_ptr().cast());
        CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy().into_owned()
    };
    failed(format!("The kernel {name} does not compile; please report this:\n{text}"))
}

/// The cache's folder: `OXMLX_CACHE_DIR`, or `oxmlx/kernels` in the user's cache; `None` where there is none that
/// can be written to.
pub(crate) fn folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
            let folder = set("OXMLX_CACHE_DIR").or_else(|| {
                let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|h| h.join(".cache")));
                cache.map(|c| c.join("oxmlx").join("kernels"))
            })?;
            let mut builder = std::fs::DirBuilder::new();
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.recursive(true).create(&folder).ok()?;
            trim(&folder);
            Some(folder)
        })
        .as_deref()
}

fn store(file: &Path, code: &[u8]) {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let n = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let partial = file.with_extension(format!("{}-{n}.partial", std::process::id()));
    if std::fs::write(&partial, code).is_err() || std::fs::rename(&partial, file).is_err() {
        let _ = std::fs::remove_file(&partial);
    }
}

/// Removes the files that were used longest ago while there are too many bytes.
fn trim(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut files: Vec<_> = entries
        .filter_map(|e| {
            let e = e.ok()?;
            let m = e.metadata().ok()?;
            Some((m.modified().ok()?, m.len(), e.path()))
        })
        .collect();
    let mut total: u64 = files.iter().map(|f| f.1).sum();
    files.sort();
    for (_, bytes, path) in files {
        if total <= DISK_LIMIT {
            return;
        }
        if std::fs::remove_file(path).is_ok() {
            total -= bytes;
        }
    }
}
