//! Convolutions of all geometries, by every way.

use super::{Match, check};
use crate::emulate::Array;
use oxmlx_core::primitive::{ConvGeometry, Op};
use oxmlx_types::Dtype;

fn geometry(nd: usize) -> ConvGeometry {
    let all = |v: u32| std::iter::repeat_n(v, nd).collect();
    ConvGeometry {
        stride: all(1),
        padding_lo: std::iter::repeat_n(0, nd).collect(),
        padding_hi: std::iter::repeat_n(0, nd).collect(),
        kernel_dilation: all(1),
        input_dilation: all(1),
        groups: 1,
        flip: false,
    }
}

fn run(g: &ConvGeometry, input: &Array, weight: &Array) {
    let (i, w) = (&input.layout.shape, &weight.layout.shape);
    let mut shape = vec![i[0]];
    for d in 0..g.stride.len() {
        let padded = (i[d + 1] as i64 - 1) * g.input_dilation[d] as i64
            + 1
            + g.padding_lo[d] as i64
            + g.padding_hi[d] as i64;
        let reach = (w[d + 1] as i64 - 1) * g.kernel_dilation[d] as i64 + 1;
        shape.push(usize::try_from((padded - reach) / g.stride[d] as i64 + 1).unwrap_or(0));
    }
    shape.push(w[0]);
    let op = Op::Conv(Box::new(g.clone()));
    check(&op, &[input, weight], &shape, input.dtype, &[], Match::Units(1.0));
}

#[test]
fn geometries() {
    for dtype in [Dtype::Float32, Dtype::Float64, Dtype::Float16, Dtype::Bfloat16, Dtype::Complex64] {
        for nd in 1..=3usize {
            let (sizes, kernels) = (&[9, 7, 6][..nd], &[3, 2, 3][..nd]);
            for (groups, c, o) in [(1, 3, 5), (2, 4, 6), (4, 4, 8)] {
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
                    let input = Array::noise(dtype, &shape(2, sizes, c), 1);
                    let weight = Array::noise(dtype, &shape(o, kernels, c / groups as usize), 2);
                    run(&g, &input, &weight);
                }
            }
        }
    }
}

#[test]
fn products() {
    for dtype in [Dtype::Float32, Dtype::Bfloat16, Dtype::Float16] {
        for (groups, c, flip) in [(1, 16, false), (1, 3, true), (2, 12, true)] {
            let mut g = geometry(2);
            (g.groups, g.flip) = (groups, flip);
            g.padding_lo.fill(1);
            g.padding_hi.fill(2);
            g.stride[1] = 2;
            g.input_dilation[0] = 2;
            let input = Array::noise(dtype, &[2, 10, 21, c], 1);
            let weight = Array::noise(dtype, &[24, 3, 4, c / groups as usize], 2);
            run(&g, &input, &weight);
            // Operands of other layouts.
            let input = Array::noise(dtype, &[c, 10, 21, 2], 1).permuted(&[3, 1, 2, 0]);
            let weight = Array::noise(dtype, &[c / groups as usize, 3, 4, 24], 2).permuted(&[3, 1, 2, 0]);
            run(&g, &input, &weight);
        }
        // Points.
        run(
            &geometry(2),
            &Array::noise(dtype, &[3, 20, 20, 32], 1),
            &Array::noise(dtype, &[16, 1, 1, 32], 2),
        );
        let turned = Array::noise(dtype, &[32, 20, 20, 3], 1).permuted(&[3, 1, 2, 0]);
        run(&geometry(2), &turned, &Array::noise(dtype, &[16, 1, 1, 32], 2));
    }
}

#[test]
fn nothing_to_convolve() {
    run(
        &geometry(1),
        &Array::noise(Dtype::Float32, &[2, 5, 0], 1),
        &Array::noise(Dtype::Float32, &[4, 2, 0], 2),
    );
    run(
        &geometry(1),
        &Array::noise(Dtype::Float32, &[0, 5, 3], 1),
        &Array::noise(Dtype::Float32, &[4, 2, 3], 2),
    );
}
