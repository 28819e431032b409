//! Against a naive product in float64, over types, layouts and the sizes where paths change.

use super::*;
use crate::testing::{Owned, ok};
use oxmlx_types::Layout;

fn naive(a: &Owned, b: &Owned) -> Vec<f64> {
    let (sa, sb) = (&a.layout.shape, &b.layout.shape);
    let r = sa.len();
    let (m, k, n) = (sa[r - 2], sa[r - 1], sb[r - 1]);
    let (va, vb) = (a.to_vec(), b.to_vec());
    let batch: usize = sa[..r - 2].iter().product();
    let mut out = vec![0.0; batch * m * n];
    for t in 0..batch {
        for i in 0..m {
            for l in 0..k {
                let x = va[(t * m + i) * k + l];
                for j in 0..n {
                    out[(t * m + i) * n + j] += x * vb[(t * k + l) * n + j];
                }
            }
        }
    }
    out
}

fn check(a: &Owned, b: &Owned) {
    let mut shape = a.layout.shape.clone();
    let r = shape.len();
    shape[r - 1] = b.layout.shape[r - 1];
    let mut out = Owned::zeros(a.dtype, &shape);
    matmul(&a.view(), &b.view(), &mut out.view_mut(), &ok).unwrap();
    let eps = match a.dtype {
        Dtype::Bfloat16 => 1.0 / 256.0,
        Dtype::Float16 => 1.0 / 2048.0,
        _ => 0.0,
    };
    for (i, (g, w)) in out.to_vec().into_iter().zip(naive(a, b)).enumerate() {
        // The values are halves of small integers: sums are exact before the last rounding.
        assert!((g - w).abs() <= eps * w.abs(), "{} {:?} {:?} at {i}: {g} {w}", a.dtype, a.layout, b.layout);
    }
}

const TYPES: [Dtype; 5] = [Dtype::Float32, Dtype::Float64, Dtype::Float16, Dtype::Bfloat16, Dtype::Complex64];

#[test]
fn sizes_and_types() {
    for dtype in TYPES {
        for (m, k, n) in [
            (1, 1, 1),
            (5, 7, 3),
            (64, 64, 64),
            (33, 600, 17),
            (1, 300, 70),
            (70, 300, 1),
            (2, 513, 129),
            (1, 5, 9000),
        ] {
            let a = Owned::noise(dtype, &[m, k], 1);
            let b = Owned::noise(dtype, &[k, n], 2);
            check(&a, &b);
            let at = Owned::noise(dtype, &[k, m], 3).permuted(&[1, 0]);
            let bt = Owned::noise(dtype, &[n, k], 4).permuted(&[1, 0]);
            check(&at, &b);
            check(&a, &bt);
            check(&at, &bt);
        }
    }
}

#[test]
fn big_products_are_cut() {
    for dtype in [Dtype::Float32, Dtype::Bfloat16] {
        check(&Owned::noise(dtype, &[700, 300], 1), &Owned::noise(dtype, &[300, 1100], 2));
    }
}

#[test]
fn odd_strides_and_batches() {
    for dtype in TYPES {
        let base = Owned::noise(dtype, &[4000], 9);
        let l = |shape: &[usize], strides: &[isize], offset| Layout {
            shape: shape.into(),
            strides: strides.into(),
            offset,
        };
        check(&base.with(l(&[6, 5], &[-20, 3], 300)), &base.with(l(&[5, 4], &[-2, 7], 20)));
        check(&base.with(l(&[6, 5], &[0, 1], 3)), &base.with(l(&[5, 4], &[1, 0], 2)));
        check(&base.with(l(&[1, 5], &[0, -3], 30)), &base.with(l(&[5, 4], &[2, 9], 2)));
        // A right side that is broadcast; a left side that is; both with real batches; batches of vectors.
        check(&base.with(l(&[3, 4, 5], &[20, 5, 1], 0)), &base.with(l(&[3, 5, 6], &[0, 6, 1], 7)));
        check(&base.with(l(&[3, 4, 5], &[50, 5, 1], 0)), &base.with(l(&[3, 5, 6], &[0, 6, 1], 7)));
        check(&base.with(l(&[3, 4, 5], &[0, 5, 1], 0)), &base.with(l(&[3, 5, 6], &[30, 1, 5], 7)));
        check(
            &base.with(l(&[2, 3, 4, 5], &[60, 1, 3, 12], 0)),
            &base.with(l(&[2, 3, 5, 6], &[90, 30, 6, 1], 7)),
        );
        check(&base.with(l(&[7, 1, 5], &[5, 5, 1], 0)), &base.with(l(&[7, 5, 6], &[30, 6, 1], 7)));
        check(&base.with(l(&[7, 1, 5], &[5, 5, 1], 0)), &base.with(l(&[7, 5, 6], &[0, 6, 1], 7)));
    }
}

#[test]
fn empties() {
    let a = Owned::noise(Dtype::Float32, &[3, 0], 1);
    let b = Owned::noise(Dtype::Float32, &[0, 4], 2);
    check(&a, &b);
    check(&Owned::noise(Dtype::Float32, &[0, 3], 1), &Owned::noise(Dtype::Float32, &[3, 4], 2));
    check(&Owned::noise(Dtype::Float16, &[2, 3, 0], 1), &Owned::noise(Dtype::Float16, &[2, 0, 4], 2));
}

#[test]
fn stale_contents_are_not_read() {
    // The buffer holds NaN (all ones) before: K = 1 and 2 take the library's outer-product path.
    for k in [1, 2, 3] {
        check(&Owned::noise(Dtype::Float32, &[9, k], 1), &Owned::noise(Dtype::Float32, &[k, 8], 2));
    }
}
