//! Copies, by the size of what is moved.

use super::symbol;
use crate::symbols::Symbol;

pub(super) fn add(all: &mut Vec<Symbol>) {
    const FILE: &str = "copy.cu";
    all.push(symbol(FILE, "copy_flat", &[]));
    all.push(symbol(FILE, "copy_fill", &[]));
    for bytes in ["1", "2", "4", "8", "16"] {
        all.push(symbol(FILE, "copy_rows", &[bytes]));
    }
    for bytes in ["1", "2", "4", "8"] {
        all.push(symbol(FILE, "copy_spread", &[bytes]));
        all.push(symbol(FILE, "copy_tiles", &[bytes]));
    }
}
