//! From arrays to a backend's calls: what reaches the parameter block, what is planned again, whose memory is
//! taken, and what a failure leaves behind.

use crate::recorder::Session;
use oxmlx_core::backend::Address;
use oxmlx_core::runtime::eval::{async_eval, eval, synchronize};
use oxmlx_core::runtime::stats;
use oxmlx_core::{Array, ops};
use oxmlx_types::{Dtype, ErrorKind, Result};

fn array(shape: &[usize]) -> Array {
    Array::from_fill(shape, Dtype::Float32, |bytes| bytes.fill(1)).unwrap()
}

fn address(a: &Array) -> Address {
    a.host().unwrap().0.address()
}

fn one(a: &Array) -> Result<()> {
    eval(std::slice::from_ref(a))
}

#[test]
fn immediates_reach_the_parameter_block_without_a_new_plan() -> Result<()> {
    let session = Session::new();
    let x = array(&[8]);
    for (i, rate) in [0.1f32, 0.25, -3.0].into_iter().enumerate() {
        let before = stats::PLANS.get();
        one(&ops::multiply(&x, &ops::weak(rate as f64, Dtype::Float32))?)?;
        assert_eq!(session.only().params, [rate.to_bits() as u64]);
        assert_eq!(stats::PLANS.get() - before, (i == 0) as u64);
    }
    assert_eq!(session.lowered(), 1);
    Ok(())
}

#[test]
fn a_broadcast_immediate_beside_an_arena_lies_in_the_parameter_block() -> Result<()> {
    let session = Session::new();
    let x = array(&[8, 8]);
    // The product reads the immediate as a kernel's operand; the other operand is in the arena.
    // Its own statement: what a nested call returns lives to the end of its statement and would be kept.
    let y = ops::matmul(&ops::exp(&x)?, &ops::zeros(&[8, 8], Dtype::Float32)?)?;
    one(&y)?;
    let ran = session.only();
    let operands = ran.plan.steps.last().unwrap().inputs();
    assert_ne!(ran.values[operands[0] as usize].base, ran.block);
    assert_eq!(ran.values[operands[1] as usize].base, ran.block);
    Ok(())
}

#[test]
fn an_immediate_of_another_type_is_another_plan() -> Result<()> {
    let session = Session::new();
    let x = array(&[8]);
    one(&ops::multiply(&x, &ops::weak(2.0, Dtype::Float32))?)?;
    one(&ops::multiply(&x, &Array::from_f64(2.0, Dtype::Float64))?)?;
    assert_eq!(session.lowered(), 2);
    Ok(())
}

#[test]
fn a_moving_slice_has_one_plan() -> Result<()> {
    let session = Session::new();
    let x = array(&[32, 4]);
    for start in [0, 3, 17, 29] {
        let window = ops::slice(&x, &[start, 0], &[start + 3, 4], &[1, 1])?;
        one(&ops::exp(&window)?)?;
        let ran = session.only();
        assert_eq!(ran.params, [start as u64, 0]);
        assert_eq!(ran.input().layout.offset, 4 * start as usize);
        assert_eq!(ran.input().base, address(&x));
    }
    assert_eq!(session.lowered(), 1);
    Ok(())
}

#[test]
fn a_growing_length_is_planned_once_and_sized_seldom() -> Result<()> {
    let session = Session::new();
    let (plans, sizings) = (stats::PLANS.get(), stats::SIZINGS.get());
    for n in 20..500 {
        let keys = array(&[n, 8]);
        let scores = ops::softmax(&ops::sum(&ops::square(&keys)?, Some(&[0]), true)?, Some(&[-1]))?;
        one(&scores)?;
        let ran = session.only();
        // Kernels are given the exact length, whatever the memory was sized for.
        assert_eq!(ran.input().layout.shape.as_slice(), [n, 8]);
    }
    assert_eq!(stats::PLANS.get() - plans, 1);
    assert!(stats::SIZINGS.get() - sizings < 30, "{}", stats::SIZINGS.get() - sizings);
    Ok(())
}

#[test]
fn other_equalities_of_lengths_are_other_plans() -> Result<()> {
    let session = Session::new();
    for shape in [[4, 6], [5, 7], [6, 6], [1, 6]] {
        one(&ops::exp(&ops::transpose(&array(&shape), None)?)?)?;
    }
    assert_eq!(session.lowered(), 3);
    Ok(())
}

#[test]
fn a_buffer_is_taken_over_only_from_its_last_owner() -> Result<()> {
    let session = Session::new();
    let (mut x, y) = (array(&[1000]), array(&[1000]));
    let first = address(&x);
    let before = stats::DONATIONS.get();
    x = ops::add(&x, &y)?;
    one(&x)?;
    assert_eq!((address(&x), session.only().output()), (first, first));
    assert_eq!(stats::DONATIONS.get() - before, 1);

    let keep = x.clone();
    x = ops::add(&x, &y)?;
    one(&x)?;
    assert_ne!(address(&x), first);
    assert_eq!(address(&keep), first);
    assert_eq!(stats::DONATIONS.get() - before, 1);
    Ok(())
}

