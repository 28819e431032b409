//! Matrix products with few rows, and small ones.

use super::symbol;
use crate::symbols::Symbol;

pub(super) fn add(all: &mut Vec<Symbol>) {
    const FILE: &str = "matmul.cu";
    for dtype in ["float32", "float16", "bfloat16", "float64", "complex64"] {
        let wide = dtype == "float64" || dtype == "complex64";
        for rows in if wide { &["4"][..] } else { &["1", "4", "8"] } {
            all.push(symbol(FILE, "product_dots", &[dtype, rows]));
            all.push(symbol(FILE, "product_lines", &[dtype, rows]));
        }
        for edge in ["16", "32"] {
            all.push(symbol(FILE, "product_tiles", &[dtype, edge]));
        }
        all.push(symbol(FILE, "product_finish", &[dtype]));
    }
}
