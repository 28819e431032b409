//! The engine on a GPU that only records: what is planned, encoded, captured, launched and copied, and when.
//!
//! Kernels compute nothing here, so only what the engine itself moves (words, copies, mirrors) has contents.

use oxmlx_core::runtime::eval::{async_eval, eval, synchronize};
use oxmlx_core::runtime::{memory, stats, stream};
use oxmlx_core::{Array, backend, ops, plan};
use oxmlx_cuda::recording::{Asked, Recording};
use oxmlx_types::{Device, DeviceKind, Dtype, ErrorKind, Result};
use parking_lot::{Mutex, MutexGuard};
use std::sync::{Arc, OnceLock};

const GPU: Device = Device { kind: DeviceKind::Gpu, index: 0 };

/// Tests take turns: counters and devices belong to the process.
struct Session {
    driver: Arc<Recording>,
    _turn: MutexGuard<'static, ()>,
}

impl Session {
    fn new() -> Session {
        static TURN: Mutex<()> = Mutex::new(());
        static DRIVER: OnceLock<Arc<Recording>> = OnceLock::new();
        let turn = TURN.lock();
        let driver = DRIVER.get_or_init(|| {
            let driver = Arc::new(Recording::default());
            backend::register(Arc::new(oxmlx_cpu::Cpu::new()));
            backend::register(oxmlx_cuda::recording(driver.clone()));
            driver
        });
        stream::set_default_device(GPU).expect("the recording GPU is registered");
        plan::cache::clear();
        driver.asked();
        Session { driver: driver.clone(), _turn: turn }
    }

    fn graphs(&self) -> usize {
        self.driver.asked().iter().filter(|a| **a == Asked::Graph).count()
    }
}

fn array(shape: &[usize]) -> Array {
    let n: usize = shape.iter().product();
    Array::from_bytes(&vec![0u8; 4 * n], shape, Dtype::Float32).expect("the sizes fit")
}

/// Counters whose growth a warm step must not cause.
fn cold() -> [u64; 4] {
    [&stats::PLANS, &stats::INSTANTIATIONS, &stats::LOWERINGS, &stats::ENCODINGS].map(|c| c.get())
}

/// A step of stochastic gradient descent, with a rate that changes.
fn step(w: &Array, x: &Array, rate: f64) -> Result<(Array, Array)> {
    let y = ops::matmul(x, w)?;
    let loss = ops::mean(&ops::square(&y)?, None, false)?;
    let g = ops::matmul(&ops::transpose(x, Some(&[1, 0]))?, &y)?;
    let w = ops::subtract(w, &ops::multiply(&g, &Array::from_f64(rate, Dtype::Float32))?)?;
    Ok((w, loss))
}

#[test]
fn a_warm_step_is_one_launch_of_a_graph() -> Result<()> {
    let session = Session::new();
    let mut w = array(&[64, 64]);
    let mut before = cold();
    for i in 0..8 {
        if i == 4 {
            before = cold();
            session.driver.asked();
        }
        let x = array(&[32, 64]);
        let (next, loss) = step(&w, &x, 0.1 / f64::from(i + 1))?;
        eval(&[next.clone(), loss.clone()])?;
        loss.item()?;
        w = next;
    }
    assert_eq!(cold(), before);
    assert_eq!(session.graphs(), 4);
    Ok(())
}

#[test]
fn the_first_run_launches_kernel_by_kernel() -> Result<()> {
    let session = Session::new();
    let x = array(&[100]);
    eval(&[ops::exp(&x)?])?;
    let asked = session.driver.asked();
    let names: Vec<&str> = asked
        .iter()
        .map(|a| match a {
            Asked::Launch { kernel, .. } => kernel.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names[0].starts_with("block_put") && names[2] == "block_signal", "{names:?}");
    Ok(())
}

#[test]
fn a_cache_that_grows_by_a_row_keeps_its_graph() -> Result<()> {
    let session = Session::new();
    let mut cache = array(&[1024, 16]);
    eval(&[cache.clone()])?;
    let mut before = cold();
    for i in 0..40usize {
        if i == 8 {
            before = cold();
            session.driver.asked();
        }
        let row = array(&[1, 16]);
        cache = ops::slice_update(&cache, &row, &[200 + i as i64, 0], &[201 + i as i64, 16], &[1, 1])?;
        let seen = ops::slice(&cache, &[0, 0], &[201 + i as i64, 16], &[1, 1])?;
        let out = ops::sum(&ops::square(&seen)?, None, false)?;
        eval(&[cache.clone(), out])?;
    }
    let now = cold();
    assert_eq!([now[0], now[2]], [before[0], before[2]], "planned or lowered again");
    // One graph a bucket of lengths.
    assert!(now[1] - before[1] <= 1, "instantiated {} times", now[1] - before[1]);
    assert!(session.graphs() >= 31);
    Ok(())
}

#[test]
fn contents_go_to_the_device_and_come_back() -> Result<()> {
    let _session = Session::new();
    let bytes: Vec<u8> = (0..40_000u32).flat_map(u32::to_le_bytes).collect();
    let x = Array::from_bytes(&bytes, &[200, 200], Dtype::Uint32)?;
    assert_eq!(x.to_bytes()?, bytes);
    let corner = ops::slice(&x, &[10, 10], &[12, 12], &[1, 1])?;
    assert_eq!(corner.to_f64_vec()?, [2010.0, 2011.0, 2210.0, 2211.0]);
    Ok(())
}

#[test]
fn a_program_on_both_devices_is_cut() -> Result<()> {
    let session = Session::new();
    let x = array(&[2000]);
    let a = ops::exp(&x)?;
    let on_cpu = {
        let _scope = stream::scope(stream::default_stream(Device::CPU));
        ops::multiply(&a, &Array::from_f64(0.0, Dtype::Float32))?
    };
    let b = ops::add(&on_cpu, &x)?;
    eval(&[b])?;
    let launches = session.driver.asked().iter().filter(|a| matches!(a, Asked::Launch { .. })).count();
    assert_eq!(launches, 6);
    Ok(())
}

#[test]
fn exhausted_memory_is_an_error_after_which_work_goes_on() -> Result<()> {
    let session = Session::new();
    memory::clear_cache();
    let x = array(&[1 << 20]);
    eval(std::slice::from_ref(&x))?;
    session.driver.set_room(Some(1 << 20));
    let y = ops::exp(&x)?;
    let failed = eval(std::slice::from_ref(&y));
    session.driver.set_room(None);
    assert_eq!(failed.unwrap_err().kind, ErrorKind::OutOfMemory);
    eval(&[y])
}

#[test]
fn memory_stays_flat_over_shapes() -> Result<()> {
    let _session = Session::new();
    for n in 0..300 {
        let x = array(&[1000 + n]);
        async_eval(&[ops::sum(&ops::exp(&x)?, None, false)?])?;
    }
    synchronize(None)?;
    memory::clear_cache();
    let active = memory::usage().active;
    for n in 300..600 {
        let x = array(&[1000 + n]);
        async_eval(&[ops::sum(&ops::exp(&x)?, None, false)?])?;
    }
    synchronize(None)?;
    assert_eq!(memory::usage().active, active);
    Ok(())
}
