//! Against naive loops, over index types, modes and layouts; bad indices are errors.

use super::*;
use crate::testing::{Owned, ok};

const MODES: [ScatterMode; 5] =
    [ScatterMode::Assign, ScatterMode::Sum, ScatterMode::Prod, ScatterMode::Max, ScatterMode::Min];

fn combine(mode: ScatterMode, a: f64, b: f64) -> f64 {
    match mode {
        ScatterMode::Assign => b,
        ScatterMode::Sum => a + b,
        ScatterMode::Prod => a * b,
        ScatterMode::Max => a.max(b),
        ScatterMode::Min => a.min(b),
    }
}

fn indices(dtype: Dtype, shape: &[usize], len: usize) -> Owned {
    let n: usize = shape.iter().product();
    let wrap = |i: usize| {
        let p = ((i * 7 + i / 3) % len) as f64;
        if !dtype.is_unsigned() && i % 4 == 1 { p - len as f64 } else { p }
    };
    Owned::from_f64(dtype, shape, &(0..n).map(wrap).collect::<Vec<_>>())
}

fn wrapped(v: &[f64], len: usize) -> Vec<usize> {
    v.iter().map(|&i| if i < 0.0 { (i + len as f64) as usize } else { i as usize }).collect()
}

#[test]
fn rows_are_gathered() {
    for dtype in [Dtype::Bool, Dtype::Float16, Dtype::Float32, Dtype::Complex64] {
        for it in [Dtype::Uint8, Dtype::Int32, Dtype::Int64, Dtype::Uint64, Dtype::Int8] {
            let base = Owned::ramp(dtype, &[9, 20]);
            for src in [base.clone(), base.permuted(&[1, 0])] {
                let (n, m) = (src.layout.shape[0], src.layout.shape[1]);
                let v = src.to_vec();
                let index = indices(it, &[2, 5], n).permuted(&[1, 0]);
                let mut out = Owned::zeros(dtype, &[5, 2, m]);
                gather(&src.view(), &[index.view()], &[0], &mut out.view_mut(), &ok).unwrap();
                let at = wrapped(&index.to_vec(), n);
                let want: Vec<f64> = at.iter().flat_map(|&i| v[i * m..(i + 1) * m].to_vec()).collect();
                assert_eq!(out.to_vec(), want);
                // Along the last axis, and along both.
                let index = indices(it, &[4], m);
                let mut out = Owned::zeros(dtype, &[4, n]);
                gather(&src.view(), &[index.view()], &[1], &mut out.view_mut(), &ok).unwrap();
                let at = wrapped(&index.to_vec(), m);
                let want: Vec<f64> =
                    at.iter().flat_map(|&i| (0..n).map(|r| v[r * m + i]).collect::<Vec<_>>()).collect();
                assert_eq!(out.to_vec(), want);
                let rows = indices(it, &[4], n);
                let mut out = Owned::zeros(dtype, &[4]);
                gather(&src.view(), &[rows.view(), index.view()], &[0, 1], &mut out.view_mut(), &ok).unwrap();
                let want: Vec<f64> =
                    wrapped(&rows.to_vec(), n).iter().zip(&at).map(|(r, c)| v[r * m + c]).collect();
                assert_eq!(out.to_vec(), want);
            }
        }
    }
}

#[test]
fn bad_indices_are_errors() {
    let src = Owned::ramp(Dtype::Float32, &[4, 3]);
    let mut out = Owned::zeros(Dtype::Float32, &[1, 3]);
    for (dtype, bad) in
        [(Dtype::Int32, 4.0), (Dtype::Int32, -5.0), (Dtype::Uint64, 1.7e19), (Dtype::Uint8, 200.0)]
    {
        let index = Owned::from_f64(dtype, &[1], &[bad]);
        let e = gather(&src.view(), &[index.view()], &[0], &mut out.view_mut(), &ok).unwrap_err();
        assert_eq!(e.kind, ErrorKind::OutOfRange);
        assert!(e.message.contains("length 4"), "{e}");
    }
    let float = Owned::from_f64(Dtype::Float32, &[1], &[0.0]);
    assert_eq!(
        gather(&src.view(), &[float.view()], &[0], &mut out.view_mut(), &ok).unwrap_err().kind,
        ErrorKind::Type
    );
    let mut whole = Owned::zeros(Dtype::Float32, &[4, 3]);
    let index = Owned::from_f64(Dtype::Int32, &[1, 3], &[0., 1., 4.]);
    let one = Owned::zeros(Dtype::Float32, &[1, 3]);
    assert!(
        scatter_axis(
            &src.view(),
            &index.view(),
            &one.view(),
            0,
            ScatterMode::Sum,
            &mut whole.view_mut(),
            &ok
        )
        .is_err()
    );
    assert!(gather_axis(&src.view(), &index.view(), 0, &mut out.view_mut(), &ok).is_err());
}

