//! The mirror rule: an op family has one word, and that word names its file in every layer. Who knows one
//! layer knows where everything is, in all of them; so a word that is missing somewhere is either an
//! oversight or one of the decisions below, each with its reason.

use crate::Report;
use crate::tree::Tree;

/// Where the words come from.
const FAMILIES: &str = "crates/oxmlx-core/src/ops";

/// A layer that mirrors the families.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layer {
    Cpu,
    Python,
    Tests,
}

impl Layer {
    const ALL: [Layer; 3] = [Layer::Cpu, Layer::Python, Layer::Tests];

    /// What a person must make so that the layer has the word.
    fn wanted(self, word: &str) -> String {
        match self {
            Layer::Cpu => format!("crates/oxmlx-cpu/src/{word}.rs"),
            Layer::Python => format!("crates/oxmlx-python/src/ops/{word}.rs"),
            Layer::Tests => format!(
                "a list {} in tests/python/op_table.py or op_table_structured.py, tests/python/test_{word}.py, or \
                 tests/rust/{word}.rs",
                word.to_uppercase()
            ),
        }
    }

    fn has(self, tree: &Tree, word: &str) -> bool {
        let in_folder = |folder: &str| tree.words(folder).iter().any(|w| w == word);
        match self {
            Layer::Cpu => in_folder("crates/oxmlx-cpu/src"),
            Layer::Python => in_folder("crates/oxmlx-python/src/ops"),
            Layer::Tests => {
                let list = format!("{} = ", word.to_uppercase());
                tree.has(&format!("tests/python/test_{word}.py"))
                    || tree.has(&format!("tests/rust/{word}.rs"))
                    || tree.files().any(|(path, text)| {
                        path.starts_with("tests/python/op_table")
                            && text.lines().any(|l| l.starts_with(&list))
                    })
            }
        }
    }
}

/// Words that a layer does not have, and why that is right.
const EXCEPTIONS: &[(&str, Layer, &str)] = &[
    ("attention", Layer::Cpu, "a composite: the planner fuses what it is made of"),
    ("norm", Layer::Cpu, "a composite: the planner makes one row group of it"),
    ("slice", Layer::Cpu, "a slice is a view and costs nothing; slice_update is in copy.rs"),
    (
        "slice",
        Layer::Python,
        "Python slices by indexing (array/index.rs, array/assign.rs); pad is bound in shape.rs",
    ),
    ("slice", Layer::Tests, "tests/python/test_indexing.py and the rows in SHAPE"),
    ("random", Layer::Python, "MLX has it as a submodule: crates/oxmlx-python/src/random.rs"),
    ("norm", Layer::Tests, "MLX has it in mx.fast: the rows are in FAST"),
    ("attention", Layer::Tests, "MLX has it in mx.fast: the rows are in FAST"),
    ("create", Layer::Tests, "creation has no operands to vary: tests/python/test_array.py"),
];

/// Checks every family in every layer.
pub fn check(tree: &Tree) -> Report {
    check_with(tree, EXCEPTIONS)
}

fn check_with(tree: &Tree, exceptions: &[(&str, Layer, &str)]) -> Report {
    let mut report = Report::default();
    let families = tree.words(FAMILIES);
    for word in &families {
        for layer in Layer::ALL {
            let reason = exceptions.iter().find(|e| e.0 == word && e.1 == layer).map(|e| e.2);
            match (layer.has(tree, word), reason) {
                (false, None) => report.errors.push(format!(
                    "{FAMILIES}: the family `{word}` is missing in the layer {layer:?}: add {}, or an exception with \
                     its reason to xtask/src/mirror.rs",
                    layer.wanted(word)
                )),
                (true, Some(reason)) => report.errors.push(format!(
                    "xtask/src/mirror.rs: `{word}` is in the layer {layer:?} after all, although the exception says \
                     \"{reason}\": remove the exception"
                )),
                _ => {}
            }
        }
    }
    for (word, _, _) in exceptions.iter().filter(|e| !families.iter().any(|f| f == e.0)) {
        report
            .errors
            .push(format!("xtask/src/mirror.rs: no family is called `{word}`: remove its exceptions"));
    }
    for word in tree.words("crates/oxmlx-python/src/ops") {
        if !families.contains(&word) {
            report.errors.push(format!(
                "crates/oxmlx-python/src/ops/{word}.rs: no family of {FAMILIES} has this word: name it by its family"
            ));
        }
    }
    report.checked.push(format!("{} families", families.len()));
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &[(&str, &str)] = &[
        ("crates/oxmlx-core/src/ops/mod.rs", ""),
        ("crates/oxmlx-core/src/ops/sort.rs", ""),
        ("crates/oxmlx-core/src/ops/elementwise/mod.rs", ""),
        ("crates/oxmlx-core/src/ops/elementwise/unary.rs", ""),
        ("crates/oxmlx-cpu/src/sort/mod.rs", ""),
        ("crates/oxmlx-cpu/src/elementwise.rs", ""),
        ("crates/oxmlx-python/src/ops/mod.rs", ""),
        ("crates/oxmlx-python/src/ops/sort.rs", ""),
        ("crates/oxmlx-python/src/ops/elementwise.rs", ""),
        ("tests/python/op_table.py", "import x\nELEMENTWISE = [\n]\n"),
        ("tests/rust/sort.rs", ""),
    ];

    fn without(path: &str) -> Tree {
        let rest: Vec<(&str, &str)> = WHOLE.iter().copied().filter(|f| f.0 != path).collect();
        Tree::of(&rest)
    }

    #[test]
    fn a_whole_tree_is_in_order() {
        assert!(check_with(&Tree::of(WHOLE), &[]).errors.is_empty());
    }

    #[test]
    fn every_missing_file_is_named() {
        for (path, wanted) in [
            ("crates/oxmlx-cpu/src/sort/mod.rs", "crates/oxmlx-cpu/src/sort.rs"),
            ("crates/oxmlx-python/src/ops/sort.rs", "crates/oxmlx-python/src/ops/sort.rs"),
            ("tests/rust/sort.rs", "tests/python/test_sort.py"),
            ("tests/python/op_table.py", "a list ELEMENTWISE"),
        ] {
            let errors = check_with(&without(path), &[]).errors;
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert!(errors[0].contains(wanted), "{errors:?}");
        }
    }

    #[test]
    fn exceptions_hold_and_go_stale() {
        let exception = [("sort", Layer::Cpu, "because")];
        assert!(check_with(&without("crates/oxmlx-cpu/src/sort/mod.rs"), &exception).errors.is_empty());
        let errors = check_with(&Tree::of(WHOLE), &exception).errors;
        assert!(errors[0].contains("remove the exception"), "{errors:?}");
        let unknown = check_with(&Tree::of(WHOLE), &[("fft", Layer::Cpu, "because")]).errors;
        assert!(unknown[0].contains("no family is called `fft`"), "{unknown:?}");
    }

    #[test]
    fn a_binding_without_a_family_is_found() {
        let mut files = WHOLE.to_vec();
        files.push(("crates/oxmlx-python/src/ops/misc.rs", ""));
        let errors = check_with(&Tree::of(&files), &[]).errors;
        assert!(errors.len() == 1 && errors[0].contains("misc.rs"), "{errors:?}");
    }
}
