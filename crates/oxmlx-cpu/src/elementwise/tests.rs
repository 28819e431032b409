//! Every operation in every dtype that its rule allows, against float64, integers of 128 bits, or complex128.

use super::*;
use num_complex::Complex64 as Wide;
use oxmlx_core::ops::elementwise::{BinaryOp, UnaryOp};

const SPECIAL: [f64; 22] = [
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
];
const INTS: [i64; 14] = [0, 1, -1, 2, -2, 7, -7, 3, 127, -128, 255, 40_000, i64::MAX, i64::MIN];

fn apply1(op: UnaryOp, x: Scalar, out: Dtype) -> Scalar {
    fold(&Primitive::Unary(op), out, &[x])
        .unwrap_or_else(|| panic!("{} has no kernel for {}", op.name(), x.dtype))
}

fn apply2(op: BinaryOp, a: Scalar, b: Scalar, out: Dtype) -> Scalar {
    fold(&Primitive::Binary(op), out, &[a, b])
        .unwrap_or_else(|| panic!("{} has no kernel for {}", op.name(), a.dtype))
}

fn ulp(d: Dtype) -> f64 {
    match d {
        Dtype::Float16 => 2f64.powi(-10),
        Dtype::Bfloat16 => 2f64.powi(-7),
        Dtype::Float64 => 1e-14,
        _ => 2f64.powi(-22),
    }
}

fn close(got: f64, want: f64, d: Dtype) -> bool {
    let want = Scalar::from_f64(want, d).to_f64();
    let tiny = if d == Dtype::Float16 { 1e-7 } else { 1e-38 };
    got == want || got.is_nan() && want.is_nan() || (got - want).abs() <= ulp(d) * want.abs() + tiny
}

fn truth(b: bool) -> f64 {
    b as u8 as f64
}

fn float1(op: UnaryOp, x: f64) -> Option<f64> {
    use UnaryOp::*;
    Some(match op {
        Abs => x.abs(),
        ArcCos => x.acos(),
        ArcCosh => x.acosh(),
        ArcSin => x.asin(),
        ArcSinh => x.asinh(),
        ArcTan => x.atan(),
        ArcTanh => x.atanh(),
        // The op table's test proves every row; this is a second opinion where there is one.
        _ => return None,
    })
}

fn int1(op: UnaryOp, x: i128) -> Option<i128> {
    use UnaryOp::*;
    Some(match op {
        Abs => x.abs(),
        BitwiseInvert => !x,
        Ceil | Floor | Round | Conjugate | Real => x,
        Imag | IsInf | IsNan | IsNegInf | IsPosInf => 0,
        IsFinite => 1,
        LogicalNot => (x == 0) as i128,
        Negative => -x,
        Sign => x.signum(),
        Square => x.wrapping_mul(x),
        // The op table's test proves every row; this is a second opinion where there is one.
        _ => return None,
    })
}

fn float2(op: BinaryOp, a: f64, b: f64) -> Option<f64> {
    use BinaryOp::*;
    let floor_rem = |a: f64, b: f64| {
        let r = a % b;
        if r == 0.0 {
            0f64.copysign(b)
        } else if (r < 0.0) != (b < 0.0) {
            r + b
        } else {
            r
        }
    };
    Some(match op {
        Add => a + b,
        ArcTan2 => a.atan2(b),
        Divide => a / b,
        Equal => truth(a == b),
        FloorDivide => {
            if b == 0.0 {
                a / b
            } else {
                let r = a % b;
                ((a - r) / b).round() - truth(r != 0.0 && (r < 0.0) != (b < 0.0))
            }
        }
        Greater => truth(a > b),
        GreaterEqual => truth(a >= b),
        Less => truth(a < b),
        LessEqual => truth(a <= b),
        LogAddExp => special::logaddexp(a, b),
        Maximum => {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else {
                a.max(b)
            }
        }
        Minimum => {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else {
                a.min(b)
            }
        }
        Multiply => a * b,
        NotEqual => truth(a != b),
        Power => a.powf(b),
        Remainder => floor_rem(a, b),
        Subtract => a - b,
        // The op table's test proves every row; this is a second opinion where there is one.
        _ => return None,
    })
}

