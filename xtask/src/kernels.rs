//! `xtask kernels`: every kernel compiled for every architecture that a release has code for, without a GPU.
//!
//! The build compiles for one architecture; what only an older or newer one refuses is found here. Packs are
//! kept by content, as the build keeps them, so that a second run compiles what has changed.

use crate::{families, nvcc};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

/// What a release is compiled for.
const RELEASE: &[u32] = &[75, 80, 86, 89, 90, 100, 120];

/// Names of all kernels, one a line.
pub fn list() -> String {
    let names: Vec<String> = families::all().into_iter().map(|s| s.name).collect();
    names.join("\n")
}

/// The symbols' lines by file.
fn by_file() -> BTreeMap<&'static str, Vec<String>> {
    let mut files: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for s in families::all() {
        files.entry(s.file).or_default().push(s.line);
    }
    files
}

/// Compiles all families for these architectures (the release's, where none are named), two at a time.
pub fn compile(root: &Path, archs: Option<&str>) -> Result<String, String> {
    let number = |s: &str| s.trim().parse::<u32>().map_err(|_| format!("{s:?} is no architecture"));
    let archs: Vec<u32> = match archs {
        Some(list) => list.split(',').map(number).collect::<Result<_, _>>()?,
        None => RELEASE.to_vec(),
    };
    let nvcc = nvcc::Nvcc::find().ok_or("There is no nvcc: name one with OXMLX_NVCC, or put it on PATH.")?;
    let folder = match std::env::var_os("OXMLX_KERNEL_CACHE").filter(|v| !v.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => {
            let target = std::env::var_os("CARGO_TARGET_DIR").filter(|v| !v.is_empty());
            target.map_or_else(|| root.join("target"), PathBuf::from).join("oxmlx-packs")
        }
    };
    let files = by_file();
    let jobs = files.iter().flat_map(|(file, lines)| archs.iter().map(move |&a| (*file, lines, a)));
    let (todo, done) = (Mutex::new(jobs), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some((file, lines, arch)) = todo.lock().ok().and_then(|mut t| t.next()) {
            let text = nvcc::text(file, lines.iter().map(String::as_str));
            let begin = Instant::now();
            let pack = nvcc.pack(&text, &root.join("kernels"), &[arch], &folder);
            let size = pack.and_then(|p| std::fs::metadata(p).map(|m| m.len()).map_err(|e| e.to_string()));
            if let Ok(mut done) = done.lock() {
                done.insert((file, arch), (begin.elapsed(), size));
            }
        }
    };
    std::thread::scope(|s| {
        s.spawn(work);
        work();
    });
    let (mut report, mut failed) = (String::new(), 0);
    let mut counts = files.iter().map(|(f, l)| format!("{f} {}", l.len())).collect::<Vec<_>>();
    counts.push(format!("all {}", files.values().map(Vec::len).sum::<usize>()));
    for ((file, arch), (time, size)) in done.into_inner().map_err(|e| e.to_string())? {
        let seconds = time.as_secs_f64();
        match size {
            Ok(bytes) => {
                let _ =
                    writeln!(report, "{file} sm_{arch}: {:.0} KiB in {seconds:.1} s", bytes as f64 / 1024.0);
            }
            Err(message) => {
                failed += 1;
                let _ = writeln!(report, "{file} sm_{arch}: does not compile:\n{message}");
            }
        }
    }
    let _ = write!(report, "symbols: {}", counts.join(", "));
    if failed == 0 { Ok(report) } else { Err(report) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_files_exist() {
        let names = list();
        let mut all: Vec<&str> = names.lines().collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels");
        for file in by_file().keys() {
            assert!(root.join(file).exists(), "{file}");
        }
    }
}
