//! Plans of graphs that nobody would write: every one must do what its graph says, in an order that works, in
//! memory that does not overlap, and the same graph must give the same plan.

use crate::graphs::Graphs;
use crate::interpret::check;
use oxmlx_core::ops::{BinaryOp, UnaryOp};
use oxmlx_core::plan::{ValueId, plan};
use oxmlx_core::primitive::ReduceOp;
use oxmlx_types::{Dtype, broadcast_shapes};
use proptest::prelude::*;

/// Choices for one node: what to apply, to what, how, and whether the result is kept.
type Choice = (u8, u16, u16, u16, bool);

/// Values are small; more elements would only cost time.
const LARGEST: usize = 200;

fn grow(g: &mut Graphs, values: &[ValueId], (what, a, b, how, _): Choice) -> Option<ValueId> {
    // Late values are taken more often: chains are what fuses.
    let pick = |k: u16| {
        let n = values.len();
        let back = (k as usize % n).min((k as usize / 7) % n);
        values[n - 1 - back]
    };
    let (x, how) = (pick(a), how as usize);
    let shape = g.shape(x);
    let rank = shape.len();
    Some(match what % 16 {
        0..=1 => g.unary([UnaryOp::Negative, UnaryOp::Abs][how % 2], x),
        2..=6 => {
            let fits = |y: &ValueId| {
                let joint = broadcast_shapes(&shape, &g.shape(*y));
                g.dtype(*y) == g.dtype(x) && joint.is_ok_and(|s| s.iter().product::<usize>() <= LARGEST)
            };
            let y = Some(pick(b)).filter(fits).or_else(|| values.iter().rev().find(|y| fits(y)).copied())?;
            g.binary([BinaryOp::Add, BinaryOp::Subtract, BinaryOp::Maximum, BinaryOp::Minimum][how % 4], x, y)
        }
        7..=9 if rank > 0 => {
            let last = rank as u8 - 1;
            let axes: Vec<u8> = match how % 5 {
                0 => (0..rank as u8).collect(),
                1 => vec![0],
                2 if rank > 1 => vec![last - 1, last],
                _ => vec![last],
            };
            g.reduce([ReduceOp::Sum, ReduceOp::Max][how / 5 % 2], x, &axes)
        }
        10 if rank > 0 => {
            let n: usize = shape.iter().product();
            let mut to = shape.clone();
            match how % 5 {
                0 => to = vec![n],
                1 => to.retain(|&d| d != 1),
                2 => to.insert(how / 5 % (rank + 1), 1),
                3 if n.is_multiple_of(2) => to = vec![n / 2, 2],
                _ => to = vec![1, n],
            }
            g.reshape(x, &to)
        }
        11 if rank > 1 => {
            let mut axes: Vec<u8> = (0..rank as u8).collect();
            axes.rotate_left(how % rank);
            g.transpose(x, &axes)
        }
        12 if rank > 0 && shape[rank - 1] > 2 => {
            let mut to = shape.clone();
            let mut at = vec![0; rank];
            at[rank - 1] = (how % 2) as u64;
            to[rank - 1] =
                if how % 3 == 0 { shape[rank - 1] - 1 - how % 2 } else { (shape[rank - 1] - how % 2) / 2 };
            let mut steps = vec![1; rank];
            steps[rank - 1] = if how % 3 == 0 { 1 } else { 2 };
            g.slice(x, &at, &to, &steps)
        }
        13 => {
            let to = [4, 6];
            (broadcast_shapes(&shape, &to).is_ok_and(|s| s.as_slice() == to)).then(|| g.broadcast(x, &to))?
        }
        14 => g.cast(x, [Dtype::Float32, Dtype::Float16][how % 2]),
        15 if rank == 2 => {
            let y = values.iter().rev().find(|&&y| g.shape(y).len() == 2 && g.shape(y)[0] == shape[1])?;
            if g.dtype(*y) != g.dtype(x) || shape[0] * g.shape(*y)[1] > LARGEST {
                return None;
            }
            g.matmul(x, *y)
        }
        _ => return None,
    })
}

fn build(choices: &[Choice]) -> Graphs {
    let mut g = Graphs::new();
    let shapes: [&[usize]; 6] = [&[4, 6], &[4, 1], &[6], &[1, 6], &[2, 4, 3], &[1, 1]];
    let mut values: Vec<ValueId> = shapes.iter().map(|s| g.leaf(s)).collect();
    values.push(g.strided_leaf(&[4, 6]));
    values.push(g.immediate(1.5));
    values.push(g.leaf(&[4, 6]));
    let mut made = Vec::new();
    for &choice in choices {
        if let Some(v) = grow(&mut g, &values, choice) {
            values.push(v);
            made.push(v);
            if choice.4 {
                g.keep(v);
            }
        }
    }
    if let Some(&last) = made.last()
        && !g.graph.kept.contains(&last)
    {
        g.keep(last);
    }
    g
}

fn choices(most: usize) -> impl Strategy<Value = Vec<Choice>> {
    let keep = prop::bool::weighted(0.15);
    prop::collection::vec((any::<u8>(), any::<u16>(), any::<u16>(), any::<u16>(), keep), 1..most)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(std::env::var("OXMLX_PLANS").ok().and_then(|n| n.parse().ok()).unwrap_or(400)) })]

    #[test]
    fn a_plan_does_what_its_graph_says(choices in choices(40)) {
        let g = build(&choices);
        check(&g, &plan(&g.graph));
    }

    #[test]
    fn equal_graphs_have_equal_plans(choices in choices(30)) {
        let (a, b) = (build(&choices), build(&choices));
        prop_assert_eq!(&a.graph, &b.graph);
        prop_assert_eq!(format!("{:?}", plan(&a.graph)), format!("{:?}", plan(&b.graph)));
    }
}
