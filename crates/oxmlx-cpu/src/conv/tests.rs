//! Against the definition in float64: one to three dimensions, every kind of geometry, any layout.

use super::*;
use crate::testing::{Owned, ok};

struct Case {
    input: Owned,
    weight: Owned,
    g: ConvGeometry,
}

fn geometry(n: usize) -> ConvGeometry {
    ConvGeometry {
        stride: vec![1; n].into(),
        padding_lo: vec![0; n].into(),
        padding_hi: vec![0; n].into(),
        kernel_dilation: vec![1; n].into(),
        input_dilation: vec![1; n].into(),
        groups: 1,
        flip: false,
    }
}

fn out_shape(c: &Case) -> Vec<usize> {
    let (i, w) = (&c.input.layout.shape, &c.weight.layout.shape);
    let mut shape = vec![i[0]];
    for d in 0..c.g.stride.len() {
        let padded = (i[d + 1] as i64 - 1) * c.g.input_dilation[d] as i64
            + 1
            + c.g.padding_lo[d] as i64
            + c.g.padding_hi[d] as i64;
        let reach = (w[d + 1] as i64 - 1) * c.g.kernel_dilation[d] as i64 + 1;
        shape.push(usize::try_from((padded - reach) / c.g.stride[d] as i64 + 1).unwrap_or(0));
    }
    shape.push(w[0]);
    shape
}

fn naive(c: &Case) -> Vec<f64> {
    let (ish, wsh, osh) = (&c.input.layout.shape, &c.weight.layout.shape, out_shape(c));
    let (iv, wv) = (c.input.to_vec(), c.weight.to_vec());
    let (is, ws, os) = (row_major(ish), row_major(wsh), row_major(&osh));
    let nd = c.g.stride.len();
    let (cg, og) = (wsh[nd + 1], wsh[0] / c.g.groups as usize);
    let digits = |i: usize, s: &[isize], sh: &[usize]| -> Vec<usize> {
        (0..sh.len()).map(|a| i / s[a] as usize % sh[a]).collect()
    };
    (0..osh.iter().product::<usize>())
        .map(|i| {
            let o = digits(i, &os, &osh);
            let mut sum = 0.0;
            for k in 0..wsh[1..].iter().product() {
                let w = digits(o[nd + 1] * ws[0] as usize + k, &ws, wsh);
                let mut at = o[0] * is[0] as usize + o[nd + 1] / og * cg + w[nd + 1];
                let mut inside = true;
                for d in 0..nd {
                    let kd = if c.g.flip { wsh[d + 1] - 1 - w[d + 1] } else { w[d + 1] };
                    let p = (o[d + 1] * c.g.stride[d] as usize + kd * c.g.kernel_dilation[d] as usize) as i64
                        - c.g.padding_lo[d] as i64;
                    let dil = c.g.input_dilation[d] as i64;
                    inside &= p >= 0 && p % dil == 0 && p / dil < ish[d + 1] as i64;
                    at = at.wrapping_add(((p / dil) * is[d + 1] as i64) as usize);
                }
                if inside {
                    sum += iv[at] * wv[o[nd + 1] * ws[0] as usize + k];
                }
            }
            sum
        })
        .collect()
}

fn check(c: &Case) {
    let mut out = Owned::zeros(c.input.dtype, &out_shape(c));
    conv(&c.g, &c.input.view(), &c.weight.view(), &mut out.view_mut(), &ok).unwrap();
    let eps = match c.input.dtype {
        Dtype::Bfloat16 => 1.0 / 256.0,
        Dtype::Float16 => 1.0 / 2048.0,
        _ => 0.0,
    };
    for (i, (g, w)) in out.to_vec().into_iter().zip(naive(c)).enumerate() {
        assert!(
            (g - w).abs() <= eps * w.abs(),
            "{} {:?} {:?} {:?} at {i}: {g} {w}",
            c.input.dtype,
            c.g,
            c.input.layout,
            c.weight.layout
        );
    }
}

const TYPES: [Dtype; 5] = [Dtype::Float32, Dtype::Float64, Dtype::Float16, Dtype::Bfloat16, Dtype::Complex64];

#[test]
fn geometries() {
    for dtype in TYPES {
        for nd in 1..=3usize {
            let sizes = &[9, 7, 6][..nd];
            let kernels = &[3, 2, 3][..nd];
            for (groups, c, o) in [(1, 3, 5), (2, 4, 6), (4, 4, 4), (4, 4, 8)] {
                for variant in 0..7 {
                    let mut g = geometry(nd);
                    g.groups = groups;
                    match variant {
                        1 => g.stride.fill(2),
                        2 => (g.padding_lo.fill(2), g.padding_hi.fill(1)).0,
                        3 => (g.padding_lo.fill(-1), g.padding_hi.fill(-2)).0,
                        4 => (g.kernel_dilation.fill(2), g.flip = true).0,
                        5 => (g.input_dilation.fill(2), g.padding_lo.fill(2), g.padding_hi.fill(3)).0,
                        6 => {
                            (g.input_dilation.fill(3), g.padding_lo.fill(-1), g.stride.fill(2), g.flip = true)
                                .0
                        }
                        _ => (),
                    }
                    let shape = |first: usize, mid: &[usize], last: usize| [&[first], mid, &[last]].concat();
                    let input = Owned::noise(dtype, &shape(2, sizes, c), 1);
                    let weight = Owned::noise(dtype, &shape(o, kernels, c / groups as usize), 2);
                    check(&Case { input, weight, g });
                }
            }
        }
    }
}

#[test]
fn transposed_views() {
    // As the weight gradient arrives: channels become the batch.
    for dtype in [Dtype::Float32, Dtype::Bfloat16] {
        let input = Owned::noise(dtype, &[3, 10, 9, 4], 1).permuted(&[3, 1, 2, 0]);
        let weight = Owned::noise(dtype, &[3, 8, 7, 5], 2).permuted(&[3, 1, 2, 0]);
        check(&Case { input: input.clone(), weight: weight.clone(), g: geometry(2) });
        let small = Owned::noise(dtype, &[3, 4, 4, 5], 2).permuted(&[3, 1, 2, 0]);
        let mut g = geometry(2);
        g.kernel_dilation.fill(2);
        g.padding_lo.fill(1);
        check(&Case { input, weight: small, g });
    }
}

#[test]
fn blocks_and_pointwise() {
    let mut g = geometry(2);
    g.padding_lo.fill(1);
    g.padding_hi.fill(1);
    for dtype in [Dtype::Float32, Dtype::Float16] {
        check(&Case {
            input: Owned::noise(dtype, &[2, 20, 20, 32], 1),
            weight: Owned::noise(dtype, &[16, 3, 3, 32], 2),
            g: g.clone(),
        });
        check(&Case {
            input: Owned::noise(dtype, &[1, 5, 5, 900], 1),
            weight: Owned::noise(dtype, &[3, 3, 3, 900], 2),
            g: g.clone(),
        });
        check(&Case {
            input: Owned::noise(dtype, &[2, 6, 6, 8], 1),
            weight: Owned::noise(dtype, &[4, 1, 1, 8], 2),
            g: geometry(2),
        });
        let odd = Owned::noise(dtype, &[8, 6, 2, 6], 1).permuted(&[2, 1, 3, 0]);
        check(&Case { input: odd, weight: Owned::noise(dtype, &[4, 1, 1, 8], 2), g: geometry(2) });
    }
}
