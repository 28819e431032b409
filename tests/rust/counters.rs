//! What the engine counts: tests that assert on its counters. These belong to the process, so the tests have a
//! binary of their own and take turns.

// The helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used)]

use oxmlx::nn::{self, Dropout, LayerNorm, Linear, Module, Params, Reduction, Sequential};
use oxmlx::optim::{AdamW, Optimizer, clip_grad_norm, schedule};
use oxmlx::{Array, Dtype, Result, ops, runtime::stats};
use std::sync::{Mutex, MutexGuard, PoisonError};

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn f32s(values: &[f32], shape: &[usize]) -> Array {
    oxmlx::init();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Array::from_bytes(&bytes, shape, Dtype::Float32).unwrap()
}

fn ramp(shape: &[usize]) -> Array {
    let n: usize = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|i| (i as f32 * 0.37).sin()).collect();
    f32s(&values, shape)
}

#[test]
fn a_kept_interior_is_computed_once() -> Result<()> {
    let _turn = turn();
    let x = ramp(&[64]);
    let h = ops::exp(&x)?;
    let y = ops::sum(&h, None, false)?;
    y.item()?;
    assert!(h.is_evaluated());
    let before = stats::KERNELS.get();
    h.to_f64_vec()?;
    assert_eq!(stats::KERNELS.get(), before);
    Ok(())
}

#[test]
fn a_long_chain_neither_overflows_nor_replans() -> Result<()> {
    let _turn = turn();
    let mut x = ramp(&[8]);
    let one = f32s(&[1e-6; 8], &[8]);
    for _ in 0..50_000 {
        x = ops::add(&x, &one)?;
    }
    let before = stats::PLANS.get();
    x.to_f64_vec()?;
    assert!(stats::PLANS.get() - before <= 3);
    Ok(())
}

#[test]
fn counters_that_nobody_evaluates_fold() -> Result<()> {
    let _turn = turn();
    oxmlx::init();
    let mut step = Array::from_f64(0.0, Dtype::Float32);
    for _ in 0..10 {
        step = ops::add(&step, &ops::weak(1.0, Dtype::Float32))?;
    }
    assert_eq!(step.known_scalar().map(|s| s.to_f64()), Some(10.0));
    Ok(())
}

#[test]
fn a_schedule_costs_no_plan() -> Result<()> {
    let _turn = turn();
    ops::random::seed(1)?;
    let body = Sequential::new().then(Linear::new(4, 16)?).then(LayerNorm::new(16)?).apply(nn::silu);
    let mut model = body.then(Dropout::new(0.1)?).then(Linear::new(16, 3)?);
    let mut optimizer = AdamW::new(schedule::cosine_decay(1e-2, 20, 0.0)).bias_correction(true);
    let x = nn::normal(&[12, 4])?;
    let y = ops::astype(&ops::abs(&nn::normal(&[12])?)?, Dtype::Int32)?;
    let mut losses = Vec::new();
    let mut plans = 0;
    for step in 0..20 {
        let loss = |m: &Sequential| nn::cross_entropy(&m.forward(&x)?, &y, Reduction::Mean);
        let (loss, grads) = nn::value_and_grad(&mut model, loss)?;
        let (grads, _) = clip_grad_norm(&grads, 1.0)?;
        optimizer.update(&mut model, &grads)?;
        let mut all = model.arrays();
        all.extend(optimizer.arrays());
        all.push(loss.clone());
        oxmlx::eval(&all)?;
        losses.push(loss.item()?.to_f64());
        if step == 3 {
            plans = stats::PLANS.get();
        }
    }
    assert_eq!(stats::PLANS.get(), plans);
    assert!(losses[19] < losses[0], "{losses:?}");
    Ok(())
}
