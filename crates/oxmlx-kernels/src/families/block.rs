//! The parameter block and the signal.

use super::symbol;
use crate::symbols::Symbol;

pub(crate) fn add(all: &mut Vec<Symbol>) {
    for words in ["64", "480", "3968"] {
        all.push(symbol("block.cu", "block_put", &[words]));
    }
    all.push(symbol("block.cu", "block_signal", &[]));
}
