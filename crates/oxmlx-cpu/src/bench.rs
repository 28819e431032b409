//! Measurements of the structured kernels: `cargo test -p oxmlx-cpu --release -- --ignored --nocapture bench_`.

use crate::testing::{Owned, ok};
use oxmlx_types::Dtype;
use std::time::Instant;

/// Best time of several runs, in seconds.
fn best(mut f: impl FnMut()) -> f64 {
    f();
    let mut best = f64::MAX;
    let begin = Instant::now();
    for _ in 0..200 {
        let t = Instant::now();
        f();
        best = best.min(t.elapsed().as_secs_f64());
        if begin.elapsed().as_secs_f64() > 1.0 {
            break;
        }
    }
    best
}

#[test]
#[ignore]
fn bench_matmul() {
    for dtype in [Dtype::Float32, Dtype::Bfloat16, Dtype::Float16, Dtype::Float64] {
        for (m, k, n) in [
            (1024, 1024, 1024),
            (256, 784, 32),
            (128, 256, 512),
            (64, 64, 64),
            (1, 4096, 4096),
            (4096, 4096, 1),
        ] {
            let (a, b) = (Owned::noise(dtype, &[m, k], 1), Owned::noise(dtype, &[k, n], 2));
            let mut out = Owned::zeros(dtype, &[m, n]);
            let t = best(|| crate::matmul::matmul(&a.view(), &b.view(), &mut out.view_mut(), &ok).unwrap());
            println!(
                "matmul {dtype} {m}x{k}x{n}: {:.1} GFLOP/s, {:.1} us",
                2e-9 * (m * n * k) as f64 / t,
                t * 1e6
            );
        }
    }
}

#[test]
#[ignore]
fn bench_random_and_copy() {
    let keys = Owned::from_f64(Dtype::Uint32, &[2], &[0.0, 1.0]);
    let mut out = Owned::zeros(Dtype::Uint32, &[16 << 20]);
    let t = best(|| crate::random::random_bits(&keys.view(), 0, &mut out.view_mut(), &ok).unwrap());
    println!("random 16M words: {:.2} Gword/s", 16.78e6 / t * 1e-9);
    let src = Owned::noise(Dtype::Float32, &[2048, 4096], 1).permuted(&[1, 0]);
    let mut out = Owned::zeros(Dtype::Float32, &[4096, 2048]);
    let t = best(|| crate::copy::contiguous(&src.view(), &mut out.view_mut(), &ok).unwrap());
    println!("transpose 2048x4096 f32: {:.2} GB/s read+written", 8.0 * 8.39e6 / t * 1e-9);
}

#[test]
#[ignore]
fn bench_reduce_and_index() {
    use oxmlx_core::primitive::ReduceOp;
    for (m, n) in [(1024, 16384), (16384, 1024), (1 << 20, 16)] {
        let a = Owned::noise(Dtype::Float32, &[m, n], 1);
        let mut out = Owned::zeros(Dtype::Float32, &[1, n]);
        let t =
            best(|| crate::reduce::reduce(ReduceOp::Sum, &[0], &a.view(), &mut out.view_mut(), &ok).unwrap());
        println!("column sum {m}x{n}: {:.1} GB/s", 4e-9 * (m * n) as f64 / t);
    }
    let table = Owned::noise(Dtype::Float32, &[50_000, 256], 1);
    let n = 65_536;
    let at: Vec<f64> = (0..n).map(|i| (i * 7919 % 50_000) as f64).collect();
    let index = Owned::from_f64(Dtype::Int32, &[n], &at);
    let mut out = Owned::zeros(Dtype::Float32, &[n, 256]);
    let t = best(|| {
        crate::index::gather(&table.view(), &[index.view()], &[0], &mut out.view_mut(), &ok).unwrap()
    });
    println!("gather 64k rows of 1 KiB: {:.1} GB/s written", n as f64 * 1024.0 / t * 1e-9);
    let mut whole = Owned::zeros(Dtype::Float32, &[50_000, 256]);
    let t = best(|| {
        let mode = oxmlx_core::primitive::ScatterMode::Sum;
        crate::index::scatter(
            &table.view(),
            &[index.view()],
            &out.view(),
            &[0],
            mode,
            &mut whole.view_mut(),
            &ok,
        )
        .unwrap()
    });
    println!("scatter-add 64k rows of 1 KiB (with the copy): {:.1} ms", t * 1e3);
    let a = Owned::noise(Dtype::Float32, &[4096, 4096], 1);
    let mut arg = Owned::zeros(Dtype::Uint32, &[4096, 1]);
    let t = best(|| crate::reduce::arg_reduce(true, 1, &a.view(), &mut arg.view_mut(), &ok).unwrap());
    println!("argmax rows 4096x4096: {:.1} GB/s", 6.7e7 / t * 1e-9);
    let mut arg = Owned::zeros(Dtype::Uint32, &[1, 4096]);
    let t = best(|| crate::reduce::arg_reduce(true, 0, &a.view(), &mut arg.view_mut(), &ok).unwrap());
    println!("argmax columns 4096x4096: {:.1} GB/s", 6.7e7 / t * 1e-9);
}

#[test]
#[ignore]
fn bench_conv() {
    let one = smallvec::smallvec![1, 1];
    let mut g = oxmlx_core::primitive::ConvGeometry {
        stride: one.clone(),
        padding_lo: smallvec::smallvec![1, 1],
        padding_hi: smallvec::smallvec![1, 1],
        kernel_dilation: one.clone(),
        input_dilation: one,
        groups: 1,
        flip: false,
    };
    let x = Owned::noise(Dtype::Float32, &[8, 32, 32, 64], 1);
    let w = Owned::noise(Dtype::Float32, &[64, 3, 3, 64], 2);
    let mut y = Owned::zeros(Dtype::Float32, &[8, 32, 32, 64]);
    let flops = 2.0 * (8 * 32 * 32 * 64 * 64 * 9) as f64;
    let t = best(|| crate::conv::conv(&g, &x.view(), &w.view(), &mut y.view_mut(), &ok).unwrap());
    println!("conv 3x3 64ch 8x32x32: {:.1} GFLOP/s", flops / t * 1e-9);
    let (xt, yt) = (x.permuted(&[3, 1, 2, 0]), y.permuted(&[3, 1, 2, 0]));
    let mut dw = Owned::zeros(Dtype::Float32, &[64, 3, 3, 64]);
    let t = best(|| crate::conv::conv(&g, &xt.view(), &yt.view(), &mut dw.view_mut(), &ok).unwrap());
    println!("its weight gradient: {:.1} GFLOP/s", flops / t * 1e-9);
    g.groups = 64;
    let w = Owned::noise(Dtype::Float32, &[64, 3, 3, 1], 2);
    let t = best(|| crate::conv::conv(&g, &x.view(), &w.view(), &mut y.view_mut(), &ok).unwrap());
    println!("depthwise 3x3 64ch: {:.1} GFLOP/s", flops / 64.0 / t * 1e-9);
}
