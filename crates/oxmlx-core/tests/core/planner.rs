//! What each pass must do, on the smallest graph that shows it.

use crate::graphs::{Graphs, kinds};
use crate::interpret::check;
use oxmlx_core::ops::{BinaryOp, UnaryOp};
use oxmlx_core::plan::{Home, Plan, Step, ValueId, plan};
use oxmlx_core::primitive::{Op, Primitive, ReduceOp, View};
use oxmlx_types::Dtype;

fn group(step: &Step) -> &oxmlx_core::plan::Group {
    match step {
        Step::Group(g) => g,
        other => panic!("not a group: {other:?}"),
    }
}

/// Plans, checks the plan against the graph, and returns it.
fn planned(g: &Graphs) -> Plan {
    let p = plan(&g.graph);
    check(g, &p);
    p
}

fn slot_of(p: &Plan, v: ValueId) -> Option<u32> {
    match p.homes[v as usize] {
        Home::Arena(slot) => Some(slot),
        _ => None,
    }
}

#[test]
fn dead_code_is_dropped() {
    let mut g = Graphs::new();
    let x = g.leaf(&[8]);
    let dead = g.exp(x);
    g.matmul_dead(dead);
    let y = g.unary(UnaryOp::Negative, x);
    g.keep(y);
    let p = planned(&g);
    assert_eq!(kinds(&p.steps), ["points"]);
    assert_eq!(group(&p.steps[0]).instrs.len(), 1);
    assert_eq!(p.homes[dead as usize], Home::Nowhere);
}

impl Graphs {
    /// A kernel that nobody needs behind a vector.
    fn matmul_dead(&mut self, v: ValueId) {
        let m = self.reshape(v, &[2, 4]);
        let t = self.transpose(m, &[1, 0]);
        self.matmul(m, t);
    }
}

#[test]
fn common_subexpressions_are_computed_once() {
    let mut g = Graphs::new();
    let x = g.leaf(&[8]);
    let (a, b) = (g.exp(x), g.exp(x));
    let (c, d) = (g.unary(UnaryOp::Negative, a), g.unary(UnaryOp::Negative, b));
    let y = g.add(c, d);
    g.keep(y);
    assert_eq!(group(&planned(&g).steps[0]).instrs.len(), 3);
}

#[test]
fn kept_twins_share_their_contents() {
    let mut g = Graphs::new();
    let x = g.leaf(&[8]);
    let (a, b) = (g.exp(x), g.exp(x));
    g.keep(a);
    g.keep(b);
    let p = planned(&g);
    assert_eq!(p.owned, [a]);
    assert_eq!(p.homes[b as usize], Home::Same(a));
}

#[test]
fn run_time_words_are_never_merged() {
    let mut g = Graphs::new();
    let x = g.leaf(&[8]);
    // Equal words today.
    let (a, b) = (g.slice(x, &[1], &[4], &[1]), g.slice(x, &[1], &[4], &[1]));
    let y = g.add(a, b);
    let (i, j) = (g.immediate(2.0), g.immediate(2.0));
    let (z, w) = (g.mul(y, i), g.mul(y, j));
    let out = g.add(z, w);
    g.keep(out);
    let p = planned(&g);
    assert_eq!(p.views.len(), 2);
    let group = group(&p.steps[0]);
    assert_eq!((group.inputs.len(), group.instrs.len()), (4, 4));
}

#[test]
fn identities_and_casts_to_the_same_type_vanish() {
    let mut g = Graphs::new();
    let x = g.leaf(&[4, 8]);
    let a = g.cast(x, Dtype::Float32);
    let b = g.reshape(a, &[4, 8]);
    let c = g.broadcast(b, &[4, 8]);
    let d = g.transpose(c, &[0, 1]);
    let y = g.exp(d);
    g.keep(y);
    let p = planned(&g);
    assert_eq!(kinds(&p.steps), ["points"]);
    assert_eq!((group(&p.steps[0]).instrs.len(), p.views.len()), (1, 0));
    // Two casts that do something stay: they round.
    let mut g = Graphs::new();
    let x = g.leaf(&[8]);
    let half = g.cast(x, Dtype::Float16);
    let back = g.cast(half, Dtype::Float32);
    g.keep(back);
    assert_eq!(group(&planned(&g).steps[0]).instrs.len(), 2);
}

