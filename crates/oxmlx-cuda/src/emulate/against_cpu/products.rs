//! Matrix products of all kinds, by every way.

use super::{Match, check};
use crate::emulate::Array;
use oxmlx_core::primitive::Op;
use oxmlx_types::{Dtype, Layout, Scalar, contiguous_strides};

const DTYPES: [Dtype; 5] =
    [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16, Dtype::Float64, Dtype::Complex64];

fn noise(dtype: Dtype, shape: &[usize], seed: u64) -> Array {
    if dtype != Dtype::Complex64 {
        return Array::noise(dtype, shape, seed);
    }
    let parts = Array::noise(Dtype::Float32, &[&[2], shape].concat(), seed);
    let n = parts.layout.size() / 2;
    let at = |i: usize| {
        let bytes: [u8; 4] = parts.bytes()[4 * i..4 * i + 4].try_into().unwrap();
        u64::from(u32::from_le_bytes(bytes))
    };
    Array::of(dtype, shape, |i| Scalar { dtype, bits: at(i) | at(n + i) << 32 })
}

/// The operand's matrices in a layout of this kind.
fn laid(dtype: Dtype, shape: &[usize], kind: usize, seed: u64) -> Array {
    let n = shape.len();
    let plain = |s: &[usize]| noise(dtype, s, seed);
    let swapped = |s: &[usize]| {
        let mut s = s.to_vec();
        s.swap(n - 1, n - 2);
        s
    };
    let mut order: Vec<usize> = (0..n).collect();
    order.swap(n - 1, n - 2);
    match kind {
        0 => plain(shape),
        // Columns are dense.
        1 => plain(&swapped(shape)).permuted(&order),
        // A window of larger rows, at an odd place; and one whose rows lie at multiples of 16 bytes.
        2 | 3 => {
            let mut wide = shape.to_vec();
            wide[n - 1] = if kind == 2 { wide[n - 1] + 3 } else { (wide[n - 1] + 16).next_multiple_of(16) };
            let (strides, offset) = (contiguous_strides(&wide), if kind == 2 { 1 } else { 0 });
            plain(&wide).with(Layout { shape: shape.into(), strides, offset })
        }
        // Backwards, and with steps of two.
        4 => {
            let mut wide = shape.to_vec();
            wide[n - 1] *= 2;
            let mut strides = contiguous_strides(&wide);
            let offset = strides[n - 2] * (shape[n - 2] as isize - 1);
            strides[n - 2] = -strides[n - 2];
            strides[n - 1] = 2;
            plain(&wide).with(Layout { shape: shape.into(), strides, offset: offset as usize })
        }
        // One row for all.
        _ => {
            let mut one = shape.to_vec();
            one[n - 2] = 1;
            let one = plain(&one);
            let spread = one.layout.broadcast_to(shape);
            one.with(spread)
        }
    }
}

/// Signs of zero depend on the order of complex products.
fn how(dtype: Dtype) -> Match {
    if dtype == Dtype::Complex64 { Match::Units(0.0) } else { Match::Exact }
}

fn run(dtype: Dtype, [m, n, k]: [usize; 3], kinds: [usize; 2]) {
    let (a, b) = (laid(dtype, &[m, k], kinds[0], 1), laid(dtype, &[k, n], kinds[1], 2));
    check(&Op::Matmul, &[&a, &b], &[m, n], dtype, &[], how(dtype));
}

#[test]
fn layouts_of_few_rows() {
    for dtype in DTYPES {
        for (i, mnk) in [[1, 37, 50], [3, 64, 64], [4, 130, 16], [8, 20, 136], [7, 9, 33], [1, 1, 1]]
            .into_iter()
            .enumerate()
        {
            for left in 0..6 {
                for right in 0..6 {
                    run(dtype, mnk, [left, right]);
                    let [m, n, k] = mnk;
                    if i % 2 == left % 2 {
                        run(dtype, [n, m, k], [right, left]);
                    }
                }
            }
        }
    }
}

#[test]
fn layouts_of_tiles() {
    for dtype in DTYPES {
        for mnk in [[16, 16, 128], [33, 18, 150], [9, 40, 7], [20, 20, 260]] {
            for left in 0..6 {
                for right in 0..6 {
                    run(dtype, mnk, [left, right]);
                }
            }
        }
    }
}

#[test]
fn many_tiles_and_long_depths() {
    for dtype in DTYPES {
        // Larger tiles; chunks of the depth, by each kernel; lanes of several warps.
        for mnk in [[12 * 32, 11 * 32 + 5, 70], [20, 17, 3000], [3, 6, 40_000], [1, 70, 9000], [2, 3, 2000]] {
            for kinds in [[0, 0], [1, 1], [0, 1], [4, 4]] {
                if mnk[0] > 100 && kinds[0] == 4 {
                    continue;
                }
                run(dtype, mnk, kinds);
            }
        }
    }
}

#[test]
fn batches() {
    for dtype in [Dtype::Float32, Dtype::Bfloat16, Dtype::Complex64] {
        for (m, n, k) in [(1, 40, 24), (3, 24, 40), (20, 24, 17), (40, 3, 64)] {
            // Heads that share keys; a batch of both; the left one repeated; axes in another order.
            let shared = |x: Array, shape: &[usize]| {
                let layout = x.layout.broadcast_to(shape);
                x.with(layout)
            };
            let a = noise(dtype, &[2, 3, 4, m, k], 3);
            let b = noise(dtype, &[2, 3, 1, k, n], 4);
            let out = [2, 3, 4, m, n];
            check(&Op::Matmul, &[&a, &shared(b, &[2, 3, 4, k, n])], &out, dtype, &[], how(dtype));
            let keys = noise(dtype, &[2, 3, 1, n, k], 4).permuted(&[0, 1, 2, 4, 3]);
            check(&Op::Matmul, &[&a, &shared(keys, &[2, 3, 4, k, n])], &out, dtype, &[], how(dtype));
            let b = noise(dtype, &[2, 3, 4, k, n], 5);
            check(&Op::Matmul, &[&a, &b], &out, dtype, &[], how(dtype));
            let one = shared(noise(dtype, &[1, 1, 4, m, k], 6), &[2, 3, 4, m, k]);
            check(&Op::Matmul, &[&one, &b], &out, dtype, &[], how(dtype));
            let turned = noise(dtype, &[m, 4, 3, 2, k], 7).permuted(&[3, 2, 1, 0, 4]);
            check(&Op::Matmul, &[&turned, &b], &out, dtype, &[], how(dtype));
        }
    }
}

#[test]
fn the_library_gets_folded_batches() {
    let dtype = Dtype::Float32;
    let a = noise(dtype, &[2, 2, 40, 600], 1);
    let b = noise(dtype, &[1, 1, 600, 700], 2);
    let b = b.with(b.layout.broadcast_to(&[2, 2, 600, 700]));
    check(&Op::Matmul, &[&a, &b], &[2, 2, 40, 700], dtype, &[], how(dtype));
}