fn int2(op: BinaryOp, a: i128, b: i128, bits: i128) -> Option<i128> {
    use BinaryOp::*;
    Some(match op {
        Add => a + b,
        BitwiseAnd => a & b,
        BitwiseOr => a | b,
        BitwiseXor => a ^ b,
        Equal => (a == b) as i128,
        FloorDivide if b == 0 => 0,
        FloorDivide => {
            (a - a.rem_euclid(b.abs()) - if b < 0 && a.rem_euclid(b.abs()) != 0 { b } else { 0 }) / b
        }
        Greater => (a > b) as i128,
        GreaterEqual => (a >= b) as i128,
        LeftShift => a << b.rem_euclid(bits),
        Less => (a < b) as i128,
        LessEqual => (a <= b) as i128,
        Maximum => a.max(b),
        Minimum => a.min(b),
        Multiply => a.wrapping_mul(b),
        NotEqual => (a != b) as i128,
        Power if b < 0 => 0,
        Power => (0..64).rev().fold(1i128, |y, i| {
            let y = y.wrapping_mul(y);
            if b >> i & 1 == 1 { y.wrapping_mul(a) } else { y }
        }),
        Remainder if b == 0 => a,
        Remainder => {
            let r = a.rem_euclid(b.abs());
            if b < 0 && r != 0 { r + b } else { r }
        }
        RightShift => a >> b.rem_euclid(bits),
        Subtract => a - b,
        // The op table's test proves every row; this is a second opinion where there is one.
        _ => return None,
    })
}

fn integer(s: Scalar) -> i128 {
    if s.dtype == Dtype::Uint64 { s.bits as i128 } else { s.to_i64() as i128 }
}

#[test]
fn unary_of_floats_and_integers() {
    for &op in UnaryOp::ALL {
        for d in Dtype::ALL {
            let Ok((takes, out)) = op.dtypes(d) else { continue };
            if takes != d || d == Dtype::Bool || d == Dtype::Complex64 {
                continue;
            }
            for (i, &v) in SPECIAL.iter().enumerate() {
                if d.is_floating() {
                    let x = Scalar::from_f64(v, d);
                    let Some(want) = float1(op, x.to_f64()) else { continue };
                    let y = apply1(op, x, out).to_f64();
                    assert!(close(y, want, out), "{}({}) in {d} = {y}, not {want}", op.name(), x.to_f64());
                } else if let Some(&n) = INTS.get(i) {
                    let x = Scalar::from_i64(n, d);
                    let Some(want) = int1(op, integer(x)) else { continue };
                    let y = apply1(op, x, out);
                    let want = Scalar::from_i64(want as i64, out);
                    assert_eq!(y, want, "{}({}) in {d}", op.name(), integer(x));
                }
            }
        }
    }
}

#[test]
fn binary_of_floats_and_integers() {
    for &op in BinaryOp::ALL {
        for d in Dtype::ALL {
            let Ok((takes, out)) = op.dtypes(d) else { continue };
            if takes != d || d == Dtype::Bool || d == Dtype::Complex64 {
                continue;
            }
            for (i, j) in (0..SPECIAL.len()).flat_map(|i| (0..SPECIAL.len()).map(move |j| (i, j))) {
                if d.is_floating() {
                    let (a, b) = (Scalar::from_f64(SPECIAL[i], d), Scalar::from_f64(SPECIAL[j], d));
                    let (x, y) = (a.to_f64(), b.to_f64());
                    let Some(want) = float2(op, x, y) else { continue };
                    let z = apply2(op, a, b, out).to_f64();
                    assert!(close(z, want, out), "{}({x}, {y}) in {d} = {z}, not {want}", op.name());
                } else if let (Some(&m), Some(&n)) = (INTS.get(i), INTS.get(j)) {
                    let (a, b) = (Scalar::from_i64(m, d), Scalar::from_i64(n, d));
                    let (x, y) = (integer(a), integer(b));
                    let Some(want) = int2(op, x, y, d.size() as i128 * 8) else { continue };
                    let want = Scalar::from_i64(want as i64, out);
                    assert_eq!(apply2(op, a, b, out), want, "{}({x}, {y}) in {d}", op.name());
                }
            }
        }
    }
}