#[test]
fn a_kept_identity_of_a_leaf_needs_no_kernel() {
    let mut g = Graphs::new();
    let x = g.leaf(&[4, 8]);
    let t = g.transpose(x, &[1, 0]);
    g.keep(t);
    let p = planned(&g);
    assert!(p.steps.is_empty() && p.owned.is_empty());
    assert_eq!(p.homes[t as usize], Home::ViewOf(x));
}

#[test]
fn a_reshape_of_what_is_not_row_major_copies() {
    let mut g = Graphs::new();
    let x = g.leaf(&[4, 8]);
    let t = g.transpose(x, &[1, 0]);
    let r = g.reshape(t, &[32]);
    g.keep(r);
    assert_eq!(kinds(&planned(&g).steps), ["copy"]);
}

#[test]
fn reshapes_by_ones_and_splits_are_views() {
    for to in [&[8, 1, 4][..], &[2, 4, 4], &[1, 8, 4, 1]] {
        let mut g = Graphs::new();
        let x = g.strided_leaf(&[8, 4]);
        let r = g.reshape(x, to);
        g.keep(r);
        let p = planned(&g);
        assert!(p.steps.is_empty(), "{to:?}: {:?}", p.steps);
    }
    let mut g = Graphs::new();
    let x = g.leaf(&[4, 8]);
    let r = g.reshape(x, &[8, 4]);
    g.keep(r);
    assert!(planned(&g).steps.is_empty());
}

#[test]
fn softmax_is_one_row_group_that_respreads() {
    let mut g = Graphs::new();
    let x = g.leaf(&[4, 8]);
    let y = g.softmax(x);
    g.keep(y);
    let p = planned(&g);
    assert_eq!(kinds(&p.steps), ["rows"]);
    let group = group(&p.steps[0]);
    assert!(group.respreads && group.row_axes == 1 && group.inputs.len() == 1 && group.instrs.len() == 5);
    assert!(p.slots.is_empty());
}

#[test]
fn softmax_then_sum_stays_one_group() {
    let mut g = Graphs::new();
    let x = g.leaf(&[4, 8]);
    let y = g.softmax(x);
    let z = g.sum(y, &[1]);
    g.keep(z);
    assert_eq!(kinds(&planned(&g).steps), ["rows"]);
}

#[test]
fn layer_norm_and_its_gradient_are_one_group_each_or_together() {
    let mut g = Graphs::new();
    let (x, cotangent) = (g.leaf(&[4, 8]), g.leaf(&[4, 8]));
    let (part, eps) = (g.immediate(0.125), g.immediate(1e-5));
    let mean = |g: &mut Graphs, v: ValueId| {
        let total = g.sum(v, &[1]);
        g.mul(total, part)
    };
    let mu = mean(&mut g, x);
    let centred = g.sub(x, mu);
    let squares = g.unary(UnaryOp::Square, centred);
    let variance = mean(&mut g, squares);
    let shifted = g.add(variance, eps);
    let r = g.unary(UnaryOp::Rsqrt, shifted);
    let y = g.mul(centred, r);
    let mut forward = g.clone();
    forward.keep(y);
    assert_eq!(kinds(&planned(&forward).steps), ["rows"]);

    let gy = g.mul(cotangent, y);
    let (a, b) = (mean(&mut g, cotangent), mean(&mut g, gy));
    let by = g.mul(y, b);
    let d = g.sub(cotangent, a);
    let d = g.sub(d, by);
    let dx = g.mul(d, r);
    g.keep(dx);
    let p = planned(&g);
    assert!(p.steps.len() <= 2, "{:?}", kinds(&p.steps));
    assert!(kinds(&p.steps).iter().all(|k| *k == "rows"));
}

#[test]
fn a_mean_over_the_first_axis_is_a_reduction_of_its_own() {
    let mut g = Graphs::new();
    let x = g.leaf(&[4, 8]);
    let s = g.sum(x, &[0]);
    let part = g.immediate(0.25);
    let y = g.mul(s, part);
    g.keep(y);
    assert_eq!(kinds(&planned(&g).steps), ["reduce", "points"]);
}

#[test]
fn a_full_reduction_joins_its_producers_but_not_its_consumers() {
    let mut g = Graphs::new();
    let x = g.leaf(&[4, 8]);
    let e = g.exp(x);
    let total = g.sum(e, &[0, 1]);
    let y = g.binary(BinaryOp::Divide, e, total);
    g.keep(y);
    let p = planned(&g);
    assert_eq!(kinds(&p.steps), ["rows", "points"]);
    assert!(!group(&p.steps[0]).respreads);
    assert_eq!(group(&p.steps[0]).instrs.len(), 2);
}

