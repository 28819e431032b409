//! Arrays as kernels see them: a pointer, an element type and a layout, and a walk over them that merges
//! axes.
//!
//! Every kernel takes any strides. Most cost is in the innermost loop, so [`NdLoop`] merges neighbouring axes
//! that step alike in all operands: a contiguous array of any rank becomes one run.

use oxmlx_types::{Dtype, Layout};
use smallvec::SmallVec;

/// An operand. `ptr` is the buffer's first byte; the layout's offset is not yet added.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// First byte of the buffer.
    pub ptr: *const u8,
    /// Element type.
    pub dtype: Dtype,
    /// Shape, strides and offset, in elements.
    pub layout: &'a Layout,
}

/// A result: row-major from `ptr` plus the layout's offset.
#[derive(Clone, Copy, Debug)]
pub struct ViewMut<'a> {
    /// First byte of the buffer.
    pub ptr: *mut u8,
    /// Element type.
    pub dtype: Dtype,
    /// Shape and offset; the strides must be row-major.
    pub layout: &'a Layout,
}

impl<'a> View<'a> {
    /// The first element, as a pointer to some type of the element's size.
    pub(crate) fn origin<T>(&self) -> *const T {
        self.ptr.wrapping_add(self.layout.offset * self.dtype.size()).cast()
    }

    /// Lengths of the axes.
    pub(crate) fn shape(&self) -> &'a [usize] {
        &self.layout.shape
    }

    /// Steps of the axes, in elements.
    pub(crate) fn strides(&self) -> &'a [isize] {
        &self.layout.strides
    }

    /// Number of elements.
    pub(crate) fn size(&self) -> usize {
        self.layout.size()
    }
}

impl<'a> ViewMut<'a> {
    /// The first element.
    pub(crate) fn origin<T>(&mut self) -> *mut T {
        debug_assert!(self.layout.is_contiguous());
        self.ptr.wrapping_add(self.layout.offset * self.dtype.size()).cast()
    }

    /// Lengths of the axes.
    pub(crate) fn shape(&self) -> &'a [usize] {
        &self.layout.shape
    }

    /// Number of elements.
    pub(crate) fn size(&self) -> usize {
        self.layout.size()
    }
}

/// One merged axis of a walk over `N` operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dim<const N: usize> {
    /// Its length.
    pub len: usize,
    /// Steps of each operand, in elements.
    pub step: [isize; N],
}

/// A walk over one shape in row-major order with `N` sets of strides, neighbouring axes merged.
#[derive(Clone, Debug)]
pub(crate) struct NdLoop<const N: usize> {
    dims: SmallVec<[Dim<N>; 4]>,
    inner: Dim<N>,
}

impl<const N: usize> NdLoop<N> {
    /// Plans the walk.
    pub(crate) fn new(shape: &[usize], strides: [&[isize]; N]) -> Self {
        let mut dims: SmallVec<[Dim<N>; 4]> = SmallVec::new();
        for (axis, &len) in shape.iter().enumerate() {
            if len == 1 {
                continue;
            }
            let step = std::array::from_fn(|k| strides[k][axis]);
            match dims.last_mut() {
                Some(d) if len > 0 && (0..N).all(|k| d.step[k] == step[k] * len as isize) => {
                    *d = Dim { len: d.len * len, step };
                }
                _ => dims.push(Dim { len, step }),
            }
        }
        let inner = dims.pop().unwrap_or(Dim { len: 1, step: [0; N] });
        NdLoop { dims, inner }
    }

    /// The axis of each run.
    pub(crate) fn inner(&self) -> Dim<N> {
        self.inner
    }

    /// The axes around it, outermost first.
    pub(crate) fn outer(&self) -> &[Dim<N>] {
        &self.dims
    }

    /// Number of runs.
    pub(crate) fn runs(&self) -> usize {
        self.dims.iter().map(|d| d.len).product()
    }

    /// Element offsets of the start of run `index`.
    pub(crate) fn offsets(&self, index: usize) -> [isize; N] {
        let mut at = [0; N];
        let mut rest = index;
        for d in self.dims.iter().rev() {
            let i = (rest % d.len) as isize;
            rest /= d.len;
            for k in 0..N {
                at[k] += i * d.step[k];
            }
        }
        at
    }

    /// Calls `f` with the start of each run in `range`, in order.
    #[inline(always)]
    pub(crate) fn for_runs(&self, range: std::ops::Range<usize>, mut f: impl FnMut([isize; N])) {
        if range.is_empty() {
            return;
        }
        let mut index: SmallVec<[usize; 4]> = smallvec::smallvec![0; self.dims.len()];
        let mut rest = range.start;
        for (i, d) in index.iter_mut().zip(&self.dims).rev() {
            *i = rest % d.len;
            rest /= d.len;
        }
        let mut at = self.offsets(range.start);
        for left in (0..range.len()).rev() {
            f(at);
            if left == 0 {
                break;
            }
            for (i, d) in index.iter_mut().zip(&self.dims).rev() {
                *i += 1;
                for k in 0..N {
                    at[k] += d.step[k];
                }
                if *i < d.len {
                    break;
                }
                *i = 0;
                for k in 0..N {
                    at[k] -= d.step[k] * d.len as isize;
                }
            }
        }
    }
}

/// Row-major strides of a shape, as kernels need them for their outputs.
pub(crate) fn row_major(shape: &[usize]) -> oxmlx_types::Strides {
    oxmlx_types::contiguous_strides(shape)
}

/// Runs `$body` with `$T` standing for the Rust type of a dtype (bool is a `u8` that holds 0 or 1).
macro_rules! dispatch {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::view::dispatch!(@ $dtype, $T => $body;
            Bool u8, Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64, Int8 i8, Int16 i16, Int32 i32, Int64 i64,
            Float16 oxmlx_types::f16, Float32 f32, Float64 f64, Bfloat16 oxmlx_types::bf16, Complex64 oxmlx_types::Complex)
    };
    (@ $dtype:expr, $T:ident => $body:expr; $($variant:ident $ty:ty),*) => {
        match $dtype {
            $(oxmlx_types::Dtype::$variant => { type $T = $ty; $body })*
        }
    };
}
pub(crate) use dispatch;

/// Runs `$body` with `$T` standing for a plain type of the dtype's size: for kernels that only move bytes.
macro_rules! dispatch_size {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            _ => {
                type $T = u64;
                $body
            }
        }
    };
}
pub(crate) use dispatch_size;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_merge_and_runs_come_in_order() {
        let l = NdLoop::new(&[2, 3, 4], [&[12, 4, 1]]);
        assert_eq!((l.runs(), l.inner().len), (1, 24));
        let l = NdLoop::new(&[2, 3, 4], [&[12, 4, 1], &[1, 2, 6]]);
        assert_eq!((l.runs(), l.inner()), (6, Dim { len: 4, step: [1, 6] }));
        let mut seen = vec![];
        l.for_runs(1..5, |at| seen.push(at));
        assert_eq!(seen, vec![[4, 2], [8, 4], [12, 1], [16, 3]]);
        assert_eq!(l.offsets(4), [16, 3]);
        assert_eq!(NdLoop::<1>::new(&[], [&[]]).inner().len, 1);
        let empty = NdLoop::new(&[3, 0], [&[0, 1]]);
        assert_eq!(empty.runs() * empty.inner().len, 0);
    }
}