#[test]
fn rows_are_scattered() {
    for dtype in [Dtype::Int32, Dtype::Float32, Dtype::Float16, Dtype::Int8, Dtype::Float64] {
        for mode in MODES {
            for (rows, count, width) in [(6, 9, 5), (50, 300, 200), (7, 20, 3000)] {
                let base = Owned::noise(dtype, &[width, rows], 1).permuted(&[1, 0]);
                let updates = Owned::noise(dtype, &[width, count], 2).permuted(&[1, 0]);
                // Products stay small only when rows are hit rarely.
                let (index, count) =
                    if mode == ScatterMode::Prod || mode == ScatterMode::Sum && dtype == Dtype::Int8 {
                        (
                            Owned::from_f64(
                                Dtype::Int32,
                                &[count],
                                &(0..count).map(|i| (i % rows) as f64).collect::<Vec<_>>(),
                            ),
                            rows,
                        )
                    } else {
                        (indices(Dtype::Int32, &[count], rows), count)
                    };
                let cut = |a: &Owned, n: usize| {
                    a.with(Layout {
                        shape: [n].iter().chain(&a.layout.shape[1..]).copied().collect(),
                        ..a.layout.clone()
                    })
                };
                let (index, updates) = (cut(&index, count), cut(&updates, count));
                let mut out = Owned::zeros(dtype, &[rows, width]);
                scatter(&base.view(), &[index.view()], &updates.view(), &[0], mode, &mut out.view_mut(), &ok)
                    .unwrap();
                let (mut want, u) = (base.to_vec(), updates.to_vec());
                for (i, &r) in wrapped(&index.to_vec(), rows).iter().enumerate() {
                    for j in 0..width {
                        want[r * width + j] = combine(mode, want[r * width + j], u[i * width + j]);
                    }
                }
                assert_eq!(out.to_vec(), want, "{dtype} {mode:?}");
            }
        }
    }
}

#[test]
fn columns_and_points_are_scattered() {
    let base = Owned::noise(Dtype::Float32, &[8, 11], 1);
    for mode in MODES {
        let (rows, cols) = (indices(Dtype::Int64, &[30], 8), indices(Dtype::Uint16, &[30], 11));
        let updates = Owned::noise(Dtype::Float32, &[30], 3);
        let mut out = Owned::zeros(Dtype::Float32, &[8, 11]);
        scatter(
            &base.view(),
            &[rows.view(), cols.view()],
            &updates.view(),
            &[0, 1],
            mode,
            &mut out.view_mut(),
            &ok,
        )
        .unwrap();
        let mut want = base.to_vec();
        let at = wrapped(&rows.to_vec(), 8).into_iter().zip(wrapped(&cols.to_vec(), 11));
        for ((r, c), u) in at.zip(updates.to_vec()) {
            want[r * 11 + c] = combine(mode, want[r * 11 + c], u);
        }
        assert_eq!(out.to_vec(), want);
        let updates = Owned::noise(Dtype::Float32, &[30, 8], 3);
        scatter(&base.view(), &[cols.view()], &updates.view(), &[1], mode, &mut out.view_mut(), &ok).unwrap();
        let (mut want, u) = (base.to_vec(), updates.to_vec());
        for (i, c) in wrapped(&cols.to_vec(), 11).into_iter().enumerate() {
            for r in 0..8 {
                want[r * 11 + c] = combine(mode, want[r * 11 + c], u[i * 8 + r]);
            }
        }
        assert_eq!(out.to_vec(), want);
    }
}

#[test]
fn along_axes() {
    for dtype in [Dtype::Float32, Dtype::Bool, Dtype::Bfloat16, Dtype::Int64] {
        let base = Owned::noise(dtype, &[4, 6, 5], 1);
        for axis in 0..3usize {
            let len = base.layout.shape[axis];
            let mut shape = base.layout.shape.to_vec();
            shape[axis] = 3;
            let index = indices(Dtype::Int32, &shape, len);
            let at = wrapped(&index.to_vec(), len);
            let d = row_major(&base.layout.shape);
            let place = |i: usize| {
                let (ds, mut p) = (row_major(&shape), 0);
                for a in 0..3 {
                    let x = if a == axis { at[i] } else { i / ds[a] as usize % shape[a] };
                    p += x * d[a] as usize;
                }
                p
            };
            let mut out = Owned::zeros(dtype, &shape);
            gather_axis(&base.view(), &index.view(), axis as u8, &mut out.view_mut(), &ok).unwrap();
            let v = base.to_vec();
            assert_eq!(out.to_vec(), (0..at.len()).map(|i| v[place(i)]).collect::<Vec<_>>());
            let updates = Owned::noise(dtype, &[shape[2], shape[1], shape[0]], 2).permuted(&[2, 1, 0]);
            for mode in [ScatterMode::Assign, ScatterMode::Sum, ScatterMode::Max] {
                let mut out = Owned::zeros(dtype, &base.layout.shape);
                scatter_axis(
                    &base.view(),
                    &index.view(),
                    &updates.view(),
                    axis as u8,
                    mode,
                    &mut out.view_mut(),
                    &ok,
                )
                .unwrap();
                let mut want = base.to_vec();
                for (i, u) in updates.to_vec().into_iter().enumerate() {
                    let w = combine(mode, want[place(i)], u);
                    want[place(i)] = if dtype == Dtype::Bool { w.min(1.0) } else { w };
                }
                assert_eq!(out.to_vec(), want, "{dtype} {axis} {mode:?}");
            }
        }
    }
}

#[test]
fn empty_indices_and_rows() {
    let src = Owned::ramp(Dtype::Float32, &[4, 0]);
    let index = indices(Dtype::Int32, &[3], 4);
    let mut out = Owned::zeros(Dtype::Float32, &[3, 0]);
    gather(&src.view(), &[index.view()], &[0], &mut out.view_mut(), &ok).unwrap();
    let none = Owned::zeros(Dtype::Int32, &[0]);
    let empty = Owned::zeros(Dtype::Float32, &[0, 3]);
    let src = Owned::ramp(Dtype::Float32, &[4, 3]);
    let mut out = Owned::zeros(Dtype::Float32, &[4, 3]);
    scatter(&src.view(), &[none.view()], &empty.view(), &[0], ScatterMode::Sum, &mut out.view_mut(), &ok)
        .unwrap();
    assert_eq!(out.to_vec(), src.to_vec());
}