#[test]
fn bools() {
    let b = |x: u8| Scalar::from_bool(x != 0);
    for &op in UnaryOp::ALL {
        if op.dtypes(Dtype::Bool) == Ok((Dtype::Bool, Dtype::Bool)) {
            for x in 0..2 {
                let want = match op {
                    UnaryOp::BitwiseInvert | UnaryOp::LogicalNot => 1 - x as i128,
                    _ => int1(op, x as i128).unwrap(),
                };
                assert_eq!(apply1(op, b(x), Dtype::Bool), b(want as u8), "{}({x})", op.name());
            }
        }
    }
    for &op in BinaryOp::ALL {
        if op.dtypes(Dtype::Bool) != Ok((Dtype::Bool, Dtype::Bool)) {
            continue;
        }
        for (x, y) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let want = match op {
                BinaryOp::Add | BinaryOp::LogicalOr => x | y,
                BinaryOp::LogicalAnd => x & y,
                BinaryOp::Subtract => x ^ y,
                _ => int2(op, x as i128, y as i128, 8).unwrap() as u8,
            };
            assert_eq!(apply2(op, b(x), b(y), Dtype::Bool), b(want), "{}({x}, {y})", op.name());
        }
    }
}

fn complex1(op: UnaryOp, z: Wide) -> Option<Wide> {
    use UnaryOp::*;
    let one = Wide::new(1.0, 0.0);
    Some(match op {
        Abs => z.norm().into(),
        ArcCos => z.acos(),
        ArcCosh => z.acosh(),
        ArcSin => z.asin(),
        ArcSinh => z.asinh(),
        ArcTan => z.atan(),
        ArcTanh => z.atanh(),
        Conjugate => z.conj(),
        Cos => z.cos(),
        Cosh => z.cosh(),
        Exp => z.exp(),
        Expm1 => z.exp() - one,
        Imag => z.im.into(),
        IsFinite => one,
        IsInf | IsNan | IsNegInf | IsPosInf => Wide::default(),
        Log => z.ln(),
        Log10 => z.log10(),
        Log1p => (one + z).ln(),
        Log2 => z.log2(),
        LogicalNot => truth(z == Wide::default()).into(),
        Negative => -z,
        Real => z.re.into(),
        Reciprocal => one / z,
        Round => Wide::new(z.re.round_ties_even(), z.im.round_ties_even()),
        Rsqrt => one / z.sqrt(),
        Sigmoid => one / (one + (-z).exp()),
        Sign => z / z.norm(),
        Sin => z.sin(),
        Sinh => z.sinh(),
        Sqrt => z.sqrt(),
        Square => z * z,
        Tan => z.tan(),
        Tanh => z.tanh(),
        // The op table's test proves every row; this is a second opinion where there is one.
        _ => return None,
    })
}

