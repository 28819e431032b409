//! What the engine costs beside its kernels, and a few kernels to compare it with: `make bench`, or
//! `cargo bench -p oxmlx --bench engine -- NAME`. Absolute times are of one machine; what counts is how they
//! move between two versions on the same one.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use oxmlx::nn::{self, Linear, Module, Params, Reduction, Sequential};
use oxmlx::optim::{Adam, Optimizer};
use oxmlx::{Array, Dtype, Result, ops};
use std::hint::black_box;

fn ready(shape: &[usize]) -> Array {
    let a = nn::normal(shape).expect("random numbers");
    oxmlx::eval(std::slice::from_ref(&a)).expect("an eval");
    a
}

/// `n` dependent additions.
fn chain(x: &Array, n: usize) -> Result<Array> {
    (0..n).try_fold(x.clone(), |y, _| ops::add(&y, x))
}

fn run(f: impl Fn() -> Result<Array>) -> Array {
    let a = f().expect("a graph");
    oxmlx::eval(std::slice::from_ref(&a)).expect("an eval");
    a
}

/// Making and dropping nodes, and evals of Programs that have a plan: the elements cost next to nothing.
fn overhead(c: &mut Criterion) {
    let mut group = c.benchmark_group("overhead");
    let x = ready(&[8]);
    group.throughput(Throughput::Elements(100));
    group
        .bench_function("build_and_drop_100_nodes", |b| b.iter(|| chain(black_box(&x), 100).expect("nodes")));
    group.throughput(Throughput::Elements(1));
    for n in [1, 30] {
        group.bench_function(format!("eval_{n}_nodes"), |b| {
            let graph = || chain(&x, n).expect("nodes");
            b.iter_batched(graph, |y| oxmlx::eval(&[y]).expect("an eval"), BatchSize::SmallInput)
        });
    }
    group.finish();
}

/// Kernels, with what a program pays around them.
fn kernels(c: &mut Criterion) {
    let mut group = c.benchmark_group("kernels");
    let x = ready(&[1024, 1024]);
    let y = ready(&[1024, 1024]);
    let bytes = (x.nbytes() + y.nbytes() + x.nbytes()) as u64;
    group.throughput(Throughput::Bytes(bytes));
    // gelu(x * y + x): one pass over memory if it is fused.
    let fused = || nn::gelu(&ops::add(&ops::multiply(&x, &y)?, &x)?);
    group.bench_function("elementwise_chain_1m", |b| b.iter(|| run(fused)));
    group.throughput(Throughput::Bytes(2 * x.nbytes() as u64));
    group.bench_function("softmax_1024x1024", |b| b.iter(|| run(|| ops::softmax(&x, Some(&[-1])))));
    let (p, q) = (ready(&[512, 512]), ready(&[512, 512]));
    // Two operations an element of the inner dimension.
    group.throughput(Throughput::Elements(2 * 512u64.pow(3)));
    group.bench_function("matmul_512", |b| b.iter(|| run(|| ops::matmul(&p, &q))));
    group.finish();
}

/// A whole training step of a small network, as programs write it.
fn step(c: &mut Criterion) {
    let build = || -> Result<Sequential> {
        Ok(Sequential::new().then(Linear::new(64, 128)?).apply(nn::relu).then(Linear::new(128, 10)?))
    };
    let mut model = build().expect("a model");
    let mut optimizer = Adam::new(1e-3);
    let x = ready(&[64, 64]);
    let y = run(|| ops::astype(&ops::zeros(&[64], Dtype::Float32)?, Dtype::Int32));
    let mut train = || -> Result<()> {
        let loss = |m: &Sequential| nn::cross_entropy(&m.forward(&x)?, &y, Reduction::Mean);
        let (loss, grads) = nn::value_and_grad(&mut model, loss)?;
        optimizer.update(&mut model, &grads)?;
        let mut all = model.arrays();
        all.extend(optimizer.arrays());
        all.push(loss);
        oxmlx::eval(&all)
    };
    c.bench_function("mlp_step_64x64_128_10", |b| b.iter(|| train().expect("a step")));
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = overhead, kernels, step
}
criterion_main!(benches);
