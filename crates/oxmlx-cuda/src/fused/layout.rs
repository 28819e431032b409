//! How operands lie over a group's domain.

use oxmlx_types::Layout;
use smallvec::{SmallVec, smallvec};

/// (length, stride in elements) of axes, from the outermost.
pub(super) type Axes = SmallVec<[(usize, isize); 4]>;

/// Strides of a layout that broadcasts to `shape`, one for each of its axes.
pub(super) fn strides(layout: &Layout, shape: &[usize]) -> SmallVec<[isize; 6]> {
    let mut out: SmallVec<[isize; 6]> = smallvec![0; shape.len()];
    // With the row axes cut off, a layout can have more axes than the shape: those have length 1.
    let n = layout.ndim().min(shape.len());
    for i in 1..=n {
        let (own, target) = (layout.ndim() - i, shape.len() - i);
        if layout.shape[own] != 1 {
            out[target] = layout.strides[own];
        }
    }
    out
}

/// One operand's axes with neighbours joined where it steps evenly over both; lengths of 1 are left out.
pub(super) fn joined(shape: &[usize], strides: &[isize]) -> Axes {
    let mut axes = Axes::new();
    for (&n, &stride) in shape.iter().zip(strides) {
        if n == 1 {
            continue;
        }
        match axes.last_mut() {
            Some(last) if last.1 == stride * n as isize => *last = (last.0 * n, stride),
            _ => axes.push((n, stride)),
        }
    }
    if axes.len() == 1 && axes[0].1 == 0 {
        axes.clear();
    }
    axes
}

/// A shape, and strides of several operands over it, with neighbouring axes joined where all step evenly.
/// Lengths of 1 are left out; at least one axis is left.
pub(super) fn joined_all(
    shape: &[usize],
    operands: &[SmallVec<[isize; 6]>],
) -> (SmallVec<[usize; 6]>, Vec<SmallVec<[isize; 6]>>) {
    let mut lengths: SmallVec<[usize; 6]> = SmallVec::new();
    let mut out: Vec<SmallVec<[isize; 6]>> = vec![SmallVec::new(); operands.len()];
    for (i, &n) in shape.iter().enumerate() {
        if n == 1 {
            continue;
        }
        let even = |(o, s): (&SmallVec<[isize; 6]>, &SmallVec<[isize; 6]>)| {
            s.last().is_some_and(|&last| last == o[i] * n as isize)
        };
        match lengths.last_mut() {
            Some(last) if operands.iter().zip(&out).all(even) => {
                *last *= n;
                operands.iter().zip(&mut out).for_each(|(o, s)| {
                    if let Some(last) = s.last_mut() {
                        *last = o[i];
                    }
                });
            }
            _ => {
                lengths.push(n);
                operands.iter().zip(&mut out).for_each(|(o, s)| s.push(o[i]));
            }
        }
    }
    if lengths.is_empty() {
        lengths.push(1);
        out.iter_mut().for_each(|s| s.push(0));
    }
    (lengths, out)
}

/// The largest power of two, `most` at most, that divides all of these (and the lengths of an access, where
/// `alignment` is the first element's in bytes).
pub(super) fn access(most: usize, alignment: u32, size: usize, steps: impl Iterator<Item = usize>) -> usize {
    let mut p = most.min(16 / size).min(alignment as usize / size).max(1);
    for s in steps {
        while s % p != 0 {
            p /= 2;
        }
    }
    p
}

/// `n` rounded up so coarsely that a length that grows by one seldom changes it: to eighths of a power of two.
pub(super) fn bucket(n: usize) -> usize {
    n.next_multiple_of((n.next_power_of_two() / 8).max(1))
}

/// What makes of a 31-bit number its quotient by `length`: a multiplier and, above it, a shift.
pub(super) fn divisor(length: usize) -> u64 {
    let d = length as u64;
    let s = d.next_power_of_two().trailing_zeros() as u64;
    let multiplier = (1u128 << (31 + s)).div_ceil(d as u128) as u64;
    multiplier | (31 + s) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_by_multiplication_are_exact() {
        let mut lengths: Vec<usize> = (1..2000).collect();
        lengths.extend([65_535, 65_536, 65_537, 1 << 30, (1 << 30) + 1, (1 << 31) - 1, 1_000_003]);
        for d in lengths {
            let w = divisor(d);
            let mut ns: Vec<u64> = vec![0, 1, (1 << 31) - 1, (1 << 31) - 2, 123_456_789];
            ns.extend((1..5).flat_map(|k| [k * d as u64 - 1, k * d as u64]));
            for n in ns.into_iter().filter(|&n| n < 1 << 31) {
                assert_eq!((n * (w & 0xffff_ffff)) >> (w >> 32), n / d as u64, "{n} / {d}");
            }
        }
    }

    #[test]
    fn axes_join_where_operands_step_evenly() {
        let s = |x: &[isize]| SmallVec::<[isize; 6]>::from_slice(x);
        let (n, all) = joined_all(&[2, 3, 1, 4], &[s(&[12, 4, 7, 1]), s(&[0, 4, 0, 1])]);
        assert_eq!((&n[..], &all[0][..], &all[1][..]), (&[2, 12][..], &[12, 1][..], &[0, 1][..]));
        assert_eq!(joined(&[2, 3], &[0, 0]).len(), 0);
        assert_eq!(&joined(&[2, 3, 4], &[12, 4, 1])[..], &[(24, 1)]);
        assert_eq!(bucket(1000), 1024);
        assert_eq!(bucket(1025), 1280);
    }
}
