//! Embeds the device code: every file of `kernels/`, and packs of all symbols where nvcc is found.
//!
//! OXMLX_NVCC names the compiler (`none`: don't look for one), OXMLX_CUDA_ARCHS the architectures (90 unless
//! said otherwise), OXMLX_KERNEL_CACHE the folder in which compiled packs are kept.

#[path = "../src/families/mod.rs"]
mod families;
mod nvcc;
#[path = "../src/symbols.rs"]
#[allow(dead_code)]
mod symbols;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

fn main() -> Result<(), String> {
    let var = |name: &str| std::env::var(name).map_err(|e| format!("{name}: {e}"));
    let root = Path::new(&var("CARGO_MANIFEST_DIR")?).join("../../kernels");
    let root = root.canonicalize().map_err(|e| format!("{}: {e}", root.display()))?;
    let out = PathBuf::from(var("OUT_DIR")?);
    println!("cargo:rerun-if-changed={}", root.display());
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=build");
    for name in ["OXMLX_NVCC", "OXMLX_CUDA_ARCHS", "OXMLX_KERNEL_CACHE", "CUDA_HOME", "CUDA_PATH", "PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let mut files = Vec::new();
    list(&root, &mut files)?;
    files.sort();
    let mut made = String::from(
        "/// Every file of `kernels/`, by its path there.\npub const SOURCES: &[(&str, &str)] = &[\n",
    );
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).display().to_string();
        let _ = writeln!(made, "    ({name:?}, include_str!({:?})),", file.display().to_string());
    }
    made.push_str("];\n\n");
    let archs = architectures()?;
    let packs = match nvcc::Nvcc::find() {
        Some(nvcc) => compile(&nvcc, &root, &archs, &cache(&out))?,
        None => Vec::new(),
    };
    let archs: &[u32] = if packs.is_empty() { &[] } else { &archs };
    let _ = writeln!(made, "const ARCHITECTURES: &[u32] = &{archs:?};\n\nconst PACKS: &[(&str, &[u8])] = &[");
    for (file, pack) in &packs {
        let _ = writeln!(made, "    ({file:?}, include_bytes!({:?})),", pack.display().to_string());
    }
    made.push_str("];\n");
    std::fs::write(out.join("embedded.rs"), made).map_err(|e| format!("embedded.rs: {e}"))
}

/// All files below a folder that are device code.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    for entry in std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "cu" || e == "cuh") {
            files.push(path);
        }
    }
    Ok(())
}

fn architectures() -> Result<Vec<u32>, String> {
    let text = std::env::var("OXMLX_CUDA_ARCHS").ok().filter(|v| !v.trim().is_empty());
    let text = text.unwrap_or_else(|| "90".to_string());
    let number =
        |s: &str| s.trim().parse().map_err(|_| format!("OXMLX_CUDA_ARCHS: {s:?} is no architecture"));
    text.split([',', ';', ' ']).filter(|s| !s.trim().is_empty()).map(number).collect()
}

/// Where packs are kept: a folder that outlives changes of this crate.
fn cache(out: &Path) -> PathBuf {
    if let Some(folder) = std::env::var_os("OXMLX_KERNEL_CACHE").filter(|v| !v.is_empty()) {
        return PathBuf::from(folder);
    }
    // Cargo marks the root of its target folder.
    match out.ancestors().find(|a| a.join("CACHEDIR.TAG").exists()) {
        Some(target) => target.join("oxmlx-packs"),
        None => out.join("packs"),
    }
}

/// The packs of all families, two at a time.
fn compile(
    nvcc: &nvcc::Nvcc,
    root: &Path,
    archs: &[u32],
    folder: &Path,
) -> Result<Vec<(&'static str, PathBuf)>, String> {
    let mut by_file: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for s in families::all() {
        by_file.entry(s.file).or_default().push(s.line);
    }
    let todo = Mutex::new(by_file.into_iter());
    let done = Mutex::new(Vec::new());
    let work = || -> Result<(), String> {
        loop {
            let next = todo.lock().map_err(|e| e.to_string())?.next();
            let Some((file, lines)) = next else { return Ok(()) };
            let text = nvcc::text(file, lines.iter().map(String::as_str));
            let pack = nvcc.pack(&text, root, archs, folder).map_err(|e| format!("{file}: {e}"))?;
            done.lock().map_err(|e| e.to_string())?.push((file, pack));
        }
    };
    std::thread::scope(|s| {
        let other = s.spawn(work);
        let mine = work();
        let other = other.join().map_err(|_| "a compiling thread panicked".to_string())?;
        mine.and(other)
    })?;
    let mut packs = done.into_inner().map_err(|e| e.to_string())?;
    packs.sort();
    Ok(packs)
}