#[test]
fn a_view_or_an_export_keeps_a_buffer_from_being_taken() -> Result<()> {
    let _session = Session::new();
    let y = array(&[1000]);
    let before = stats::DONATIONS.get();
    let mut x = array(&[1000]);
    let view = ops::slice(&x, &[10], &[20], &[1])?;
    one(&view)?;
    x = ops::add(&x, &y)?;
    one(&x)?;
    assert_ne!(address(&x), address(&view));

    x.mark_escaped();
    x = ops::add(&x, &y)?;
    one(&x)?;
    assert_eq!(stats::DONATIONS.get(), before);
    Ok(())
}

#[test]
fn an_operand_that_is_read_again_later_is_not_taken() -> Result<()> {
    let _session = Session::new();
    let before = stats::DONATIONS.get();
    let x = array(&[32, 32]);
    let e = ops::exp(&x)?;
    let y = ops::add(&ops::matmul(&e, &x)?, &e)?;
    drop(x);
    eval(&[e, y])?;
    assert!(stats::DONATIONS.get() - before <= 1);
    Ok(())
}

#[test]
fn what_may_refuse_its_operands_takes_nothing() -> Result<()> {
    let _session = Session::new();
    let before = stats::DONATIONS.get();
    let indices = Array::from_bytes(&[0; 16], &[4], Dtype::Int32)?;
    let mut x = array(&[4]);
    let first = address(&x);
    x = ops::add(&ops::exp(&x)?, &ops::take(&array(&[8]), &indices, 0)?)?;
    one(&x)?;
    assert_ne!(address(&x), first);
    assert_eq!(stats::DONATIONS.get(), before);
    Ok(())
}

#[test]
fn a_failed_run_leaves_everything_as_it_was() -> Result<()> {
    let session = Session::new();
    let x = array(&[8, 8]);
    let bytes = x.to_bytes()?;
    let h = ops::matmul(&x, &x)?;
    let y = ops::sum(&h, None, false)?;
    session.fail(true);
    for _ in 0..2 {
        let failure = eval(&[y.clone(), h.clone()]).unwrap_err();
        assert_eq!((failure.kind, failure.op), (ErrorKind::Backend, "run"));
        assert!(!y.is_evaluated() && !h.is_evaluated());
        assert_eq!(x.to_bytes()?, bytes);
    }
    session.fail(false);
    eval(&[y.clone(), h.clone()])?;
    assert!(y.is_evaluated() && h.is_evaluated());
    Ok(())
}

#[test]
fn a_failed_run_that_took_a_buffer_says_so_for_ever() -> Result<()> {
    let session = Session::new();
    let y = array(&[1000]);
    let mut x = array(&[1000]);
    one(&x)?;
    x = ops::add(&x, &y)?;
    session.fail(true);
    assert!(one(&x).is_err());
    session.fail(false);
    // Its operand may be half overwritten: the result can't be computed any more, and nor can what needs it.
    assert!(one(&x).is_err());
    assert!(one(&ops::exp(&x)?).is_err());
    assert!(one(&ops::exp(&y)?).is_ok());
    Ok(())
}

#[test]
fn an_asynchronous_failure_is_told_once() -> Result<()> {
    let session = Session::new();
    let x = array(&[8]);
    let y = ops::exp(&x)?;
    session.fail(true);
    async_eval(std::slice::from_ref(&y))?;
    assert!(synchronize(None).is_err());
    assert!(synchronize(None).is_ok());
    session.fail(false);
    one(&y)?;
    assert!(y.is_evaluated());
    Ok(())
}

#[test]
fn two_threads_compute_one_graph_once() -> Result<()> {
    let session = Session::new();
    session.slow(true);
    let y = ops::exp(&ops::square(&array(&[8]))?)?;
    std::thread::scope(|scope| {
        let evals: Vec<_> = (0..4).map(|_| scope.spawn(|| eval(std::slice::from_ref(&y)))).collect();
        evals.into_iter().for_each(|e| assert!(e.join().unwrap().is_ok()));
    });
    session.slow(false);
    session.only();
    Ok(())
}

#[test]
fn threads_share_what_lies_under_both_their_graphs() -> Result<()> {
    let session = Session::new();
    session.slow(true);
    let h = ops::exp(&array(&[8]))?;
    let (a, b) = (ops::square(&h)?, ops::negative(&h)?);
    std::thread::scope(|scope| {
        for out in [&a, &b] {
            scope.spawn(move || eval(std::slice::from_ref(out)));
        }
    });
    session.slow(false);
    assert!(h.is_evaluated() && a.is_evaluated() && b.is_evaluated());
    let instructions = |ran: &crate::recorder::Ran| -> usize {
        let groups = ran.plan.steps.iter();
        groups.map(|s| if let oxmlx_core::plan::Step::Group(g) = s { g.instrs.len() } else { 0 }).sum()
    };
    assert_eq!(session.ran().iter().map(instructions).sum::<usize>(), 3);
    Ok(())
}

#[test]
fn an_interior_that_nobody_holds_is_not_written() -> Result<()> {
    let session = Session::new();
    let x = array(&[8]);
    let h = ops::exp(&x)?;
    let y = ops::square(&h)?;
    drop(h);
    one(&y)?;
    assert_eq!(session.only().plan.owned.len(), 1);
    let h = ops::exp(&x)?;
    let y = ops::square(&h)?;
    one(&y)?;
    assert_eq!(session.only().plan.owned.len(), 2);
    assert!(h.is_evaluated());
    Ok(())
}