#[test]
fn a_kept_interior_is_a_second_output_of_its_group() {
    let mut g = Graphs::new();
    let x = g.leaf(&[8]);
    let a = g.exp(x);
    let b = g.unary(UnaryOp::Negative, a);
    g.keep(a);
    g.keep(b);
    let p = planned(&g);
    assert_eq!(kinds(&p.steps), ["points"]);
    assert_eq!(group(&p.steps[0]).outputs.len(), 2);
    assert_eq!(p.owned, [a, b]);
}

#[test]
fn the_base_of_a_kept_view_is_owned() {
    let mut g = Graphs::new();
    let x = g.leaf(&[4, 8]);
    let e = g.exp(x);
    let t = g.transpose(e, &[1, 0]);
    g.keep(t);
    let p = planned(&g);
    assert_eq!(p.owned, [e]);
    assert_eq!(p.homes[t as usize], Home::ViewOf(e));
    assert!(p.slots.is_empty());
}

#[test]
fn a_kept_immediate_gets_a_buffer() {
    let mut g = Graphs::new();
    let one = g.immediate(1.0);
    let ones = g.broadcast(one, &[4, 8]);
    g.keep(ones);
    let p = planned(&g);
    assert_eq!(kinds(&p.steps), ["points"]);
    assert_eq!(p.owned, [ones]);
}

#[test]
fn intermediates_are_overwritten_in_place_where_they_end() {
    let mut g = Graphs::new();
    let (a, b) = (g.leaf(&[8, 8]), g.leaf(&[8, 8]));
    let m = g.matmul(a, b);
    let e = g.exp(m);
    let n = g.matmul(e, b);
    g.keep(n);
    let p = planned(&g);
    assert_eq!(kinds(&p.steps), ["op", "points", "op"]);
    assert_eq!(slot_of(&p, m), slot_of(&p, e));
    assert_eq!(p.slots.len(), 1);
    // Not while it is still needed.
    let k = g.matmul(m, n);
    g.keep(k);
    let p = planned(&g);
    assert_ne!(slot_of(&p, m), slot_of(&p, e));
}

#[test]
fn outputs_may_take_over_leaves_that_end() {
    let mut g = Graphs::new();
    let (x, y) = (g.leaf(&[8]), g.leaf(&[8]));
    let row = g.leaf(&[1]);
    let z = g.add(x, y);
    let w = g.add(z, row);
    g.keep(w);
    let p = planned(&g);
    assert_eq!(p.aliases, [(x, w)]);
    // A leaf that is read through two views at once may not be: one is read where the other was written.
    let mut g = Graphs::new();
    let x = g.leaf(&[8, 8]);
    let t = g.transpose(x, &[1, 0]);
    let y = g.add(x, t);
    g.keep(y);
    assert!(planned(&g).aliases.is_empty());
    // A leaf that is not row-major can't be, nor one of another size.
    let mut g = Graphs::new();
    let (x, row) = (g.strided_leaf(&[8, 8]), g.leaf(&[8]));
    let y = g.add(x, row);
    g.keep(y);
    assert!(planned(&g).aliases.is_empty());
}

#[test]
fn a_slice_update_may_write_into_its_operand() {
    let mut g = Graphs::new();
    let (x, update) = (g.leaf(&[8]), g.leaf(&[2]));
    let op = Primitive::Op(Op::SliceUpdate { steps: [1].as_slice().into() });
    let y = g.node(op, &[x, update], &[8], Dtype::Float32, &[3]);
    g.keep(y);
    let p = plan(&g.graph);
    assert_eq!(p.aliases, [(x, y)]);
    assert!(!p.fallible);
}

#[test]
fn kernels_between_do_not_close_a_circle() {
    // e feeds a product, whose result meets e again: one group of both would have to wait for itself.
    let mut g = Graphs::new();
    let (x, w) = (g.leaf(&[8, 8]), g.leaf(&[8, 8]));
    let e = g.exp(x);
    let m = g.matmul(e, w);
    let n = g.unary(UnaryOp::Negative, e);
    let y = g.add(m, n);
    g.keep(y);
    let p = planned(&g);
    assert!(p.steps.len() == 3 || p.steps.len() == 4, "{:?}", kinds(&p.steps));
    assert!(kinds(&p.steps).contains(&"op"));
}

