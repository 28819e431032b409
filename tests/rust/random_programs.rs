//! Programs that nobody would write: lazily and at once, kept and dropped, they must give the same bits. That
//! is the engine's promise about fusion, memory that is used again, and buffers that are taken over.

use oxmlx::{Array, Dtype, Result, ops};
use proptest::prelude::*;

/// Choices for one operation: what, of what, how, and whether it is evaluated at once.
type Choice = (u8, u16, u16, u16, bool);

const LARGEST: usize = 3000;

fn leaf(shape: &[usize], seed: usize) -> Result<Array> {
    let n: usize = shape.iter().product();
    let values = (0..n).map(|i| ((i * 7919 + seed * 104_729) % 1000) as f32 / 250.0 - 2.0);
    let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    Array::from_bytes(&bytes, shape, Dtype::Float32)
}

fn floating(x: &Array) -> Result<Array> {
    if x.dtype().is_inexact() { Ok(x.clone()) } else { ops::astype(x, Dtype::Float32) }
}

fn shapes(x: &Array, how: usize) -> Result<Array> {
    let (rank, n) = (x.ndim(), x.size() as i64);
    match how % 6 {
        0 => ops::transpose(x, None),
        1 => ops::reshape(x, &[n]),
        2 if n % 2 == 0 => ops::reshape(x, &[2, n / 2]),
        3 => ops::expand_dims(x, &[(how / 6 % (rank + 1)) as i64]),
        4 => ops::squeeze(x, None),
        _ => ops::contiguous(x),
    }
}

fn reduction(x: &Array, how: usize) -> Result<Array> {
    let axes = [Some(&[-1i64][..]), Some(&[0]), None, Some(&[-1])][how % 4];
    let keep = (how / 4).is_multiple_of(2);
    match how / 8 % 8 {
        0 | 1 => ops::sum(x, axes, keep),
        2 => ops::max(x, axes, keep),
        3 => ops::mean(x, axes, keep),
        4 => ops::logsumexp(&floating(x)?, axes, keep),
        5 => ops::var(&floating(x)?, axes, keep, 0),
        6 => ops::softmax(&floating(x)?, axes),
        _ => ops::layer_norm(&floating(x)?, None, None, 1e-5),
    }
}

fn windows(x: &Array, y: &Array, how: usize) -> Result<Array> {
    let Some(&n) = x.shape().first() else { return ops::abs(x) };
    let n = n as i64;
    let all: Vec<i64> = x.shape().iter().map(|&d| d as i64).collect();
    let (mut start, mut stop, mut steps) = (vec![0; x.ndim()], all, vec![1; x.ndim()]);
    match how % 5 {
        0 if n > 1 => start[0] = how as i64 / 5 % n,
        1 => steps[0] = 2,
        2 => (start[0], stop[0], steps[0]) = (n - 1, -n - 1, -1),
        3 => {
            let part = ops::abs(&ops::slice(x, &start, &stop, &steps)?)?;
            stop[0] = 1;
            let row = ops::slice(&part, &start, &stop, &steps)?;
            return ops::slice_update(x, &row, &start, &stop, &steps);
        }
        _ => {
            let bounded =
                ops::remainder(&ops::abs(&ops::astype(y, Dtype::Int32)?)?, &ops::weak_int(n, Dtype::Int32))?;
            return ops::take(x, &bounded, 0);
        }
    }
    ops::slice(x, &start, &stop, &steps)
}

fn apply(values: &[Array], (what, a, b, how, _): Choice) -> Result<Array> {
    let pick = |k: u16| {
        let n = values.len();
        &values[n - 1 - (k as usize % n).min(k as usize / 7 % n)]
    };
    let (x, y, how) = (pick(a), pick(b), how as usize);
    match what % 16 {
        0 => ops::tanh(&floating(x)?),
        1 => ops::negative(&floating(x)?),
        2 => ops::sigmoid(&floating(x)?),
        3 => ops::add(x, y),
        4 => ops::subtract(&floating(x)?, y),
        5 => ops::multiply(x, y),
        6 => ops::maximum(x, y),
        7 => ops::select(&ops::greater(x, y)?, x, &ops::weak(0.5, x.dtype())),
        8..=9 => reduction(x, how),
        10..=11 => shapes(x, how),
        12 => windows(x, y, how),
        13 => ops::astype(
            x,
            [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16, Dtype::Int32, Dtype::Bool][how % 5],
        ),
        14 => ops::concatenate(&[x.clone(), ops::astype(y, x.dtype())?], 0),
        _ => ops::matmul(&floating(x)?, &ops::transpose(&floating(y)?, None)?),
    }
}

/// Shape, type and bytes of an array.
type Contents = (Vec<usize>, Dtype, Vec<u8>);

/// Every result. With `at_once`, every operation is evaluated before the next.
fn run(choices: &[Choice], at_once: bool) -> Result<Vec<Contents>> {
    oxmlx::init();
    let mut values =
        vec![leaf(&[4, 6], 1)?, leaf(&[6], 2)?, leaf(&[4, 1], 3)?, leaf(&[2, 4, 6], 4)?, leaf(&[70, 9], 5)?];
    for &choice in choices {
        // What does not fit is left out, in both runs alike.
        let Ok(made) = apply(&values, choice) else { continue };
        if made.size() > LARGEST || made.size() == 0 {
            continue;
        }
        if at_once || choice.4 {
            oxmlx::eval(std::slice::from_ref(&made))?;
        }
        // Old values go, so that their memory is used again.
        if values.len() > 12 {
            values.remove(choice.3 as usize % 5);
        }
        values.push(made);
    }
    if !at_once {
        oxmlx::eval(&values)?;
    }
    values.iter().map(|v| Ok((v.shape().to_vec(), v.dtype(), v.to_bytes()?))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: std::env::var("OXMLX_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(150),
        ..ProptestConfig::default()
    })]

    #[test]
    fn lazy_and_eager_give_the_same_bits(choices in prop::collection::vec(
        (any::<u8>(), any::<u16>(), any::<u16>(), any::<u16>(), prop::bool::weighted(0.1)), 1..40)
    ) {
        let (lazy, eager) = (run(&choices, false), run(&choices, true));
        prop_assert_eq!(lazy, eager);
    }
}
