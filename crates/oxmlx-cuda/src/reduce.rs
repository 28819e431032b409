//! Reductions along any axes but a row's, and positions of extremes.
use crate::record::{Encoding, Operand};
use oxmlx_core::primitive::ReduceOp;
use oxmlx_types::Result;
pub(crate) fn reduce(_: ReduceOp, _: &[u8], _: &Operand<'_>, _: &Operand<'_>, _: &mut Encoding) -> Result<()> { Ok(()) }
pub(crate) fn arg_reduce(_: bool, _: u8, _: &Operand<'_>, _: &Operand<'_>, _: &mut Encoding) -> Result<()> { Ok(()) }
