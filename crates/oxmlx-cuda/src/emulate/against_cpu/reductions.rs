//! Reductions along all kinds of axes, and positions of extremes.

use super::{Match, check, check_reduce, layouts};
use crate::emulate::Array;
use oxmlx_core::primitive::{Op, ReduceOp};
use oxmlx_types::{Dtype, Scalar};

const OPS: [ReduceOp; 6] =
    [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min, ReduceOp::All, ReduceOp::Any];

/// Whether the engine asks for this: it sums narrow integers in 32 bits and makes truths bools first.
fn asked_for(op: ReduceOp, dtype: Dtype) -> bool {
    match op {
        ReduceOp::Sum | ReduceOp::Prod => dtype == Dtype::Bool || dtype.size() > 2 || dtype.is_inexact(),
        ReduceOp::All | ReduceOp::Any => dtype == Dtype::Bool,
        ReduceOp::Max | ReduceOp::Min => true,
    }
}

/// Values whose products stay small and exact.
fn tame(dtype: Dtype, shape: &[usize]) -> Array {
    Array::of(dtype, shape, |i| {
        let v = match i % 7 {
            0 if !dtype.is_unsigned() && dtype != Dtype::Bool => -1.0,
            _ => 1.0,
        };
        Scalar::from_f64(v, dtype)
    })
}

#[test]
fn axes_types_and_layouts() {
    for dtype in Dtype::ALL {
        for op in OPS.into_iter().filter(|&op| asked_for(op, dtype)) {
            for axes in [&[0u8][..], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]] {
                for a in layouts(dtype, &[5, 8, 16], 1) {
                    if op == ReduceOp::Prod && dtype.is_inexact() {
                        continue;
                    }
                    check_reduce(op, axes, &a, Match::Exact);
                }
                // Signs of zero depend on the order of complex products.
                let how = if dtype == Dtype::Complex64 { Match::Units(0.0) } else { Match::Exact };
                check_reduce(op, axes, &tame(dtype, &[5, 8, 16]), how);
                check_reduce(op, axes, &tame(dtype, &[5, 7, 3]), how);
            }
        }
    }
}

#[test]
fn long_and_few() {
    let dtypes =
        [Dtype::Float32, Dtype::Bfloat16, Dtype::Int8, Dtype::Float64, Dtype::Complex64, Dtype::Bool];
    for dtype in dtypes {
        let ops = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::All];
        for op in ops.into_iter().filter(|&op| asked_for(op, dtype)) {
            for (shape, axes) in [
                (&[6000, 40][..], &[0u8][..]),
                (&[256, 32], &[0]),
                (&[1000, 260], &[0]),
                (&[2048, 33], &[0]),
                (&[9000, 700], &[0]),
                (&[6000, 3], &[0]),
                (&[3, 9000], &[1]),
                (&[2, 3000, 5], &[0, 1]),
                (&[40, 3, 500], &[0, 2]),
                (&[50_001], &[0]),
            ] {
                // Exact in float32, rounded once at the end.
                check_reduce(op, axes, &Array::noise(dtype, shape, 1), Match::Exact);
            }
        }
    }
}

#[test]
fn nothing_to_fold() {
    for dtype in [Dtype::Bool, Dtype::Float32, Dtype::Int16, Dtype::Float16, Dtype::Complex64] {
        for op in OPS.into_iter().filter(|&op| asked_for(op, dtype)) {
            check_reduce(op, &[0], &Array::noise(dtype, &[0, 5], 1), Match::Exact);
            check_reduce(op, &[1], &Array::noise(dtype, &[5, 0], 1), Match::Exact);
            check_reduce(op, &[0], &Array::noise(dtype, &[1, 5], 1), Match::Exact);
            check_reduce(op, &[0], &Array::noise(dtype, &[3, 0], 1), Match::Exact);
        }
    }
}

#[test]
fn nan_wins() {
    for dtype in [Dtype::Float32, Dtype::Bfloat16, Dtype::Float16, Dtype::Float64] {
        let a = Array::of(dtype, &[40, 30], |i| {
            Scalar::from_f64(if i % 97 == 50 { f64::NAN } else { i as f64 % 13.0 }, dtype)
        });
        for axis in [0u8, 1] {
            check_reduce(ReduceOp::Max, &[axis], &a, Match::Exact);
            check_reduce(ReduceOp::Min, &[axis], &a, Match::Exact);
            for max in [true, false] {
                let mut shape = [40, 30];
                shape[axis as usize] = 1;
                check(&Op::ArgReduce { max, axis }, &[&a], &shape, Dtype::Uint32, &[], Match::Exact);
            }
        }
    }
}

#[test]
fn positions() {
    for dtype in Dtype::ALL {
        for max in [true, false] {
            for axis in 0..3u8 {
                for shape in [[5, 8, 16], [3, 40, 7], [1, 1, 1], [0, 3, 2]] {
                    for a in layouts(dtype, &shape, 3) {
                        let mut out = shape;
                        out[axis as usize] = 1;
                        if shape[axis as usize] == 0 {
                            continue;
                        }
                        check(&Op::ArgReduce { max, axis }, &[&a], &out, Dtype::Uint32, &[], Match::Exact);
                    }
                }
            }
            for (shape, axis) in [([3, 20_000], 1u8), ([7000, 3], 0), ([6000, 40], 0), ([2, 2500], 1)] {
                let mut out = shape;
                out[axis as usize] = 1;
                check(
                    &Op::ArgReduce { max, axis },
                    &[&Array::noise(dtype, &shape, 3)],
                    &out,
                    Dtype::Uint32,
                    &[],
                    Match::Exact,
                );
            }
        }
    }
}
