//! Reductions, and positions of extremes.

use super::{DTYPES, SUMS, symbol};
use crate::symbols::Symbol;

pub(super) fn add(all: &mut Vec<Symbol>) {
    const FILE: &str = "reduce.cu";
    let mut fold = |op: &str, dtype: &str| {
        for stage in ["reduce_columns", "reduce_rows", "reduce_finish"] {
            all.push(symbol(FILE, stage, &[op, dtype]));
        }
    };
    // Sums and products of narrow integers are made in 32 bits, truths of bools only.
    for dtype in SUMS.iter().filter(|d| !["uint8", "uint16"].contains(d)) {
        fold("sum", dtype);
        fold("prod", dtype);
    }
    for dtype in &DTYPES[1..] {
        fold("max", dtype);
        fold("min", dtype);
    }
    fold("all", "uint8");
    fold("any", "uint8");
    for dtype in &DTYPES[1..] {
        for op in ["max", "min"] {
            for stage in ["arg_columns", "arg_rows", "arg_finish"] {
                all.push(symbol(FILE, stage, &[op, dtype]));
            }
        }
    }
}
