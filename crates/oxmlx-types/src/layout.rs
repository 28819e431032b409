//! Shapes, strides and the arithmetic on them: broadcasting, contiguity, collapsing of axes.
//!
//! Strides and offsets count elements, not bytes, so that a layout says the same for every element type.

use crate::{Error, ErrorKind, Result};
use smallvec::SmallVec;

/// The lengths of an array's axes.
pub type Shape = SmallVec<[usize; 4]>;
/// Distances between neighbours along each axis, in elements; may be negative or zero.
pub type Strides = SmallVec<[isize; 4]>;

/// How an array's elements lie in its buffer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// Length of each axis.
    pub shape: Shape,
    /// Elements between neighbours along each axis.
    pub strides: Strides,
    /// Element index of the first element in the buffer.
    pub offset: usize,
}

impl Layout {
    /// The row-major layout of a shape.
    pub fn contiguous(shape: &[usize]) -> Layout {
        Layout { shape: shape.into(), strides: contiguous_strides(shape), offset: 0 }
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        self.shape.iter().product()
    }

    /// Number of axes.
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// Whether the elements lie in row-major order without gaps (the offset does not matter).
    pub fn is_contiguous(&self) -> bool {
        let mut expect = 1isize;
        for (&n, &s) in self.shape.iter().zip(&self.strides).rev() {
            if n == 0 {
                return true;
            }
            if n != 1 {
                if s != expect {
                    return false;
                }
                expect *= n as isize;
            }
        }
        true
    }

    /// This layout seen through a broadcast to `shape`, which must be compatible.
    pub fn broadcast_to(&self, shape: &[usize]) -> Layout {
        let lead = shape.len() - self.ndim();
        let mut strides: Strides = smallvec::smallvec![0; shape.len()];
        for i in 0..self.ndim() {
            strides[lead + i] = if self.shape[i] == 1 && shape[lead + i] != 1 { 0 } else { self.strides[i] };
        }
        Layout { shape: shape.into(), strides, offset: self.offset }
    }

    /// The axes in another order.
    pub fn permute(&self, axes: &[usize]) -> Layout {
        Layout {
            shape: axes.iter().map(|&a| self.shape[a]).collect(),
            strides: axes.iter().map(|&a| self.strides[a]).collect(),
            offset: self.offset,
        }
    }

    /// The same elements under another shape without moving them, or `None` where that is impossible.
    pub fn reshape(&self, shape: &[usize]) -> Option<Layout> {
        if self.size() == 0 || self.is_contiguous() {
            return Some(Layout { offset: self.offset, ..Layout::contiguous(shape) });
        }
        // Walk both shapes at once: every run of new axes must tile a run of old ones that is itself dense.
        let old: SmallVec<[(usize, isize); 4]> =
            self.shape.iter().copied().zip(self.strides.iter().copied()).filter(|p| p.0 != 1).collect();
        let mut strides: Strides = smallvec::smallvec![0; shape.len()];
        let (mut i, mut j) = (0, 0);
        while i < old.len() {
            let start = i;
            let mut have = old[i].0;
            let first = j;
            let mut want = 1;
            while j < shape.len() && want < have || want != have {
                if want < have {
                    if j == shape.len() {
                        return None;
                    }
                    want *= shape[j];
                    j += 1;
                } else {
                    i += 1;
                    if i == old.len() {
                        return None;
                    }
                    have *= old[i].0;
                }
            }
            for k in start..i {
                if old[k].1 != old[k + 1].1 * old[k + 1].0 as isize {
                    return None;
                }
            }
            let mut step = old[i].1;
            for k in (first..j).rev() {
                strides[k] = step;
                step *= shape[k] as isize;
            }
            i += 1;
        }
        Some(Layout { shape: shape.into(), strides, offset: self.offset })
    }

