//! Gathers and scatters.
use crate::record::{Encoding, Operand};
use oxmlx_core::primitive::ScatterMode;
use oxmlx_types::Result;
pub(crate) fn gather(_: &Operand<'_>, _: &[Operand<'_>], _: &[u8], _: &Operand<'_>, _: &mut Encoding) -> Result<()> { Ok(()) }
pub(crate) fn gather_axis(_: &Operand<'_>, _: &Operand<'_>, _: u8, _: &Operand<'_>, _: &mut Encoding) -> Result<()> { Ok(()) }
pub(crate) fn scatter(_: &Operand<'_>, _: &[Operand<'_>], _: &Operand<'_>, _: &[u8], _: ScatterMode, _: &Operand<'_>, _: &mut Encoding) -> Result<()> { Ok(()) }
pub(crate) fn scatter_axis(_: &Operand<'_>, _: &Operand<'_>, _: &Operand<'_>, _: u8, _: ScatterMode, _: &Operand<'_>, _: &mut Encoding) -> Result<()> { Ok(()) }
