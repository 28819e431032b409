//! Gathers and scatters.

use super::{Match, check, layouts};
use crate::emulate::Array;
use oxmlx_core::primitive::{Op, ScatterMode};
use oxmlx_types::Dtype;

const MODES: [ScatterMode; 5] =
    [ScatterMode::Assign, ScatterMode::Sum, ScatterMode::Prod, ScatterMode::Max, ScatterMode::Min];

/// Indices into an axis, some of them negative.
fn indices(dtype: Dtype, shape: &[usize], len: usize) -> Array {
    Array::ints(dtype, shape, |i| {
        let p = ((i * 7 + i / 3) % len) as i64;
        if !dtype.is_unsigned() && dtype != Dtype::Bool && i % 4 == 1 { p - len as i64 } else { p }
    })
}

#[test]
fn rows_are_gathered() {
    for dtype in [Dtype::Bool, Dtype::Bfloat16, Dtype::Float32, Dtype::Complex64] {
        for it in [
            Dtype::Uint8,
            Dtype::Int32,
            Dtype::Int64,
            Dtype::Uint64,
            Dtype::Int8,
            Dtype::Uint16,
            Dtype::Int16,
            Dtype::Uint32,
        ] {
            for width in [1, 3, 40, 2100] {
                for src in layouts(dtype, &[9, width], 1) {
                    let index = indices(it, &[2, 5], 9).permuted(&[1, 0]);
                    let op = Op::Gather { axes: [0].into_iter().collect() };
                    check(&op, &[&src, &index], &[5, 2, width], dtype, &[], Match::Exact);
                    let op = Op::Gather { axes: [1].into_iter().collect() };
                    let index = indices(it, &[4], width.min(100));
                    check(&op, &[&src, &index], &[4, 9], dtype, &[], Match::Exact);
                    let op = Op::Gather { axes: [0, 1].into_iter().collect() };
                    let rows = indices(it, &[4], 9);
                    check(&op, &[&src, &rows, &index], &[4], dtype, &[], Match::Exact);
                }
            }
        }
        for src in layouts(dtype, &[4, 6, 5], 1) {
            let op = Op::Gather { axes: [1].into_iter().collect() };
            let index = indices(Dtype::Int32, &[3, 2], 6);
            check(&op, &[&src, &index], &[3, 2, 4, 5], dtype, &[], Match::Exact);
        }
    }
}

#[test]
fn along_axes() {
    for dtype in [Dtype::Float32, Dtype::Bool, Dtype::Bfloat16, Dtype::Int64] {
        for axis in 0..3usize {
            let mut shape = [4, 6, 5];
            let len = shape[axis];
            shape[axis] = 3;
            for base in layouts(dtype, &[4, 6, 5], 1) {
                let index = indices(Dtype::Int32, &shape, len);
                check(
                    &Op::GatherAxis { axis: axis as u8 },
                    &[&base, &index],
                    &shape,
                    dtype,
                    &[],
                    Match::Exact,
                );
                for updates in layouts(dtype, &shape, 2) {
                    for mode in MODES {
                        let op = Op::ScatterAxis { axis: axis as u8, mode };
                        check(&op, &[&base, &index, &updates], &[4, 6, 5], dtype, &[], Match::Exact);
                    }
                }
            }
        }
        // Long lines, which are sorted.
        for mode in MODES {
            let base = Array::noise(dtype, &[2, 40, 3], 1);
            let index = indices(Dtype::Int64, &[3, 700, 2], 40).permuted(&[2, 1, 0]);
            let updates = Array::noise(dtype, &[2, 700, 3], 2);
            if mode == ScatterMode::Prod && dtype.is_inexact()
                || mode == ScatterMode::Sum && dtype == Dtype::Bfloat16
            {
                continue;
            }
            check(
                &Op::ScatterAxis { axis: 1, mode },
                &[&base, &index, &updates],
                &[2, 40, 3],
                dtype,
                &[],
                Match::Exact,
            );
        }
    }
}