    /// Element positions from least to greatest that this layout can touch, or `None` when it is empty.
    pub fn extent(&self) -> Option<(usize, usize)> {
        let (mut lo, mut hi) = (self.offset as isize, self.offset as isize);
        for (&n, &s) in self.shape.iter().zip(&self.strides) {
            if n == 0 {
                return None;
            }
            let reach = s * (n as isize - 1);
            if reach < 0 { lo += reach } else { hi += reach }
        }
        Some((lo as usize, hi as usize))
    }
}

/// Row-major strides of a shape.
pub fn contiguous_strides(shape: &[usize]) -> Strides {
    let mut strides: Strides = smallvec::smallvec![0; shape.len()];
    let mut step = 1isize;
    for i in (0..shape.len()).rev() {
        strides[i] = step;
        step = step.wrapping_mul(shape[i].max(1) as isize);
    }
    strides
}

/// The shape that two shapes broadcast to.
pub fn broadcast_shapes(a: &[usize], b: &[usize]) -> Result<Shape> {
    let n = a.len().max(b.len());
    let mut out: Shape = smallvec::smallvec![0; n];
    for i in 0..n {
        let x = if i + a.len() >= n { a[i + a.len() - n] } else { 1 };
        let y = if i + b.len() >= n { b[i + b.len() - n] } else { 1 };
        out[i] = match (x, y) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => {
                return Err(Error::invalid(
                    "broadcast_shapes",
                    format!("Shapes {} and {} cannot be broadcast.", format_shape(a), format_shape(b)),
                ));
            }
        };
    }
    // The product must be a size, though no memory may hold it.
    if out.iter().try_fold(8usize, |n, &d| n.checked_mul(d)).is_none_or(|n| n > isize::MAX as usize) {
        let text = format!("An array of shape {} is larger than any memory.", format_shape(&out));
        return Err(Error::new(ErrorKind::OutOfMemory, "broadcast_shapes", text));
    }
    Ok(out)
}

/// A shape as MLX writes it in messages: `(2,3)`.
pub fn format_shape(shape: &[usize]) -> String {
    let inner: Vec<String> = shape.iter().map(|n| n.to_string()).collect();
    format!("({})", inner.join(","))
}

/// An axis counted from either end, as an index from the front.
pub fn normalize_axis(op: &'static str, axis: i64, ndim: usize) -> Result<usize> {
    let n = ndim as i64;
    if axis < -n || axis >= n {
        return Err(Error { kind: ErrorKind::Axis, ..Error::axis(op, axis, ndim) });
    }
    Ok(if axis < 0 { axis + n } else { axis } as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshape_of_a_transpose_fails_and_of_a_slice_works() {
        let t = Layout::contiguous(&[2, 3]).permute(&[1, 0]);
        assert_eq!(t.reshape(&[6]), None);
        // The axis of length 1 may have any stride.
        let strides = t.reshape(&[3, 1, 2]).unwrap().strides;
        assert_eq!((strides[0], strides[2]), (1, 3));
        let rows =
            Layout { shape: smallvec::smallvec![4, 6], strides: smallvec::smallvec![12, 1], offset: 0 };
        assert_eq!(rows.reshape(&[2, 2, 3, 2]).unwrap().strides.to_vec(), vec![24, 12, 2, 1]);
        assert_eq!(rows.reshape(&[24]), None);
    }

    #[test]
    fn broadcasting() {
        assert_eq!(broadcast_shapes(&[3, 1], &[4]).unwrap().to_vec(), vec![3, 4]);
        assert_eq!(broadcast_shapes(&[0], &[1]).unwrap().to_vec(), vec![0]);
        assert!(broadcast_shapes(&[2], &[3]).is_err());
    }

    #[test]
    fn axes_count_from_both_ends() {
        assert_eq!(normalize_axis("sum", -1, 2), Ok(1));
        assert_eq!(normalize_axis("sum", 2, 2).unwrap_err().kind, ErrorKind::Axis);
    }
}
