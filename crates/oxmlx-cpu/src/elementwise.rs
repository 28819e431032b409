//! Element-wise operations: from (operation, dtype) to a kernel over blocks.
//!
//! The scalar definitions are the rows of `elementwise/unary.rs` and `elementwise/binary.rs`; adding an
//! operation costs a row there and nothing else in this crate. The same kernels, run on one element, fold
//! host scalars, so that a folded constant has exactly the bits that the device would have produced.

mod binary;
mod cast;
pub(crate) mod complex;
pub(crate) mod elem;
mod kernel;
pub(crate) mod special;
mod unary;

pub use binary::binary;
pub(crate) use binary::{maximum, minimum};

pub use cast::cast;
pub use kernel::{Binary, Form, Select, Unary};
pub use unary::unary;

use oxmlx_core::Primitive;
use oxmlx_types::{Dtype, Scalar};

/// The kernel that chooses between elements of dtype `d`; it depends on their size only.
pub fn select(d: Dtype) -> Select {
    match d.size() {
        1 => kernel::select_kernel::<u8>(),
        2 => kernel::select_kernel::<u16>(),
        4 => kernel::select_kernel::<u32>(),
        _ => kernel::select_kernel::<u64>(),
    }
}

/// One element-wise primitive on host scalars, in the arithmetic of its kernel; `None` where the primitive is
/// not element-wise or does not take these dtypes. Operands have the dtypes that the kernel takes, not those
/// before promotion.
pub fn fold(op: &Primitive, out: Dtype, operands: &[Scalar]) -> Option<Scalar> {
    let mut bits = 0u64;
    let dst = (&raw mut bits).cast::<u8>();
    let at = |s: &Scalar| (&raw const s.bits).cast::<u8>();
    // SAFETY: every pointer is to a word of its own, large enough for one element; words are little-endian on
    // all targets that this crate supports.
    unsafe {
        match (op, operands) {
            (Primitive::Unary(op), [x]) => unary(*op, x.dtype)?(at(x), dst, 1),
            (Primitive::Binary(op), [a, b]) if a.dtype == b.dtype => {
                binary(*op, a.dtype)?(at(a), at(b), dst, 1, Form::Both);
            }
            (Primitive::Select, [c, a, b]) if a.dtype == b.dtype && c.dtype == Dtype::Bool => {
                select(a.dtype)(at(c), at(a), at(b), dst, 1, false, false);
            }
            (Primitive::Cast, [x]) => cast(x.dtype, out)(at(x), dst, 1),
            _ => return None,
        }
    }
    Some(Scalar { dtype: out, bits })
}

#[cfg(test)]
mod tests;
