//! Every kernel that a pack holds, generated from the families' tables.

/// One kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Its entry point, for example `reduce_columns_sum_float32`.
    pub name: String,
    /// The file of `kernels/` that has the template, for example `reduce.cu`.
    pub file: &'static str,
    /// The line that makes the entry point, for example `REDUCE_COLUMNS(sum, float32)`.
    pub line: String,
}

/// All symbols.
pub fn symbols() -> Vec<Symbol> {
    crate::families::all()
}
