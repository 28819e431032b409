//! Every structured operation against the CPU backend, over dtypes and layouts.

use super::{Array, available, run};
use crate::record::Encoding;
use crate::structured;
use oxmlx_core::primitive::{Op, ReduceOp};
use oxmlx_cpu::view::{View, ViewMut};
use oxmlx_types::{Dtype, Layout, Scalar, contiguous_strides};

mod convolutions;
mod copies;
mod indices;
mod products;
mod reductions;

/// How close results must be.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Match {
    /// Bit for bit.
    Exact,
    /// Within this many units of the dtype's precision.
    Units(f64),
}

fn view(a: &Array) -> View<'_> {
    View { ptr: a.base(), dtype: a.dtype, layout: &a.layout }
}

fn elements(a: &Array) -> Vec<Scalar> {
    let size = a.dtype.size();
    let bits = |c: &[u8]| {
        let mut bits = [0u8; 8];
        bits[..size].copy_from_slice(c);
        u64::from_le_bytes(bits)
    };
    a.bytes().chunks_exact(size).map(|c| Scalar { dtype: a.dtype, bits: bits(c) }).collect()
}

fn compare(want: &Array, got: &Array, how: Match, what: &str) {
    if want.bytes() == got.bytes() {
        return;
    }
    let epsilon = match want.dtype {
        Dtype::Float16 => 1.0 / 1024.0,
        Dtype::Bfloat16 => 1.0 / 128.0,
        Dtype::Float64 => f64::EPSILON,
        _ => f32::EPSILON as f64,
    };
    let close = |x: f64, y: f64, n: f64| (x - y).abs() <= n * epsilon * x.abs().max(1.0);
    let imaginary = |s: Scalar| match s.dtype {
        Dtype::Complex64 => f64::from(f32::from_bits((s.bits >> 32) as u32)),
        _ => 0.0,
    };
    for (i, (w, g)) in elements(want).into_iter().zip(elements(got)).enumerate() {
        let (x, y) = (w.to_f64(), g.to_f64());
        let near = match how {
            _ if w.bits == g.bits || x.is_nan() && y.is_nan() => true,
            Match::Exact => false,
            Match::Units(n) => close(x, y, n) && close(imaginary(w), imaginary(g), n),
        };
        assert!(near, "{what}: element {i} is {y} ({:x}), not {x} ({:x})", g.bits, w.bits);
    }
}

/// Runs an operation both ways.
pub(super) fn check(op: &Op, inputs: &[&Array], shape: &[usize], dtype: Dtype, params: &[u64], how: Match) {
    if !available() {
        return;
    }
    let want = Array::unset(dtype, shape);
    let views: Vec<View<'_>> = inputs.iter().map(|a| view(a)).collect();
    {
        let (ptr, layout) = (want.base().cast_mut(), want.layout.clone());
        let mut out = ViewMut { ptr, dtype, layout: &layout };
        oxmlx_cpu::structured::run(op, &views, &mut out, params, &|| Ok(())).unwrap();
    }
    let got = Array::unset(dtype, shape);
    let mut e = Encoding::default();
    let operands: Vec<_> = inputs.iter().enumerate().map(|(i, a)| a.operand(i as u32)).collect();
    let out = got.operand(inputs.len() as u32);
    structured::encode(op, &operands, &out, 0, &mut e).unwrap();
    let values: Vec<&Array> = inputs.iter().copied().chain([&got]).collect();
    run(&e, &values, params);
    let layouts: Vec<_> = inputs.iter().map(|a| &a.layout).collect();
    compare(&want, &got, how, &format!("{op:?} {dtype} {layouts:?}"));
}

/// Runs a reduction both ways.
pub(super) fn check_reduce(op: ReduceOp, axes: &[u8], input: &Array, how: Match) {
    if !available() {
        return;
    }
    let mut shape = input.layout.shape.to_vec();
    axes.iter().for_each(|&a| shape[a as usize] = 1);
    let dtype = if matches!(op, ReduceOp::All | ReduceOp::Any) { Dtype::Bool } else { input.dtype };
    let want = Array::unset(dtype, &shape);
    {
        let mut out = ViewMut { ptr: want.base().cast_mut(), dtype, layout: &want.layout };
        oxmlx_cpu::structured::reduce(op, axes, &view(input), &mut out, &|| Ok(())).unwrap();
    }
    let got = Array::unset(dtype, &shape);
    let mut e = Encoding::default();
    structured::reduce(op, axes, &input.operand(0), &got.operand(1), &mut e).unwrap();
    run(&e, &[input, &got], &[]);
    compare(&want, &got, how, &format!("{op:?} {axes:?} {} {:?}", input.dtype, input.layout));
}

/// Arrays of one shape in layouts that kernels treat differently.
pub(super) fn layouts(dtype: Dtype, shape: &[usize], seed: u64) -> Vec<Array> {
    let plain = Array::noise(dtype, shape, seed);
    let mut all = vec![plain];
    let n = shape.len();
    // A window of a larger array, with an odd offset.
    let wide: Vec<usize> = shape.iter().map(|d| d + 3).collect();
    let big = Array::noise(dtype, &wide, seed + 1);
    let strides = contiguous_strides(&wide);
    let offset = strides.iter().sum::<isize>() as usize;
    all.push(big.with(Layout { shape: shape.into(), strides: strides.clone(), offset }));
    // Backwards along every axis.
    let last: isize = (0..n).map(|a| strides[a] * (shape[a].max(1) as isize - 1)).sum();
    let back = strides.iter().map(|s| -s).collect();
    all.push(big.with(Layout { shape: shape.into(), strides: back, offset: offset + last as usize }));
    if n > 1 {
        // Axes in another order.
        let reversed: Vec<usize> = shape.iter().rev().copied().collect();
        let order: Vec<usize> = (0..n).rev().collect();
        all.push(Array::noise(dtype, &reversed, seed + 2).permuted(&order));
        // Every second element along the last axis; and one element for a whole axis.
        let mut double = shape.to_vec();
        double[n - 1] *= 2;
        let sparse = contiguous_strides(&double)
            .iter()
            .enumerate()
            .map(|(a, &s)| if a == n - 1 { 2 } else { s })
            .collect();
        all.push(Array::noise(dtype, &double, seed + 3).with(Layout {
            shape: shape.into(),
            strides: sparse,
            offset: 0,
        }));
        for axis in [0, n - 1] {
            let mut flat = shape.to_vec();
            flat[axis] = 1;
            let one = Array::noise(dtype, &flat, seed + 4);
            let spread = one.layout.broadcast_to(shape);
            all.push(one.with(spread));
        }
    }
    all
}
