//! Arrays from nothing: arange.

use crate::record::{Encoding, Operand, Word};
use crate::walk::{THREADS, grid};
use oxmlx_types::Result;

/// `start + i * step`; both are run-time words: float64s for inexact outputs, int64s otherwise.
pub(crate) fn arange(params: u32, out: &Operand<'_>, e: &mut Encoding) -> Result<()> {
    let n = out.size();
    if n == 0 {
        return Ok(());
    }
    let record = [out.address(), Word::from(n), Word::Param(params), Word::Param(params + 1)];
    let per_block = THREADS * 16 / out.dtype.size();
    e.launch(&format!("arange_{}", out.dtype), grid(n.div_ceil(per_block)), &record)
}
