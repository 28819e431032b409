//! Gathers and scatters.

use super::{DTYPES, SUMS, symbol};
use crate::symbols::Symbol;

pub(super) fn add(all: &mut Vec<Symbol>) {
    const FILE: &str = "index.cu";
    for bytes in ["1", "2", "4", "8", "16"] {
        all.push(symbol(FILE, "gather_rows", &[bytes]));
    }
    for bytes in ["1", "2", "4", "8"] {
        all.push(symbol(FILE, "gather_axis", &[bytes]));
    }
    all.push(symbol(FILE, "scatter_slots", &[]));
    for key in ["uint32", "uint64"] {
        for stage in ["scatter_count", "scatter_scan", "scatter_sort"] {
            all.push(symbol(FILE, stage, &[key]));
        }
    }
    let mut fold = |op: &str, dtype: &str| {
        for stage in ["scatter_few", "scatter_sorted", "scatter_finish", "scatter_columns"] {
            all.push(symbol(FILE, stage, &[op, dtype]));
        }
    };
    for dtype in SUMS {
        fold("sum", dtype);
        fold("prod", dtype);
    }
    // Max and min of bools are those of bytes.
    for dtype in &DTYPES[1..] {
        fold("max", dtype);
        fold("min", dtype);
    }
    for dtype in ["uint8", "uint16", "uint32", "uint64"] {
        fold("last", dtype);
    }
}
