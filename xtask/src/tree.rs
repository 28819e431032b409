//! The repository's text files in memory, so that checks are functions of data and can be tested on trees
//! that never existed.

use std::collections::BTreeMap;
use std::path::Path;

/// Folders that hold what was built or what belongs to the machine.
const SKIPPED: &[&str] = &["target", ".git", ".venv", "venv", "node_modules", "__pycache__", "out", "dist"];
/// Endings of the files that checks look at.
const READ: &[&str] = &["rs", "py", "cu", "cuh", "pyi"];

/// Contents by path, relative to the root, with `/` between the parts.
#[derive(Default)]
pub struct Tree(BTreeMap<String, String>);

impl Tree {
    /// The files under `root`.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree::default();
        tree.walk(root, "")?;
        if tree.0.is_empty() {
            return Err(format!("{}: no source files here", root.display()));
        }
        Ok(tree)
    }

    fn walk(&mut self, folder: &Path, prefix: &str) -> Result<(), String> {
        let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            if kind.is_dir() {
                if !SKIPPED.contains(&name.as_str()) && !name.starts_with('.') {
                    self.walk(&path, &format!("{prefix}{name}/"))?;
                }
            } else if path.extension().is_some_and(|e| READ.iter().any(|r| e == *r)) {
                let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
                self.0.insert(format!("{prefix}{name}"), text);
            }
        }
        Ok(())
    }

    /// Every file with its text, by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Whether there is such a file.
    pub fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// The words that name a `.rs` file or a folder directly under `folder`, without `mod` and `tests`.
    pub fn words(&self, folder: &str) -> Vec<String> {
        let mut words: Vec<String> = self
            .files()
            .filter_map(|(path, _)| path.strip_prefix(folder)?.strip_prefix('/'))
            .map(|rest| rest.split('/').next().unwrap_or(rest))
            .map(|first| first.strip_suffix(".rs").unwrap_or(first).to_string())
            .filter(|word| word != "mod" && word != "tests")
            .collect();
        words.dedup();
        words
    }

    /// A tree made of pairs of path and text.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        Tree(files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect())
    }
}
