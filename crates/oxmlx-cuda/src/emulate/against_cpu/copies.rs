//! Copies, windows, joins, ranges and random words: bit for bit.

use super::{Match, check, layouts};
use crate::emulate::Array;
use oxmlx_core::primitive::Op;
use oxmlx_types::{Dtype, Layout};

#[test]
fn any_layout_becomes_row_major() {
    for dtype in [Dtype::Uint8, Dtype::Bfloat16, Dtype::Float32, Dtype::Complex64] {
        for shape in
            [&[3, 20, 70][..], &[2, 3, 2, 3, 2], &[130, 97], &[5000], &[], &[1, 1], &[64, 16], &[2, 0, 3]]
        {
            for a in layouts(dtype, shape, 1) {
                check(&Op::Contiguous, &[&a], shape, dtype, &[], Match::Exact);
            }
        }
        let base = Array::noise(dtype, &[3, 20, 70], 1);
        for axes in [[0, 1, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1], [1, 0, 2]] {
            let a = base.permuted(&axes);
            check(&Op::Contiguous, &[&a], &a.layout.shape.clone(), dtype, &[], Match::Exact);
        }
        // A reshape of what is not row-major.
        check(&Op::Contiguous, &[&base.permuted(&[2, 0, 1])], &[60, 70], dtype, &[], Match::Exact);
    }
}

#[test]
fn flat_copies_at_every_offset() {
    for dtype in [Dtype::Uint8, Dtype::Float16, Dtype::Float32, Dtype::Float64] {
        let base = Array::noise(dtype, &[5000], 3);
        for offset in 0..9 {
            for n in [1, 7, 64, 4000] {
                let layout = Layout { offset, ..Layout::contiguous(&[n]) };
                check(&Op::Contiguous, &[&base.with(layout)], &[n], dtype, &[], Match::Exact);
            }
        }
    }
}

#[test]
fn many_axes() {
    // Nothing merges: every second element along each of ten axes.
    let shape = [2; 10];
    let base = Array::noise(Dtype::Int16, &[4; 10], 5);
    let strides = base.layout.strides.iter().map(|s| 2 * s).collect();
    let a = base.with(Layout { shape: shape.into_iter().collect(), strides, offset: 0 });
    check(&Op::Contiguous, &[&a], &shape, Dtype::Int16, &[], Match::Exact);
}

#[test]
fn windows() {
    for dtype in [Dtype::Bool, Dtype::Float16, Dtype::Int32, Dtype::Float64] {
        let base = Array::noise(dtype, &[4, 6, 16], 1);
        for (shape, steps, starts) in [
            ([2, 3, 16], [-2, 2, 1], [3, 1, 0]),
            ([4, 1, 16], [1, 1, 1], [0, 5, 0]),
            ([1, 6, 3], [1, -1, 4], [2, 5, 3]),
            ([4, 6, 16], [1, 1, 1], [0, 0, 0]),
            ([1, 1, 1], [3, 1, 1], [0, 4, 7]),
            ([0, 1, 1], [3, 1, 1], [0, 4, 7]),
        ] {
            for update in layouts(dtype, &shape, 2) {
                let op = Op::SliceUpdate { steps: steps.into_iter().collect() };
                let words: Vec<u64> = starts.iter().map(|&s: &i64| s as u64).collect();
                check(&op, &[&base, &update], &[4, 6, 16], dtype, &words, Match::Exact);
            }
        }
    }
}

#[test]
fn joins() {
    for dtype in [Dtype::Uint8, Dtype::Bfloat16, Dtype::Float32, Dtype::Int64] {
        for axis in 0..3u8 {
            let shape = |n: usize| {
                let mut s = [4, 6, 8];
                s[axis as usize] = n;
                s
            };
            let parts: Vec<Array> = [3, 8, 0, 1, 16]
                .into_iter()
                .enumerate()
                .map(|(i, n)| layouts(dtype, &shape(n), 9)[i].clone())
                .collect();
            let refs: Vec<&Array> = parts.iter().collect();
            check(&Op::Concat { axis }, &refs, &shape(28), dtype, &[], Match::Exact);
            check(&Op::Concat { axis }, &refs[..1], &shape(3), dtype, &[], Match::Exact);
        }
    }
}

#[test]
fn ranges() {
    for dtype in Dtype::ALL {
        let (start, step) =
            if dtype.is_inexact() { (0.1f64.to_bits(), (-3.7f64).to_bits()) } else { (3, (-1i64) as u64) };
        for n in [0, 1, 3, 17, 5000] {
            check(&Op::Arange, &[], &[n], dtype, &[start, step], Match::Exact);
        }
    }
}

#[test]
fn random_words() {
    let keys = Array::ints(Dtype::Uint32, &[2, 3, 4], |i| i as i64 * 77_777_777 % (1 << 32));
    for dtype in [Dtype::Uint8, Dtype::Uint16, Dtype::Uint32] {
        for n in [0, 1, 2, 3, 4, 5, 7, 8, 1001, 4096] {
            let one = keys.with(Layout {
                shape: [2].into_iter().collect(),
                strides: [3].into_iter().collect(),
                offset: 5,
            });
            check(&Op::RandomBits { key_ndim: 0 }, &[&one], &[n], dtype, &[], Match::Exact);
            let many = keys.with(Layout {
                shape: [3, 2, 2].into_iter().collect(),
                strides: [4, 12, -1].into_iter().collect(),
                offset: 2,
            });
            check(&Op::RandomBits { key_ndim: 2 }, &[&many], &[3, 2, n], dtype, &[], Match::Exact);
        }
    }
}
