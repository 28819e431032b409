//! Every function of `kernels/elementwise` against the CPU's kernel of the same operation.

use super::super::functors;
use super::compile::{full, group};
use super::emulate::{Machine, Val};
use oxmlx_core::ops::elementwise::{BinaryOp, UnaryOp};
use oxmlx_core::plan::{Group, Instr};
use oxmlx_cpu::elementwise::{self, Form};
use oxmlx_types::{Dtype, Layout, Scalar};

const SPECIAL: [f64; 30] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    2.0,
    -3.7,
    0.001,
    -0.25,
    0.75,
    100.25,
    -7.0,
    7.0,
    1e4,
    -60.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    3e9,
    -3e9,
    1e19,
    255.0,
    3.0,
    -1e-30,
    88.0,
    0.3333,
];
const INTS: [i64; 30] = [
    0,
    1,
    -1,
    2,
    -2,
    7,
    -7,
    3,
    127,
    -128,
    255,
    40_000,
    i64::MAX,
    i64::MIN,
    5,
    6,
    8,
    9,
    -9,
    31,
    32,
    63,
    64,
    65,
    100,
    -100,
    1 << 31,
    -(1 << 31),
    65_535,
    12,
];

/// 30 elements of a dtype.
fn elements(d: Dtype) -> Vec<Scalar> {
    (0..30)
        .map(|i| match d {
            Dtype::Complex64 => Scalar::from_complex(
                [0.0, 1.0, -0.5, 0.125, -2.5, 3.0][i % 6],
                [2.0, 0.25, -3.0, -1.5, 0.5][i / 6],
                d,
            ),
            _ if d.is_inexact() => Scalar::from_f64(SPECIAL[i], d),
            Dtype::Bool => Scalar::from_bool(i % 2 == 1),
            _ => Scalar::from_i64(INTS[i], d),
        })
        .collect()
}

fn put(image: &mut [u8], at: usize, all: &[Scalar]) {
    for (i, s) in all.iter().enumerate() {
        let size = s.dtype.size();
        image[at + i * size..at + (i + 1) * size].copy_from_slice(&s.bits.to_le_bytes()[..size]);
    }
}

fn get(image: &[u8], at: usize, d: Dtype, n: usize) -> Vec<Scalar> {
    let one = |i: usize| {
        let mut bits = [0u8; 8];
        bits[..d.size()].copy_from_slice(&image[at + i * d.size()..at + (i + 1) * d.size()]);
        Scalar { dtype: d, bits: u64::from_le_bytes(bits) }
    };
    (0..n).map(one).collect()
}

/// What the CPU makes of it.
fn on_cpu(instr: Instr, a: &[Scalar], b: &[Scalar], out: Dtype) -> Vec<Scalar> {
    let n = a.len();
    let (mut x, mut y, mut z) = (vec![0u8; n * 8], vec![0u8; n * 8], vec![0u8; n * 8]);
    put(&mut x, 0, a);
    put(&mut y, 0, b);
    // SAFETY: all arrays have room for n elements of any type.
    unsafe {
        match instr {
            Instr::Unary { op, .. } => {
                elementwise::unary(op, a[0].dtype).unwrap()(x.as_ptr(), z.as_mut_ptr(), n)
            }
            Instr::Cast { .. } => elementwise::cast(a[0].dtype, out)(x.as_ptr(), z.as_mut_ptr(), n),
            Instr::Binary { op, .. } => {
                let f = elementwise::binary(op, a[0].dtype).unwrap();
                f(x.as_ptr(), y.as_ptr(), z.as_mut_ptr(), n, Form::Both);
            }
            _ => panic!("not here"),
        }
    }
    get(&z, 0, out, n)
}

