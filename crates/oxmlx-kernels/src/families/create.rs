//! Arrays from formulas, and random words.

use super::{DTYPES, symbol};
use crate::symbols::Symbol;

pub(super) fn add(all: &mut Vec<Symbol>) {
    all.extend(DTYPES.map(|d| symbol("create.cu", "arange", &[d])));
    all.push(symbol("random.cu", "random_bits", &[]));
    for d in ["float16", "float32", "float64", "bfloat16", "complex64"] {
        all.push(symbol("conv.cu", "conv_direct", &[d]));
    }
    for bytes in ["1", "2", "4", "8", "16"] {
        all.push(symbol("conv.cu", "conv_unfold", &[bytes]));
    }
}
