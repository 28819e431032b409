//! The tables of kernels, one file a family.

mod block;
mod copy;
mod create;
mod index;
mod matmul;
mod reduce;

use crate::symbols::Symbol;

/// The element types' names, as symbols spell them.
pub(crate) const DTYPES: [&str; 14] = [
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "complex64",
];

/// Types for which a sum or product is not another type's.
pub(crate) const SUMS: [&str; 9] =
    ["uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bfloat16", "complex64"];

/// `NAME_a_b` from `MACRO(a, b)`.
pub(crate) fn symbol(file: &'static str, stem: &str, args: &[&str]) -> Symbol {
    let mut name = stem.to_string();
    for arg in args {
        name.push('_');
        name.push_str(arg);
    }
    let line = format!("{}({})", stem.to_uppercase(), args.join(", "));
    Symbol { name, file, line }
}

/// All symbols, family by family.
pub(crate) fn all() -> Vec<Symbol> {
    let mut all = Vec::new();
    block::add(&mut all);
    copy::add(&mut all);
    create::add(&mut all);
    index::add(&mut all);
    matmul::add(&mut all);
    reduce::add(&mut all);
    all
}
