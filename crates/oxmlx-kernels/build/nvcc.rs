//! Finding nvcc and compiling a family with it: shared by the build script and `xtask kernels`.
//!
//! The compiler is optional. A family is compiled as one file, its template and a line for each symbol, and
//! kept under the hash of all that went into it, so that unchanged kernels are never compiled again.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiler that was found.
pub struct Nvcc {
    /// The program.
    pub path: PathBuf,
    /// What it says about itself.
    pub version: String,
}

impl Nvcc {
    /// The first of: OXMLX_NVCC, CUDA_HOME or CUDA_PATH, PATH, and NVIDIA's packages of a Python environment
    /// whose programs are on PATH. `OXMLX_NVCC=none` finds none.
    pub fn find() -> Option<Nvcc> {
        if let Some(named) = std::env::var_os("OXMLX_NVCC").filter(|v| !v.is_empty()) {
            return if named == "none" { None } else { Nvcc::at(PathBuf::from(named)) };
        }
        let homes = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os).filter(|h| !h.is_empty());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let packaged = folders.iter().flat_map(|f| environments(&f.join("../lib")));
        homes
            .map(|h| Path::new(&h).join("bin"))
            .chain(folders.iter().cloned())
            .chain(packaged)
            .map(|f| f.join("nvcc"))
            .find_map(Nvcc::at)
    }

    fn at(path: PathBuf) -> Option<Nvcc> {
        let said = Command::new(&path).arg("--version").output().ok().filter(|o| o.status.success())?;
        Some(Nvcc { path, version: String::from_utf8_lossy(&said.stdout).into_owned() })
    }

    /// Compiles a text whose includes are files of `root` into a fat binary for these architectures.
    ///
    /// # Errors
    /// What the compiler said.
    pub fn compile(&self, text: &str, root: &Path, archs: &[u32], out: &Path) -> Result<(), String> {
        let source = out.with_extension("cu");
        let io = |e: std::io::Error| format!("{}: {e}", source.display());
        std::fs::write(&source, text).map_err(io)?;
        // Another build may compile the same: whoever is last renames the same bytes into place.
        let part = out.with_extension(format!("{}.part", std::process::id()));
        let mut command = Command::new(&self.path);
        command.args(FLAGS).arg("-I").arg(root).args(targets(archs)).arg(&source).arg("-o").arg(&part);
        let done = command.output().map_err(|e| format!("{}: {e}", self.path.display()))?;
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into_owned());
        }
        std::fs::rename(&part, out).map_err(io)
    }

    /// The pack of a family, compiled unless the folder has it.
    ///
    /// # Errors
    /// What the compiler said.
    pub fn pack(&self, text: &str, root: &Path, archs: &[u32], folder: &Path) -> Result<PathBuf, String> {
        let mut hash = DefaultHasher::new();
        (text, &self.version, FLAGS, archs).hash(&mut hash);
        for path in included(text, root) {
            std::fs::read_to_string(root.join(&path)).unwrap_or_default().hash(&mut hash);
        }
        let out = folder.join(format!("{:016x}.fatbin", hash.finish()));
        if !out.exists() {
            std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            self.compile(text, root, archs, &out)?;
        }
        Ok(out)
    }
}

/// The same flags as NVRTC gets: both routes make the same code.
const FLAGS: &[&str] = &["-fatbin", "-std=c++17", "--fmad=false", "--compress-mode=size"];

/// Machine code for each architecture.
fn targets(archs: &[u32]) -> Vec<String> {
    archs.iter().map(|a| format!("-gencode=arch=compute_{a},code=sm_{a}")).collect()
}

/// Where NVIDIA's packages put nvcc, in the library folder of an environment.
fn environments(lib: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(lib) else { return Vec::new() };
    let pythons = entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with("python3"));
    pythons.map(|e| e.path().join("site-packages/nvidia/cu13/bin")).collect()
}

/// The files of `root` that a text includes, directly or not.
fn included(text: &str, root: &Path) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![text.to_string()]);
    while let Some(text) = open.pop() {
        for line in text.lines() {
            let Some(rest) = line.trim_start().strip_prefix("#include \"") else { continue };
            let Some(path) = rest.split('"').next() else { continue };
            if found.insert(path.to_string()) {
                open.push(std::fs::read_to_string(root.join(path)).unwrap_or_default());
            }
        }
    }
    found
}

/// A family's text: its file, then a line for each of its symbols.
pub fn text<'a>(file: &str, lines: impl Iterator<Item = &'a str>) -> String {
    let mut text = format!("#include \"{file}\"\n");
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text
}