#[test]
fn rows_are_scattered() {
    for dtype in Dtype::ALL {
        for mode in MODES {
            for (rows, count, width) in [(6, 9, 5), (7, 20, 1300), (50, 300, 20), (5000, 9000, 2)] {
                // Products and rounded sums stay exact only where rows are hit rarely.
                let rough = mode == ScatterMode::Prod && dtype.is_inexact()
                    || mode == ScatterMode::Sum && dtype.is_inexact() && dtype.size() == 2;
                let count = if rough { count.min(rows) } else { count };
                let base = Array::noise(dtype, &[width, rows], 1).permuted(&[1, 0]);
                let updates = Array::noise(dtype, &[width, count], 2).permuted(&[1, 0]);
                let index = if rough {
                    Array::ints(Dtype::Int32, &[count], |i| (i % rows) as i64)
                } else {
                    indices(Dtype::Int32, &[count], rows)
                };
                let op = Op::Scatter { axes: [0].into_iter().collect(), mode };
                check(&op, &[&base, &index, &updates], &[rows, width], dtype, &[], Match::Exact);
            }
        }
    }
}

#[test]
fn one_place_gets_most_updates() {
    for dtype in [Dtype::Float32, Dtype::Int8, Dtype::Bfloat16] {
        for mode in MODES {
            if mode == ScatterMode::Prod && dtype.is_inexact() {
                continue;
            }
            let base = Array::noise(dtype, &[5, 7], 1);
            let updates = Array::noise(dtype, &[1000, 7], 2);
            let index = Array::ints(Dtype::Int32, &[1000], |i| if i % 9 == 4 { (i % 5) as i64 } else { 3 });
            let op = Op::Scatter { axes: [0].into_iter().collect(), mode };
            let how = if mode == ScatterMode::Sum && dtype == Dtype::Bfloat16 {
                Match::Units(300.0)
            } else {
                Match::Exact
            };
            check(&op, &[&base, &index, &updates], &[5, 7], dtype, &[], how);
        }
    }
}

#[test]
fn columns_and_points_are_scattered() {
    for dtype in [Dtype::Float32, Dtype::Uint16] {
        for base in layouts(dtype, &[8, 11], 1) {
            for mode in MODES {
                for n in [30, 600] {
                    let how = if mode == ScatterMode::Prod { Match::Units(100.0) } else { Match::Exact };
                    if n == 600 && mode == ScatterMode::Prod && dtype == Dtype::Float32 {
                        continue;
                    }
                    let (rows, cols) = (indices(Dtype::Int64, &[n], 8), indices(Dtype::Uint16, &[n], 11));
                    let updates = Array::noise(dtype, &[n], 3);
                    let op = Op::Scatter { axes: [0, 1].into_iter().collect(), mode };
                    check(&op, &[&base, &rows, &cols, &updates], &[8, 11], dtype, &[], how);
                    let updates = Array::noise(dtype, &[n, 8], 3);
                    let op = Op::Scatter { axes: [1].into_iter().collect(), mode };
                    check(&op, &[&base, &cols, &updates], &[8, 11], dtype, &[], how);
                }
            }
        }
    }
}

#[test]
fn many_places_take_several_passes() {
    let base = Array::noise(Dtype::Float32, &[70_000], 1);
    let updates = Array::noise(Dtype::Float32, &[9000], 2);
    let index = Array::ints(Dtype::Int32, &[9000], |i| (i * i * 31 % 70_000) as i64);
    for mode in [ScatterMode::Sum, ScatterMode::Assign] {
        let op = Op::Scatter { axes: [0].into_iter().collect(), mode };
        check(&op, &[&base, &index, &updates], &[70_000], Dtype::Float32, &[], Match::Exact);
    }
}

#[test]
fn empty_indices_and_rows() {
    let src = Array::noise(Dtype::Float32, &[4, 0], 1);
    let index = indices(Dtype::Int32, &[3], 4);
    let op = Op::Gather { axes: [0].into_iter().collect() };
    check(&op, &[&src, &index], &[3, 0], Dtype::Float32, &[], Match::Exact);
    let none = Array::noise(Dtype::Int32, &[0], 1);
    let empty = Array::noise(Dtype::Float32, &[0, 3], 1);
    let src = Array::noise(Dtype::Float32, &[4, 3], 1);
    let op = Op::Scatter { axes: [0].into_iter().collect(), mode: ScatterMode::Sum };
    check(&op, &[&src, &none, &empty], &[4, 3], Dtype::Float32, &[], Match::Exact);
}
