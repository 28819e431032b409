//! Joining arrays: each operand is a copy into a window of the output.

use crate::copy::copy_nd;
use crate::par::Poll;
use crate::view::{View, ViewMut, dispatch_size, row_major};
use oxmlx_types::Result;

/// The operands one after the other along an axis.
pub fn concat(axis: u8, inputs: &[View<'_>], out: &mut ViewMut<'_>, poll: Poll<'_>) -> Result<()> {
    let axis = axis as usize;
    let strides = row_major(out.shape());
    let mut first = 0isize;
    for input in inputs {
        dispatch_size!(out.dtype, T => {
            let dst = out.origin::<T>().wrapping_offset(first * strides[axis]);
            // SAFETY: the operands' lengths along the axis add up to the output's, the others are equal.
            unsafe { copy_nd(input.shape(), input.origin::<T>(), input.strides(), dst, &strides, poll)? }
        });
        first += input.shape()[axis] as isize;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Owned, ok};
    use oxmlx_types::Dtype;

    #[test]
    fn operands_of_any_layout_are_joined() {
        let a = Owned::ramp(Dtype::Float32, &[2, 3]);
        let b = Owned::noise(Dtype::Float32, &[3, 4], 1).permuted(&[1, 0]);
        let mut out = Owned::zeros(Dtype::Float32, &[6, 3]);
        concat(0, &[a.view(), b.view()], &mut out.view_mut(), &ok).unwrap();
        assert_eq!(out.to_vec(), [a.to_vec(), b.to_vec()].concat());
        let e = Owned::zeros(Dtype::Float32, &[2, 0]);
        let mut out = Owned::zeros(Dtype::Float32, &[2, 6]);
        concat(1, &[a.view(), e.view(), a.view()], &mut out.view_mut(), &ok).unwrap();
        assert_eq!(out.to_vec(), [0., 1., 2., 0., 1., 2., 3., 4., 5., 3., 4., 5.]);
    }
}