#[test]
fn complex_numbers() {
    let c = |z: Wide| Scalar::from_complex(z.re, z.im, Dtype::Complex64);
    let near = |s: Scalar, z: Wide| {
        let got = s.to_complex();
        (Wide::new(got.re as f64, got.im as f64) - z).norm() <= 4e-7 * z.norm().max(1e-3)
    };
    let points = [(1.0, 2.0), (-0.5, 0.25), (0.125, -3.0), (-2.5, -1.5), (3.0, 0.5)];
    for &(x, y) in &points {
        let z = Wide::new(x, y);
        for &op in UnaryOp::ALL {
            let Ok((_, out)) = op.dtypes(Dtype::Complex64) else { continue };
            let Some(want) = complex1(op, z) else { continue };
            let got = apply1(op, c(z), out);
            assert!(near(got, want), "{}({z}) = {}, not {want}", op.name(), got.to_complex());
        }
        for &(u, v) in &points {
            let w = Wide::new(u, v);
            let less = (x, y) < (u, v);
            for &op in BinaryOp::ALL {
                use BinaryOp::*;
                if op == ArcTan2 || op.dtypes(Dtype::Complex64).map(|d| d.0) != Ok(Dtype::Complex64) {
                    continue;
                }
                let want: Wide = match op {
                    Add => z + w,
                    Subtract => z - w,
                    Multiply => z * w,
                    Divide => z / w,
                    Power => z.powc(w),
                    LogAddExp => (z.exp() + w.exp()).ln(),
                    Equal => truth(z == w).into(),
                    NotEqual => truth(z != w).into(),
                    Less => truth(less).into(),
                    LessEqual => truth(less || z == w).into(),
                    Greater => truth(!less && z != w).into(),
                    GreaterEqual => truth(!less).into(),
                    Maximum => {
                        if less {
                            w
                        } else {
                            z
                        }
                    }
                    Minimum => {
                        if less {
                            z
                        } else {
                            w
                        }
                    }
                    _ => panic!("{}", op.name()),
                };
                let got = apply2(op, c(z), c(w), op.dtypes(Dtype::Complex64).unwrap().1);
                assert!(near(got, want), "{}({z}, {w}) = {}, not {want}", op.name(), got.to_complex());
            }
        }
    }
    let far = c(Wide::new(1e30, 1.0));
    assert_eq!(apply1(UnaryOp::Tanh, far, Dtype::Complex64).to_complex().re, 1.0);
    assert_eq!(apply1(UnaryOp::Sigmoid, far, Dtype::Complex64).to_complex().re, 1.0);
}

#[test]
fn casts() {
    let cast = |x: Scalar, d: Dtype| fold(&Primitive::Cast, d, &[x]).unwrap();
    let f = |v: f64| Scalar::from_f64(v, Dtype::Float32);
    assert_eq!(cast(f(-1.0), Dtype::Uint8).to_i64(), 255);
    assert_eq!(cast(f(-1.9), Dtype::Int32).to_i64(), -1);
    assert_eq!(cast(f(f64::NAN), Dtype::Int32).to_i64(), i32::MIN as i64);
    assert_eq!(cast(f(1e20), Dtype::Int32).to_i64(), i32::MIN as i64);
    assert_eq!(cast(f(-1.0), Dtype::Uint32).to_i64(), u32::MAX as i64);
    assert_eq!(cast(f(1e19), Dtype::Uint64).bits, 1e19f32 as u64);
    assert!(cast(f(f64::NAN), Dtype::Bool).to_bool());
    assert_eq!(cast(Scalar::from_complex(2.5, 7.0, Dtype::Complex64), Dtype::Float32).to_f64(), 2.5);
    // Values that every type can hold survive every pair of conversions.
    for a in Dtype::ALL {
        for b in Dtype::ALL {
            for n in 0..2 {
                let x = Scalar::from_i64(n, a);
                assert_eq!(cast(cast(x, b), a), x, "{a} {b}");
            }
            if a != Dtype::Bool && b != Dtype::Bool {
                assert_eq!(cast(Scalar::from_i64(100, a), b), Scalar::from_i64(100, b), "{a} {b}");
            }
        }
    }
}

