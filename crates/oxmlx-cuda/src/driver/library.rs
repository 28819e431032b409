//! Finding NVIDIA's libraries: those that the process has loaded already, those that pip installed, those of the
//! system, in this order.
//!
//! Nothing is linked. A library is opened by its full path first, so that the bindings, which know names only,
//! find it among the loaded ones.

use libloading::os::unix::{RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};
use oxmlx_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Folders of Python packages, from whoever hosts the engine.
static PACKAGES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Says in which folders of Python packages NVIDIA's libraries may be (`FOLDER/nvidia/cu13/lib`).
pub fn set_package_folders(folders: Vec<PathBuf>) {
    *PACKAGES.lock() = folders;
}

/// A library that some operations need.
pub(crate) struct Library {
    /// As the linker knows it, without `lib` and `.so`.
    pub name: &'static str,
    /// The pip package that brings it.
    pub package: &'static str,
    /// The package's folder below `nvidia`, for packages up to CUDA 12.
    folder: &'static str,
    opened: OnceLock<std::result::Result<PathBuf, String>>,
}

/// Run-time compilation.
pub(crate) static NVRTC: Library =
    Library { name: "nvrtc", package: "nvidia-cuda-nvrtc", folder: "cuda_nvrtc", opened: OnceLock::new() };

/// Matrix products.
pub(crate) static CUBLAS_LT: Library =
    Library { name: "cublasLt", package: "nvidia-cublas", folder: "cublas", opened: OnceLock::new() };

/// Every library that is looked for.
pub(crate) static ALL: [&Library; 2] = [&NVRTC, &CUBLAS_LT];

/// Major versions that the bindings know, newest first.
const MAJORS: [&str; 2] = ["13", "12"];

impl Library {
    /// Opens it, once; where it is.
    ///
    /// # Errors
    /// Backend, with the pip package that brings it.
    pub fn open(&self) -> Result<&Path> {
        let opened = self.opened.get_or_init(|| self.find());
        opened.as_deref().map_err(|looked| {
            let message = format!(
                "The library {} of CUDA was not found ({looked}). Install it with: pip install {}",
                self.name, self.package
            );
            Error::new(ErrorKind::Backend, "cuda", message)
        })
    }

    fn find(&self) -> std::result::Result<PathBuf, String> {
        for major in MAJORS {
            let file = format!("lib{}.so.{major}", self.name);
            if let Some(path) = loaded(&file) {
                path.parent().into_iter().for_each(|folder| self.open_companions(folder));
                return Ok(path);
            }
        }
        let mut tried = 0;
        for folder in folders(self.folder) {
            for major in MAJORS {
                let path = folder.join(format!("lib{}.so.{major}", self.name));
                if path.exists() {
                    tried += 1;
                    self.open_companions(&folder);
                    if open(&path, RTLD_LOCAL) {
                        return Ok(path);
                    }
                }
            }
        }
        for major in MAJORS {
            let file = PathBuf::from(format!("lib{}.so.{major}", self.name));
            if open(&file, RTLD_LOCAL) {
                return Ok(file);
            }
        }
        Err(if tried > 0 { "what is there can't be opened".into() } else { "nothing is there".into() })
    }

    /// Opens what the library will ask the linker for by name alone, which doesn't look in the library's own folder.
    fn open_companions(&self, folder: &Path) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        let prefix = format!("lib{}-builtins.so.", self.name);
        for file in entries.filter_map(|e| Some(e.ok()?.file_name())) {
            if file.to_string_lossy().starts_with(&prefix) {
                open(&folder.join(file), RTLD_GLOBAL);
            }
        }
    }
}

/// Opens a library and leaves it open.
fn open(path: &Path, scope: std::ffi::c_int) -> bool {
    // SAFETY: the libraries' initialisers are those of NVIDIA's, made to be loaded so.
    match unsafe { libloading::os::unix::Library::open(Some(path), RTLD_NOW | scope) } {
        Ok(library) => {
            std::mem::forget(library);
            true
        }
        Err(_) => false,
    }
}

/// The path of a library that this process has loaded.
fn loaded(file: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps.lines().find_map(|l| l.split_whitespace().nth(5).filter(|p| p.ends_with(file)))?;
    Some(PathBuf::from(path))
}

/// Folders that may hold libraries, best first.
fn folders(package: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for base in PACKAGES.lock().iter() {
        let nvidia = base.join("nvidia");
        all.extend(MAJORS.iter().map(|m| nvidia.join(format!("cu{m}")).join("lib")));
        all.push(nvidia.join(package).join("lib"));
    }
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        if let Some(home) = std::env::var_os(variable).filter(|v| !v.is_empty()) {
            all.push(PathBuf::from(home).join("lib64"));
        }
    }
    all.push(PathBuf::from("/usr/local/cuda/lib64"));
    all
}
