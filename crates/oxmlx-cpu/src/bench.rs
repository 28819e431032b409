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
        for (m, k, n) in [(1024, 1024, 1024), (256, 784, 32), (128, 256, 512), (64, 64, 64), (1, 4096, 4096), (4096, 4096, 1)] {
            let (a, b) = (Owned::noise(dtype, &[m, k], 1), Owned::noise(dtype, &[k, n], 2));
            let mut out = Owned::zeros(dtype, &[m, n]);
            let t = best(|| crate::matmul::matmul(&a.view(), &b.view(), &mut out.view_mut(), &ok).unwrap());
            println!("matmul {dtype} {m}x{k}x{n}: {:.1} GFLOP/s, {:.1} us", 2e-9 * (m * n * k) as f64 / t, t * 1e6);
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
