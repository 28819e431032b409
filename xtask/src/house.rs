//! The house numbers: how long files get, that every module says why it exists, and where `unsafe` may be.
//! They are checked here because reviewers tire and a tool does not.

use crate::Report;
use crate::tree::Tree;

/// Lines that a file should have at most; above, it is a note.
const AIMED: usize = 400;
/// Lines that a file may have at most.
const HARD: usize = 800;

/// Files and folders that may hold `unsafe`; each use has its SAFETY line, which clippy demands.
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/oxmlx-cpu/",
    "crates/oxmlx-cuda/",
    "crates/oxmlx-core/src/runtime/memory/",
    "crates/oxmlx-python/src/array/buffer.rs",
];

/// Checks every file.
pub fn check(tree: &Tree) -> Report {
    let mut report = Report::default();
    let mut count = 0;
    for (path, text) in tree.files().filter(|(path, _)| !path.ends_with(".pyi")) {
        count += 1;
        length(path, text, &mut report);
        if path.ends_with(".rs") {
            if !text.starts_with("//!") {
                report.errors.push(format!(
                    "{path}: does not open with `//!`: begin with a paragraph that says why the module exists"
                ));
            }
            if !UNSAFE_ALLOWED.iter().any(|a| path.starts_with(a)) {
                report.errors.extend(unsafe_lines(text).map(|line| {
                    format!(
                        "{path}:{line}: `unsafe` outside {}: move the code there, or do without",
                        UNSAFE_ALLOWED.join(", ")
                    )
                }));
            }
        }
    }
    report.checked.push(format!("{count} files"));
    report
}

fn length(path: &str, text: &str, report: &mut Report) {
    let lines = text.lines().count();
    if lines > HARD {
        report.errors.push(format!("{path}: {lines} lines, {HARD} are the limit: split it by theme"));
    } else if lines > AIMED {
        report.notes.push(format!("{path}: {lines} lines, {AIMED} are aimed at"));
    }
}

/// Numbers of the lines with the keyword. Comments, strings and attributes such as `forbid(unsafe_code)` may
/// speak of it.
fn unsafe_lines(text: &str) -> impl Iterator<Item = usize> {
    let mut scan = Scan::default();
    text.lines().enumerate().filter(move |(_, line)| has_word(&scan.code(line), "unsafe")).map(|(i, _)| i + 1)
}

/// What is code in a file, line by line: strings and block comments may go over several.
#[derive(Default)]
struct Scan {
    in_comment: bool,
    in_string: bool,
}

impl Scan {
    fn code(&mut self, line: &str) -> String {
        let mut out = String::new();
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            match c {
                '*' if self.in_comment && next == Some('/') => {
                    self.in_comment = false;
                    chars.next();
                }
                _ if self.in_comment => {}
                '\\' if self.in_string => {
                    chars.next();
                }
                '"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                '/' if next == Some('/') => break,
                '/' if next == Some('*') => self.in_comment = true,
                // A quote character in quotes opens no string.
                '\'' if next == Some('"') => {
                    chars.next();
                }
                _ => out.push(c),
            }
        }
        out
    }
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).errors
    }

    #[test]
    fn long_files_are_notes_and_very_long_ones_errors() {
        let of = |n: usize| check(&Tree::of(&[("a.py", "x\n".repeat(n).as_str())]));
        assert!(of(400).notes.is_empty() && of(400).errors.is_empty());
        assert!(of(401).notes[0].contains("401 lines") && of(800).errors.is_empty());
        assert!(of(801).errors[0].contains("split it"));
    }

    #[test]
    fn modules_say_why_they_exist() {
        assert!(errors("a.rs", "//! Why.\n").is_empty());
        assert!(errors("a.rs", "use x;\n")[0].contains("does not open"));
        assert!(errors("a.py", "import x\n").is_empty());
    }

    #[test]
    fn unsafe_has_its_places() {
        let text = "//! Why.\nfn f() {\n    unsafe { g() }\n}\n";
        assert!(errors("crates/oxmlx/src/a.rs", text)[0].starts_with("crates/oxmlx/src/a.rs:3:"));
        assert!(errors("crates/oxmlx-cpu/src/a.rs", text).is_empty());
        assert!(errors("crates/oxmlx-core/src/runtime/memory/", text).is_empty());
    }

    #[test]
    fn the_word_alone_is_harmless() {
        let text = "//! unsafe\n#![forbid(unsafe_code)]\n// unsafe\nlet a = \"unsafe\"; /* unsafe\nunsafe */ let b = '\"';\n";
        assert!(errors("a.rs", text).is_empty());
        assert_eq!(unsafe_lines("\"a\nunsafe\n\"; unsafe {}").collect::<Vec<_>>(), vec![3]);
    }
}
