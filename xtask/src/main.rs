//! Tools of this repository that are programs rather than shell lines: `cargo run -p xtask -- WORD`.
//!
//! They check what no compiler checks (that a family's word names a file in every layer, that the house
//! numbers hold) and write what no person should (the Python stubs). Findings go to the standard output, one
//! a line, in the form `path: what is wrong: what to do`, so that editors can jump to them.

#![forbid(unsafe_code)]

#[path = "../../crates/oxmlx-kernels/src/families/mod.rs"]
mod families;
mod house;
mod kernels;
mod mirror;
#[path = "../../crates/oxmlx-kernels/build/nvcc.rs"]
mod nvcc;
mod stubs;
// The tables of kernels are included, not linked: a build of their crate would compile them all.
#[allow(dead_code)]
#[path = "../../crates/oxmlx-kernels/src/symbols.rs"]
mod symbols;
mod tree;

use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "usage: cargo run -p xtask -- WORD

  mirror           check the mirror rule and the house numbers; exit code 1 if something is wrong
  mirror --notes   the same, and list the files that are longer than is aimed at
  stubs            write python/oxmlx/_core.pyi from the installed module
  stubs --check    say whether the committed stubs are what `stubs` would write
  kernels          compile every kernel for every architecture of a release (needs nvcc, no GPU)
  kernels --arch A the same for some, for example 80,90
  kernels --list   names of all kernels";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    // The workspace's root is where this crate's folder is.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let outcome = match words.as_slice() {
        ["mirror"] => check(root, false),
        ["mirror", "--notes"] => check(root, true),
        ["stubs"] => stubs::write(root),
        ["stubs", "--check"] => stubs::check(root),
        ["kernels"] => kernels::compile(root, None),
        ["kernels", "--arch", archs] => kernels::compile(root, Some(archs)),
        ["kernels", "--list"] => Ok(kernels::list()),
        _ => Err(HELP.to_string()),
    };
    match outcome {
        Ok(message) => {
            println!("{message}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn check(root: &Path, list_notes: bool) -> Result<String, String> {
    let files = tree::Tree::read(root)?;
    let mut report = mirror::check(&files);
    report.extend(house::check(&files));
    report.finish(list_notes)
}

/// What a check found.
#[derive(Default)]
pub struct Report {
    /// What must be changed.
    pub errors: Vec<String>,
    /// What may be looked at.
    pub notes: Vec<String>,
    /// Things that were looked at, for the closing line.
    pub checked: Vec<String>,
}

impl Report {
    fn extend(&mut self, other: Report) {
        self.errors.extend(other.errors);
        self.notes.extend(other.notes);
        self.checked.extend(other.checked);
    }

    fn finish(mut self, list_notes: bool) -> Result<String, String> {
        self.errors.sort();
        self.notes.sort();
        let mut lines = Vec::new();
        if list_notes {
            lines.append(&mut self.notes);
        } else if !self.notes.is_empty() {
            lines.push(format!("{} notes: `xtask mirror --notes` lists them", self.notes.len()));
        }
        if self.errors.is_empty() {
            lines.push(format!("mirror: in order ({})", self.checked.join(", ")));
            return Ok(lines.join("\n"));
        }
        lines.append(&mut self.errors);
        lines.push("mirror: not in order; each line above says what to do".to_string());
        Err(lines.join("\n"))
    }
}
