//! The CPU backend: structured kernels over strided views.

#[cfg(test)]
mod bench;
mod copy;
mod create;
mod element;
mod gemm_block;
mod gemv;
mod isa;
mod matmul;
mod par;
mod random;
mod scratch;
#[cfg(test)]
mod testing;
mod view;
mod index { pub(crate) fn out_of_range(op: &'static str, i: i64, n: usize) -> oxmlx_types::Error { oxmlx_types::Error::new(oxmlx_types::ErrorKind::OutOfRange, op, format!("Index {i} is out of bounds for axis of length {n}.")) } }