fn near(a: Scalar, b: Scalar) -> bool {
    if a.bits == b.bits {
        return true;
    }
    if !a.dtype.is_inexact() {
        return false;
    }
    let tolerance = match a.dtype {
        Dtype::Float64 => 1e-13,
        Dtype::Float16 => 1e-3,
        Dtype::Bfloat16 => 8e-3,
        _ => 1e-6,
    };
    if a.dtype == Dtype::Complex64 {
        let (x, y) = (a.to_complex(), b.to_complex());
        let nan = |z: num_complex::Complex<f32>| z.re.is_nan() || z.im.is_nan();
        return nan(x) && nan(y) || x == y || (x - y).norm() <= 1e-6 * y.norm();
    }
    let (x, y) = (a.to_f64(), b.to_f64());
    x.is_nan() && y.is_nan() || x == y || (x - y).abs() <= tolerance * y.abs() + 1e-44
}

/// A name, the instruction, its operands, the result.
type Case = (String, Instr, Vec<Scalar>, Vec<Scalar>, Val);

#[test]
fn functions_agree_with_the_cpu() {
    let mut m = Machine::default();
    let mut cases: Vec<Case> = Vec::new();
    let mut add = |m: &mut Machine, name: String, g: Group, a: Vec<Scalar>, b: Vec<Scalar>, out: Dtype| {
        let mut vals = vec![Val { at: 0, dtype: Dtype::Float32, layout: Layout::contiguous(&[a.len()]) }];
        for operand in [&a, &b].into_iter().take(g.inputs.len()) {
            let v = m.value(operand[0].dtype, &[operand.len()]);
            put(&mut m.image, v.at, operand);
            vals.push(v);
        }
        let y = m.value(out, &[a.len()]);
        vals.push(y.clone());
        m.add(&g, &vals);
        cases.push((name, g.instrs[0], a, b, y));
    };
    for d in Dtype::ALL {
        let x = elements(d);
        for &op in UnaryOp::ALL {
            let Some((_, out)) = op.dtypes(d).ok().filter(|r| r.0 == d && functors::unary(op, d).is_some())
            else {
                continue;
            };
            let g = group(0, &[full(d)], &[(Instr::Unary { op, src: 0, dst: 1 }, full(out))], &[1]);
            add(&mut m, format!("{} of {d}", op.name()), g, x.clone(), x.clone(), out);
        }
        for &op in BinaryOp::ALL {
            let Some((_, out)) = op.dtypes(d).ok().filter(|r| r.0 == d && functors::binary(op, d).is_some())
            else {
                continue;
            };
            let (a, b): (Vec<_>, Vec<_>) = x.iter().flat_map(|&a| x.iter().map(move |&b| (a, b))).unzip();
            let g =
                group(0, &[full(d), full(d)], &[(Instr::Binary { op, a: 0, b: 1, dst: 2 }, full(out))], &[2]);
            add(&mut m, format!("{} of {d}", op.name()), g, a, b, out);
        }
        for to in Dtype::ALL {
            let g = group(0, &[full(d)], &[(Instr::Cast { src: 0, dst: 1 }, full(to))], &[1]);
            add(&mut m, format!("{d} as {to}"), g, x.clone(), x.clone(), to);
        }
    }
    if !m.run("functions") {
        return;
    }
    let mut wrong = 0;
    for (name, instr, a, b, y) in cases {
        let got = get(&m.image, y.at, y.dtype, a.len());
        let want = on_cpu(instr, &a, &b, y.dtype);
        let bad: Vec<String> = (0..a.len())
            .filter(|&i| !near(got[i], want[i]))
            .map(|i| {
                format!("({:?}, {:?}) = {:?}, not {:?}", show(a[i]), show(b[i]), show(got[i]), show(want[i]))
            })
            .collect();
        if !bad.is_empty() {
            wrong += 1;
            println!("{name}: {} {:?}", bad.len(), &bad[..bad.len().min(4)]);
        }
    }
    assert_eq!(wrong, 0);
}

fn show(s: Scalar) -> String {
    match s.dtype {
        Dtype::Complex64 => s.to_complex().to_string(),
        d if d.is_inexact() => s.to_f64().to_string(),
        _ => s.to_i64().to_string(),
    }
}
