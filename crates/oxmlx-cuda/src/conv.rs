//! Convolutions.
use crate::record::{Encoding, Operand};
use oxmlx_core::primitive::ConvGeometry;
use oxmlx_types::Result;
pub(crate) fn conv(_: &ConvGeometry, _: &Operand<'_>, _: &Operand<'_>, _: &Operand<'_>, _: &mut Encoding) -> Result<()> { Ok(()) }
