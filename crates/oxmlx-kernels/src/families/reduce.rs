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
    for dtype in SUMS {
        fold("sum", dtype);
        fold("prod", dtype);
    }
    for dtype in &DTYPES[1..] {
        fold("max", dtype);
        fold("min", dtype);
    }
    // Truth is a matter of bits: signs and, of halves, the type make no difference.
    for dtype in ["uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64"] {
        fold("all", dtype);
        fold("any", dtype);
    }
    for dtype in &DTYPES[1..] {
        for op in ["max", "min"] {
            for stage in ["arg_columns", "arg_rows", "arg_finish"] {
                all.push(symbol(FILE, stage, &[op, dtype]));
            }
        }
    }
}
