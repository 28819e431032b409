//! Every operation in every dtype, and the usual groups, through NVRTC.

use super::super::*;
use super::nvrtc;
use crate::record::{Call, Origin};
use oxmlx_core::ops::elementwise::{BinaryOp, UnaryOp};
use oxmlx_core::plan::{Extent, GroupInput, GroupOutput, Instr, RegInfo};
use oxmlx_core::primitive::ReduceOp;
use oxmlx_types::{Dtype, Layout};
use std::time::{Duration, Instant};

/// The texts and grids of a group over these layouts: the domain's, the inputs', the outputs'.
pub(super) fn texts(group: &Group, layouts: &[Layout]) -> Vec<(String, crate::record::Grid)> {
    let mut e = Encoding::default();
    let dtype_of = |v: ValueId| {
        let i = v as usize;
        match i {
            0 => Dtype::Float32,
            _ if i <= group.inputs.len() => group.regs[i - 1].dtype,
            _ => group.regs[group.outputs[i - 1 - group.inputs.len()].reg as usize].dtype,
        }
    };
    let operand = |value: ValueId| {
        let (layout, dtype) = (&layouts[value as usize], dtype_of(value));
        Operand { value, dtype, layout, alignment: 16, base: value as usize }
    };
    lower(group).unwrap().encode(&operand, &mut e).unwrap();
    let kernels = e.calls.iter().map(|c| match c {
        Call::Kernel { kernel, grid, .. } => match &kernel.origin {
            Origin::Generated(text) => (text.clone(), *grid),
            Origin::Symbol(_) => panic!("not generated"),
        },
        Call::Gemm { .. } => panic!("no kernel"),
    });
    kernels.collect()
}

/// A group of operands of these dtypes and extents, instructions whose results have these dtypes and extents,
/// and outputs of these registers.
pub(super) fn group(row_axes: u8, inputs: &[RegInfo], instrs: &[(Instr, RegInfo)], outputs: &[u16]) -> Group {
    let n = inputs.len() as u32;
    Group {
        domain: 0,
        row_axes,
        regs: inputs.iter().copied().chain(instrs.iter().map(|i| i.1)).collect(),
        inputs: (0..n).map(|i| GroupInput { value: i + 1, squeezed: false }).collect(),
        instrs: instrs.iter().map(|i| i.0).collect(),
        outputs: outputs
            .iter()
            .enumerate()
            .map(|(k, &reg)| GroupOutput { reg, value: n + 1 + k as u32 })
            .collect(),
        respreads: false,
    }
}

pub(super) fn full(dtype: Dtype) -> RegInfo {
    RegInfo { dtype, extent: Extent::Full }
}

pub(super) fn row(dtype: Dtype) -> RegInfo {
    RegInfo { dtype, extent: Extent::Row }
}

/// Softmax along the last axis.
pub(super) fn softmax(d: Dtype) -> Group {
    let instrs = [
        (Instr::Reduce { op: ReduceOp::Max, src: 0, dst: 1 }, row(d)),
        (Instr::Binary { op: BinaryOp::Subtract, a: 0, b: 1, dst: 2 }, full(d)),
        (Instr::Unary { op: UnaryOp::Exp, src: 2, dst: 3 }, full(d)),
        (Instr::Reduce { op: ReduceOp::Sum, src: 3, dst: 4 }, row(d)),
        (Instr::Binary { op: BinaryOp::Divide, a: 3, b: 4, dst: 5 }, full(d)),
    ];
    group(1, &[full(d)], &instrs, &[5])
}

/// The sum of rows.
pub(super) fn sum(d: Dtype) -> Group {
    group(1, &[full(d)], &[(Instr::Reduce { op: ReduceOp::Sum, src: 0, dst: 1 }, row(d))], &[1])
}

/// Eight times z = tanh(z * b) + a.
pub(super) fn chain(d: Dtype) -> Group {
    let mut instrs = Vec::new();
    let mut z = 0;
    for i in 0..8u16 {
        let n = 2 + 3 * i;
        instrs.push((Instr::Binary { op: BinaryOp::Multiply, a: z, b: 1, dst: n }, full(d)));
        instrs.push((Instr::Unary { op: UnaryOp::Tanh, src: n, dst: n + 1 }, full(d)));
        instrs.push((Instr::Binary { op: BinaryOp::Add, a: n + 1, b: 0, dst: n + 2 }, full(d)));
        z = n + 2;
    }
    group(0, &[full(d), full(d)], &instrs, &[z])
}

/// RMS norm of a half with a weight, computed in float32.
pub(super) fn rms_norm(d: Dtype) -> Group {
    const F: Dtype = Dtype::Float32;
    let one = RegInfo { dtype: F, extent: Extent::One };
    let instrs = [
        (Instr::Cast { src: 0, dst: 4 }, full(F)),
        (Instr::Unary { op: UnaryOp::Square, src: 4, dst: 5 }, full(F)),
        (Instr::Reduce { op: ReduceOp::Sum, src: 5, dst: 6 }, row(F)),
        (Instr::Binary { op: BinaryOp::Multiply, a: 6, b: 2, dst: 7 }, row(F)),
        (Instr::Binary { op: BinaryOp::Add, a: 7, b: 3, dst: 8 }, row(F)),
        (Instr::Unary { op: UnaryOp::Rsqrt, src: 8, dst: 9 }, row(F)),
        (Instr::Binary { op: BinaryOp::Multiply, a: 4, b: 9, dst: 10 }, full(F)),
        (Instr::Cast { src: 10, dst: 11 }, full(d)),
        (Instr::Binary { op: BinaryOp::Multiply, a: 11, b: 1, dst: 12 }, full(d)),
    ];
    group(1, &[full(d), full(d), one, one], &instrs, &[12])
}

