//! Matrix products.

use crate::record::{Encoding, Operand};
use oxmlx_types::{Error, ErrorKind, Result};

/// `a @ b`.
pub(crate) fn encode(_: &Operand<'_>, _: &Operand<'_>, _: &Operand<'_>, _: &mut Encoding) -> Result<()> {
    Err(Error::new(ErrorKind::Unsupported, "matmul", "Not yet.".to_string()))
}