/// A number that stands for every bit of every kernel over some arrays.
fn digest() -> u64 {
    let mut words = vec![0u64; 515];
    let mut seed = 1u64;
    for (i, w) in words.iter_mut().enumerate() {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *w = if i % 3 == 0 {
            // Moderate floats, where most functions have their bends.
            let f = ((seed >> 40) as f32 / 1e6 - 8.0).to_bits() as u64;
            f | f << 32
        } else {
            seed ^ seed >> 29
        };
    }
    let mut sum = 0u64;
    let mut out = vec![0u64; 515];
    let src = words.as_ptr().cast::<u8>();
    let mut add = |name: &str, d: Dtype, to: Dtype, n: usize, out: &[u64]| {
        let bytes = n * to.size();
        // SAFETY: `out` holds n elements.
        let all = unsafe { std::slice::from_raw_parts(out.as_ptr().cast::<u8>(), bytes) };
        for (i, e) in all.chunks(to.size()).enumerate() {
            let mut w = [0u8; 8];
            w[..e.len()].copy_from_slice(e);
            let s = Scalar { dtype: to, bits: u64::from_le_bytes(w) };
            let nan = to.is_inexact() && (s.to_complex().re.is_nan() || s.to_complex().im.is_nan());
            // Which NaN comes out of two is nobody's promise.
            let bits = if nan { 7 } else { s.bits };
            sum = (sum ^ bits).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23).wrapping_add(i as u64);
        }
        if std::env::var_os("OXMLX_DIGEST_EACH").is_some_and(|v| !v.is_empty()) {
            println!("digest of {name} {d}: {sum:x}");
        }
    };
    for d in Dtype::ALL {
        let n = 515 * 8 / 8 - 2;
        for &op in UnaryOp::ALL {
            if let (Ok((_, to)), Some(f)) = (op.dtypes(d), unary(op, d)) {
                // SAFETY: both arrays hold n elements of any type.
                unsafe { f(src, out.as_mut_ptr().cast(), n) };
                add(op.name(), d, to, n, &out);
            }
        }
        for &op in BinaryOp::ALL {
            if let (Ok((_, to)), Some(f)) = (op.dtypes(d), binary(op, d)) {
                for form in [Form::Both, Form::First, Form::Second] {
                    // SAFETY: as above.
                    unsafe { f(src, src.add(16), out.as_mut_ptr().cast(), n, form) };
                    add(op.name(), d, to, n, &out);
                }
            }
        }
        for to in Dtype::ALL {
            // SAFETY: as above.
            unsafe { cast(d, to)(src, out.as_mut_ptr().cast(), n) };
            add("cast", d, to, n, &out);
        }
    }
    sum
}

#[test]
fn all_instruction_sets_give_the_same_bits() {
    let mine = format!("digest {:x}", digest());
    if std::env::var_os("OXMLX_DIGEST").is_some_and(|v| !v.is_empty()) {
        println!("{mine}");
        return;
    }
    for isa in ["base", "v3", "v4"] {
        let out = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "elementwise::tests::all_instruction_sets_give_the_same_bits", "--nocapture"])
            .env("OXMLX_DIGEST", "1")
            .env("OXMLX_CPU_ISA", isa)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(text.contains(&mine), "{isa}: {text} instead of {mine}");
    }
}

#[test]
fn a_position_in_the_block_does_not_matter() {
    for &op in UnaryOp::ALL {
        let Some(f) = unary(op, Dtype::Float32) else { continue };
        let Ok((Dtype::Float32, to)) = op.dtypes(Dtype::Float32) else { continue };
        let mut x: Vec<f32> = (0..1000).map(|i| (i as f32 - 500.0) * 0.013).collect();
        (x[3], x[700]) = (1e20, f32::INFINITY);
        let mut y = vec![0u32; 1000];
        // SAFETY: both arrays hold 1000 elements.
        unsafe { f(x.as_ptr().cast(), y.as_mut_ptr().cast(), 1000) };
        for (i, x) in x.iter().enumerate() {
            let one = apply1(op, Scalar { dtype: Dtype::Float32, bits: x.to_bits() as u64 }, to);
            let byte = |i: usize| (y[i / 4] >> (i % 4 * 8)) as u8 as u64;
            let at = if to == Dtype::Bool { byte(i) } else { y[i] as u64 };
            assert!(at == one.bits || one.to_f64().is_nan(), "{}({x})", op.name());
        }
    }
}
