//! Against naive folds in float64, over types, axes and layouts.

use super::*;
use crate::testing::{Owned, ok};

fn naive(op: ReduceOp, a: &Owned, axes: &[u8]) -> (Vec<usize>, Vec<f64>) {
    let shape = &a.layout.shape;
    let kept: Vec<usize> =
        (0..shape.len()).map(|i| if axes.contains(&(i as u8)) { 1 } else { shape[i] }).collect();
    let init = match op {
        ReduceOp::Sum | ReduceOp::Any => 0.0,
        ReduceOp::Prod | ReduceOp::All => 1.0,
        ReduceOp::Max => f64::NEG_INFINITY,
        ReduceOp::Min => f64::INFINITY,
    };
    let mut out = vec![init; kept.iter().product()];
    let (ds, dk) = (row_major(shape), row_major(&kept));
    for (i, v) in a.to_vec().into_iter().enumerate() {
        let at: usize =
            (0..shape.len()).map(|x| (i / ds[x] as usize % shape[x]) % kept[x] * dk[x] as usize).sum();
        let o = &mut out[at];
        *o = match op {
            ReduceOp::Sum => *o + v,
            ReduceOp::Prod => *o * v,
            ReduceOp::Max => o.max(v),
            ReduceOp::Min => o.min(v),
            ReduceOp::All => (*o != 0.0 && v != 0.0) as u8 as f64,
            ReduceOp::Any => (*o != 0.0 || v != 0.0) as u8 as f64,
        };
    }
    (kept, out)
}

fn check(op: ReduceOp, a: &Owned, axes: &[u8]) {
    let (shape, want) = naive(op, a, axes);
    let truth = matches!(op, ReduceOp::All | ReduceOp::Any);
    let dtype = if truth { Dtype::Bool } else { a.dtype };
    let mut out = Owned::zeros(dtype, &shape);
    reduce(op, axes, &a.view(), &mut out.view_mut(), &ok).unwrap();
    for (g, w) in out.to_vec().into_iter().zip(want) {
        let w = if dtype == Dtype::Bool {
            (w != 0.0) as u8 as f64
        } else if dtype.is_inexact() {
            oxmlx_types::Scalar::from_f64(w, dtype).to_f64()
        } else {
            oxmlx_types::Scalar::from_i64(w as i64, dtype).to_f64()
        };
        assert!(
            g == w || (g - w).abs() <= 0.01 * w.abs() && a.dtype.is_inexact(),
            "{op:?} {dtype} {axes:?}: {g} {w}"
        );
    }
}

#[test]
fn every_type_and_axis() {
    for dtype in Dtype::ALL {
        let a = Owned::noise(dtype, &[3, 5, 7, 6], 3);
        for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::All, ReduceOp::Any] {
            for axes in [&[0u8][..], &[1], &[0, 2], &[0, 1], &[1, 3], &[3], &[0, 1, 2, 3], &[]] {
                check(op, &a, axes);
                check(op, &a.permuted(&[3, 1, 0, 2]), axes);
            }
        }
        check(ReduceOp::Prod, &Owned::noise(dtype, &[2, 9], 4), &[0]);
    }
}

#[test]
fn long_and_wide() {
    for shape in [[20_000, 3], [3000, 70], [9, 5000], [4000, 1]] {
        let a = Owned::noise(Dtype::Int32, &shape, 5);
        for axes in [[0u8], [1]] {
            check(ReduceOp::Sum, &a, &axes);
            check(ReduceOp::Sum, &a.permuted(&[1, 0]), &axes);
            check(ReduceOp::Max, &a, &axes);
        }
    }
    check(ReduceOp::Sum, &Owned::noise(Dtype::Bfloat16, &[3000, 70], 5), &[0]);
}

#[test]
fn rounding_errors_stay_small() {
    let n = 1 << 20;
    let a = Owned::from_f64(Dtype::Float32, &[n, 2], &vec![0.1; 2 * n]);
    let mut out = Owned::zeros(Dtype::Float32, &[1, 2]);
    reduce(ReduceOp::Sum, &[0], &a.view(), &mut out.view_mut(), &ok).unwrap();
    let want = 0.1f32 as f64 * n as f64;
    assert!((out.to_vec()[0] / want - 1.0).abs() < 5e-6, "{:?}", out.to_vec());
}

#[test]
fn empty_axes_have_neutral_results() {
    let a = Owned::noise(Dtype::Float32, &[0, 3], 1);
    check(ReduceOp::Sum, &a, &[0]);
    check(ReduceOp::Prod, &a, &[0]);
    check(ReduceOp::All, &Owned::noise(Dtype::Bool, &[0, 3], 1), &[0]);
    check(ReduceOp::Any, &Owned::noise(Dtype::Bool, &[0, 3], 1), &[0]);
    check(ReduceOp::Sum, &a, &[1]);
}

#[test]
fn nan_wins_in_both_directions() {
    let mut values = vec![1.0; 40];
    values[13] = f64::NAN;
    values[22] = f64::NAN;
    for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Float64] {
        let a = Owned::from_f64(dtype, &[5, 8], &values);
        for axis in [0u8, 1] {
            let shape = if axis == 0 { [1, 8] } else { [5, 1] };
            let mut out = Owned::zeros(dtype, &shape);
            reduce(ReduceOp::Max, &[axis], &a.view(), &mut out.view_mut(), &ok).unwrap();
            let nans: Vec<usize> =
                out.to_vec().iter().enumerate().filter(|v| v.1.is_nan()).map(|v| v.0).collect();
            assert_eq!(nans, if axis == 0 { [5, 6] } else { [1, 2] });
            let mut at = Owned::zeros(Dtype::Uint32, &shape);
            arg_reduce(false, axis, &a.view(), &mut at.view_mut(), &ok).unwrap();
            assert_eq!(at.to_vec()[nans[0]], if axis == 0 { 1.0 } else { 5.0 });
        }
    }
}

#[test]
fn first_of_equals_wins() {
    for dtype in Dtype::ALL {
        let base = Owned::noise(dtype, &[6, 200, 7], 8);
        for a in [base.clone(), base.permuted(&[2, 0, 1]), base.permuted(&[1, 2, 0])] {
            for (axis, max) in [(0u8, true), (1, true), (2, true), (0, false), (1, false), (2, false)] {
                let mut shape = a.layout.shape.clone();
                shape[axis as usize] = 1;
                let mut out = Owned::zeros(Dtype::Uint32, &shape);
                arg_reduce(max, axis, &a.view(), &mut out.view_mut(), &ok).unwrap();
                let (v, l, d) = (a.to_vec(), &a.layout.shape, row_major(&a.layout.shape));
                let (inner, len) = (d[axis as usize] as usize, l[axis as usize]);
                for (i, got) in out.to_vec().into_iter().enumerate() {
                    let first = i / inner * inner * len + i % inner;
                    let mut best = 0;
                    for j in 1..len {
                        let (x, b) = (v[first + j * inner], v[first + best * inner]);
                        if if max { x > b } else { x < b } {
                            best = j;
                        }
                    }
                    assert_eq!(got, best as f64, "{dtype} {axis}");
                }
            }
        }
    }
}
