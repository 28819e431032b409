//! Element-wise operations: two tables, and all that follows from a row.

#[macro_use]
pub mod unary;
#[macro_use]
pub mod binary;
mod table;

pub use table::{BinaryOp, BinaryRule, UnaryOp, UnaryRule};