fn check(name: &str, texts: Vec<(String, crate::record::Grid)>) -> Duration {
    let start = Instant::now();
    for (i, (text, _)) in texts.into_iter().enumerate() {
        if let Some(folder) = std::env::var_os("OXMLX_TEXTS").filter(|v| !v.is_empty()) {
            let file = std::path::Path::new(&folder).join(format!("{name}_{i}.cu").replace(' ', "_"));
            std::fs::write(file, &text).unwrap();
        }
        if let Err(e) = nvrtc::compile(&text) {
            panic!("{name}: {e}\n{text}");
        }
    }
    start.elapsed()
}

#[test]
fn every_operation_compiles() {
    if !nvrtc::present() {
        return;
    }
    let flat = |n: usize| vec![Layout::contiguous(&[1000]); n];
    let mut slowest = (Duration::ZERO, String::new());
    let mut count = 0;
    let mut compile = |name: String, g: &Group| {
        let took = check(&name, texts(g, &flat(1 + g.inputs.len() + g.outputs.len())));
        count += 1;
        if took > slowest.0 {
            slowest = (took, name);
        }
    };
    let start = Instant::now();
    for d in Dtype::ALL {
        // All casts from a dtype at once.
        let casts: Vec<_> = Dtype::ALL
            .iter()
            .enumerate()
            .map(|(i, &to)| (Instr::Cast { src: 0, dst: i as u16 + 1 }, full(to)))
            .collect();
        let outs: Vec<u16> = (1..=casts.len() as u16).collect();
        compile(format!("casts of {d}"), &group(0, &[full(d)], &casts, &outs));
        for &op in UnaryOp::ALL {
            let Some((_, out)) = op.dtypes(d).ok().filter(|r| r.0 == d && functors::unary(op, d).is_some())
            else {
                continue;
            };
            let g = group(0, &[full(d)], &[(Instr::Unary { op, src: 0, dst: 1 }, full(out))], &[1]);
            compile(format!("{} of {d}", op.name()), &g);
        }
        for &op in BinaryOp::ALL {
            let Some((_, out)) = op.dtypes(d).ok().filter(|r| r.0 == d && functors::binary(op, d).is_some())
            else {
                continue;
            };
            let g =
                group(0, &[full(d), full(d)], &[(Instr::Binary { op, a: 0, b: 1, dst: 2 }, full(out))], &[2]);
            compile(format!("{} of {d}", op.name()), &g);
        }
        let mut reduces = vec![ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min];
        if d == Dtype::Bool {
            reduces.extend([ReduceOp::All, ReduceOp::Any]);
        }
        for op in reduces {
            let g = group(1, &[full(d)], &[(Instr::Reduce { op, src: 0, dst: 1 }, row(d))], &[1]);
            compile(format!("{} along rows of {d}", op.name()), &g);
        }
    }
    println!("{count} kernels in {:?}, slowest {slowest:?}", start.elapsed());
}

#[test]
fn usual_groups_compile_soon() {
    if !nvrtc::present() {
        return;
    }
    let d = Dtype::Bfloat16;
    for n in [8usize, 100, 1000, 4096, 5001, 32_000, 100_000] {
        let l = |n| vec![Layout::contiguous(&[3, n]); 6];
        println!("softmax of {n}: {:?}", check(&format!("softmax {n}"), texts(&softmax(d), &l(n))));
        println!("sum of {n}: {:?}", check(&format!("sum {n}"), texts(&sum(Dtype::Float32), &l(n))));
        println!("norm of {n}: {:?}", check(&format!("norm {n}"), texts(&rms_norm(d), &l(n))));
    }
    let add = group(
        0,
        &[full(d), full(d)],
        &[(Instr::Binary { op: BinaryOp::Add, a: 0, b: 1, dst: 2 }, full(d))],
        &[2],
    );
    for n in [1000, 1 << 24] {
        println!(
            "add of {n}: {:?}",
            check(&format!("add {n}"), texts(&add, &vec![Layout::contiguous(&[n]); 4]))
        );
        let c = chain(Dtype::Float32);
        println!(
            "chain of {n}: {:?}",
            check(&format!("chain {n}"), texts(&c, &vec![Layout::contiguous(&[n]); 4]))
        );
    }
    let square = Layout::contiguous(&[64, 64]);
    let mixed = [square.clone(), square.clone(), square.permute(&[1, 0]), square];
    let f = Dtype::Float32;
    let add32 = group(
        0,
        &[full(f), full(f)],
        &[(Instr::Binary { op: BinaryOp::Add, a: 0, b: 1, dst: 2 }, full(f))],
        &[2],
    );
    println!("add of floats: {:?}", check("add32", texts(&add32, &vec![Layout::contiguous(&[1 << 24]); 4])));
    println!("add across: {:?}", check("add across", texts(&add, &mixed)));
}
