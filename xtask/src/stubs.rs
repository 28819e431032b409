//! The Python stubs of the native module.
//!
//! They are written by `stubs.py`, which asks the built module for its names, signatures and documentation:
//! no second description of the binding exists that could drift from it. This module finds the interpreter,
//! runs the script, and compares.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The committed stubs.
const STUBS: &str = "python/oxmlx/_core.pyi";
const SCRIPT: &str = "xtask/src/stubs.py";

/// Writes the stubs.
pub fn write(root: &Path) -> Result<String, String> {
    let text = generate(root)?;
    let path = root.join(STUBS);
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(format!("stubs: wrote {STUBS}"))
}

/// Says whether the committed stubs are those of the installed module.
pub fn check(root: &Path) -> Result<String, String> {
    let committed = std::fs::read_to_string(root.join(STUBS)).unwrap_or_default();
    compare(&committed, &generate(root)?)
}

fn compare(committed: &str, generated: &str) -> Result<String, String> {
    if committed == generated {
        return Ok(format!("stubs: {STUBS} is up to date"));
    }
    let differs = committed.lines().zip(generated.lines()).position(|(a, b)| a != b);
    let line = differs.unwrap_or(committed.lines().count().min(generated.lines().count()));
    let text = generated.lines().nth(line).unwrap_or("the end of the file");
    let number = line + 1;
    Err(format!(
        "{STUBS}:{number}: the installed module has `{}` here: run `make build` and `cargo run -p xtask -- stubs`, and \
         commit the result",
        text.trim()
    ))
}

fn generate(root: &Path) -> Result<String, String> {
    let python = python(root);
    let run = Command::new(&python).arg(root.join(SCRIPT)).current_dir(root).output();
    let output = run.map_err(|e| format!("{}: {e}: run `make build` first", python.display()))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let reason = errors.lines().last().unwrap_or("it failed");
        return Err(format!("{SCRIPT}: {reason}: run `make build`, which installs the module, first"));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("{SCRIPT}: {e}"))
}

/// The interpreter that has the module: `OXMLX_PYTHON`, or that of `.venv`.
fn python(root: &Path) -> PathBuf {
    match std::env::var_os("OXMLX_PYTHON") {
        Some(path) if !path.is_empty() => path.into(),
        _ => root.join(".venv/bin/python"),
    }
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn the_first_difference_is_named() {
        assert!(compare("a\nb\n", "a\nb\n").is_ok());
        let changed = compare("a\nb\n", "a\nc\n").unwrap_err();
        assert!(changed.contains("_core.pyi:2:") && changed.contains("`c`"), "{changed}");
        let longer = compare("a\n", "a\nb\n").unwrap_err();
        assert!(longer.contains("_core.pyi:2:") && longer.contains("`b`"), "{longer}");
        assert!(compare("a\nb\n", "a\n").unwrap_err().contains("the end of the file"));
    }
}
