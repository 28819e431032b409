//! Operations, by family: each file holds a family's public functions and, beside them, its rules.

#[macro_use]
pub mod elementwise;
pub(crate) mod attention;
pub(crate) mod conv;
pub(crate) mod create;
pub(crate) mod index;
pub(crate) mod matmul;
pub(crate) mod norm;
pub mod random;
pub(crate) mod reduce;
pub(crate) mod shape;
pub(crate) mod slice;

pub use attention::{SdpaMask, rope, scaled_dot_product_attention};
pub use conv::{ConvOptions, conv_general};
pub use create::{
    arange, eye, full, full_like, linspace, ones, ones_like, tri, tril, triu, zeros, zeros_like,
};
pub use elementwise::*;
pub use index::{gather, put_along_axis, scatter, scatter_add_axis, take, take_along_axis, take_flat};
pub use matmul::{addmm, inner, matmul, outer, tensordot};
pub use norm::{layer_norm, logsumexp, rms_norm, softmax};
pub use reduce::{all, any, argmax, argmin, array_equal, max, mean, min, prod, std, sum, sum_to, var};
pub(crate) use shape::window;
pub use shape::{
    bitcast, broadcast_arrays, broadcast_to, concatenate, contiguous, diag, diagonal, expand_dims, flatten,
    moveaxis, repeat, reshape, roll, split, split_at, squeeze, stack, stop_gradient, swapaxes, tile,
    transpose, unflatten,
};
pub use slice::{pad, slice, slice_update};
