//! Walks over strided operands, as encoders plan them: axes merged where all operands step alike, and the
//! numbers of blocks that a launch gets.

use crate::record::{Grid, Word};
use oxmlx_types::Dtype;
use smallvec::SmallVec;

/// One merged axis of a walk over `N` operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dim<const N: usize> {
    /// Its length.
    pub len: usize,
    /// Steps of each operand, in elements.
    pub step: [isize; N],
}

/// Axes, outermost first, without any of length 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Walk<const N: usize> {
    pub dims: SmallVec<[Dim<N>; 4]>,
}

impl<const N: usize> Walk<N> {
    /// Merges neighbouring axes that step alike in all operands.
    pub(crate) fn new(shape: &[usize], strides: [&[isize]; N]) -> Walk<N> {
        let axes = shape.iter().enumerate();
        Walk::of(axes.map(|(axis, &len)| Dim { len, step: std::array::from_fn(|k| strides[k][axis]) }))
    }

    /// The same for axes that are there already.
    pub(crate) fn of(axes: impl Iterator<Item = Dim<N>>) -> Walk<N> {
        let mut dims: SmallVec<[Dim<N>; 4]> = SmallVec::new();
        for d in axes.filter(|d| d.len != 1) {
            match dims.last_mut() {
                Some(last) if d.len > 0 && (0..N).all(|k| last.step[k] == d.step[k] * d.len as isize) => {
                    *last = Dim { len: last.len * d.len, step: d.step };
                }
                _ => dims.push(d),
            }
        }
        Walk { dims }
    }

    /// Number of elements.
    pub(crate) fn size(&self) -> usize {
        self.dims.iter().map(|d| d.len).product()
    }

    /// Takes off the innermost axis.
    pub(crate) fn split_inner(mut self) -> (Walk<N>, Dim<N>) {
        let inner = self.dims.pop().unwrap_or(Dim { len: 1, step: [0; N] });
        (self, inner)
    }

    /// The words that the device's `walk` reads: innermost first, a length and the steps each.
    pub(crate) fn words(&self) -> Vec<Word> {
        let mut words = Vec::with_capacity(self.dims.len() * (N + 1));
        for d in self.dims.iter().rev() {
            words.push(Word::from(d.len));
            words.extend(d.step.iter().map(|&s| Word::from(s)));
        }
        words
    }

    /// Steps in units of this many elements; they must divide.
    pub(crate) fn in_units(mut self, elements: usize) -> Walk<N> {
        for d in &mut self.dims {
            d.step = d.step.map(|s| s / elements as isize);
        }
        self
    }
}

/// Rounds up to a number with four leading bits, so that lengths that grow a little keep their grid.
pub(crate) fn bucket(n: usize) -> usize {
    let bits = usize::BITS - n.leading_zeros();
    if bits <= 4 { n } else { n.next_multiple_of(1 << (bits - 4)) }
}

/// Threads of a block, in every kernel of this crate's families.
pub(crate) const THREADS: usize = 256;

/// A grid for this many blocks of work; kernels go on in steps of the grid.
pub(crate) fn grid(blocks: usize) -> Grid {
    Grid::line(bucket(blocks), THREADS as u32)
}

/// How the threads of a block share rows of some length, of which each thread moves four units at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lanes {
    /// Log2 of the threads along a row.
    pub shift: u32,
    /// Pieces that a row is cut into.
    pub segments: usize,
}

impl Lanes {
    /// Units that a thread moves at a time.
    const MOVES: usize = 4;

    pub(crate) fn new(row: usize) -> Lanes {
        let whole_warp = row.clamp(1, 32).next_power_of_two();
        let lanes = row.div_ceil(Lanes::MOVES).clamp(1, THREADS).next_power_of_two().max(whole_warp);
        Lanes { shift: lanes.trailing_zeros(), segments: row.div_ceil(lanes * Lanes::MOVES).max(1) }
    }

    /// Blocks for so many rows.
    pub(crate) fn blocks(self, rows: usize) -> usize {
        (rows * self.segments).div_ceil(THREADS >> self.shift)
    }
}

/// The largest power of two, 16 at most, that divides all of these bytes.
pub(crate) fn common_unit(bytes: impl Iterator<Item = usize>) -> usize {
    let all = bytes.fold(16, |all, b| all | b);
    1 << all.trailing_zeros().min(4)
}

/// The unsigned integer of the size of an element: what moves elements without looking at them.
pub(crate) fn bits_type(dtype: Dtype) -> &'static str {
    match dtype.size() {
        1 => "uint8",
        2 => "uint16",
        4 => "uint32",
        _ => "uint64",
    }
}

/// The type whose sums and products have the same bits.
pub(crate) fn sum_type(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool | Dtype::Int8 => "uint8",
        Dtype::Int16 => "uint16",
        Dtype::Int32 => "uint32",
        Dtype::Int64 => "uint64",
        d => d.name(),
    }
}

/// The type whose order is the same; true is greater than false.
pub(crate) fn order_type(dtype: Dtype) -> &'static str {
    if dtype == Dtype::Bool { "uint8" } else { dtype.name() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_merge() {
        let w = Walk::new(&[2, 1, 3, 4], [&[12, 7, 4, 1], &[12, 0, 4, 1]]);
        assert_eq!(w.dims.as_slice(), &[Dim { len: 24, step: [1, 1] }]);
        let w = Walk::new(&[2, 3, 4], [&[12, 4, 1], &[1, 2, 6]]);
        assert_eq!((w.dims.len(), w.size()), (3, 24));
        assert_eq!(Walk::<1>::new(&[], [&[]]).split_inner().1.len, 1);
    }

    #[test]
    fn buckets_are_close_and_monotonic() {
        let mut last = 0;
        for n in 1..5000 {
            let b = bucket(n);
            assert!(b >= n && b <= n + n / 8 && b >= last);
            last = b;
        }
        assert_eq!(bucket(1000), bucket(1024));
    }

    #[test]
    fn rows_are_covered() {
        for row in 1..3000 {
            let l = Lanes::new(row);
            assert!((1usize << l.shift) * 4 * l.segments >= row && l.shift <= 8);
        }
    }

    #[test]
    fn units() {
        assert_eq!(common_unit([32, 48].into_iter()), 16);
        assert_eq!(common_unit([32, 6].into_iter()), 2);
        assert_eq!(common_unit([0, 8].into_iter()), 8);
    }
}