#[test]
fn a_group_that_grew_late_is_seen_behind_a_kernel() {
    // The kernel ends before `b` begins, but what it reads grows to need `b`: `b` may not need the kernel.
    let mut g = Graphs::new();
    let (x, y) = (g.leaf(&[4, 1]), g.leaf(&[12, 2]));
    let a = g.unary(UnaryOp::Negative, x);
    let kernel = g.reduce(ReduceOp::Max, a, &[0]);
    let b = g.unary(UnaryOp::Negative, y);
    let top = g.reduce(ReduceOp::Max, b, &[0, 1]);
    let late = g.add(top, a);
    let both = g.add(b, kernel);
    g.keep(late);
    g.keep(both);
    planned(&g);
}

#[test]
fn groups_are_bounded() {
    let mut g = Graphs::new();
    let mut x = g.leaf(&[8]);
    for _ in 0..1000 {
        x = g.unary(UnaryOp::Negative, x);
    }
    g.keep(x);
    let p = planned(&g);
    assert!(p.steps.iter().all(|s| group(s).instrs.len() <= 128));
    assert!(p.steps.len() <= 8, "{}", p.steps.len());
}

#[test]
fn lengths_do_not_change_a_plan() {
    let build = |n: usize, m: usize| {
        let mut g = Graphs::new();
        let x = g.leaf(&[n, m]);
        let y = g.softmax(x);
        let t = g.transpose(y, &[1, 0]);
        g.keep(t);
        g
    };
    let (small, large) = (build(4, 8), build(1000, 17));
    assert_eq!(small.graph, large.graph);
    assert_eq!(format!("{:?}", plan(&small.graph)), format!("{:?}", plan(&large.graph)));
    // Which lengths are equal, and which are 1, does.
    assert_ne!(small.graph, build(8, 8).graph);
    assert_ne!(small.graph, build(1, 8).graph);
}

#[test]
fn a_reduction_of_a_broadcast_reads_every_element() {
    let mut g = Graphs::new();
    let x = g.leaf(&[4, 1]);
    let b = g.broadcast(x, &[4, 8]);
    let s = g.reduce(ReduceOp::Sum, b, &[1]);
    g.keep(s);
    let mut of_row = Graphs::new();
    let r = of_row.leaf(&[8]);
    let b = of_row.broadcast(r, &[4, 8]);
    let s = of_row.reduce(ReduceOp::Max, b, &[1]);
    let n = of_row.unary(UnaryOp::Negative, s);
    of_row.keep(n);
    planned(&g);
    planned(&of_row);
}

#[test]
fn an_identity_that_stops_gradients_is_free() {
    let mut g = Graphs::new();
    let x = g.leaf(&[8]);
    let e = g.exp(x);
    let i = g.node(Primitive::View(View::Identity { stop: true }), &[e], &[8], Dtype::Float32, &[]);
    let y = g.exp(i);
    g.keep(y);
    g.keep(i);
    let p = planned(&g);
    assert_eq!(kinds(&p.steps), ["points"]);
    assert_eq!(p.homes[i as usize], Home::Same(e));
}

#[test]
fn a_full_reduction_of_a_reshaped_group_has_its_own_domain() {
    // The group's domain has one axis, the reduction behind the reshape two.
    let mut g = Graphs::new();
    let x = g.leaf(&[24]);
    let n = g.unary(UnaryOp::Negative, x);
    let r = g.reshape(n, &[4, 6]);
    let s = g.sum(r, &[0, 1]);
    g.keep(s);
    assert_eq!(kinds(&planned(&g).steps), ["points", "rows"]);
}

#[test]
fn a_reduction_along_an_axis_of_one_is_no_operation() {
    // Otherwise the second reduction would find one element a row where it wants a whole row.
    let mut g = Graphs::new();
    let x = g.leaf(&[4, 1]);
    let top = g.reduce(ReduceOp::Max, x, &[1]);
    let e = g.exp(top);
    let s = g.sum(e, &[1]);
    g.keep(s);
    let p = planned(&g);
    assert_eq!(kinds(&p.steps), ["points"]);
    assert_eq!(group(&p.steps[0]).instrs.len(), 1);
}
