//! Fused groups against the same instructions one by one, and against the CPU backend.

use super::emulate::{Machine, Val};
use oxmlx_core::backend::{Address, Bound};
use oxmlx_core::ops::elementwise::{BinaryOp, UnaryOp};
use oxmlx_core::plan::{Extent, Group, GroupInput, GroupOutput, Instr, RegInfo};
use oxmlx_core::primitive::ReduceOp;
use oxmlx_types::{Dtype, Layout, Scalar};

/// A small generator: tests must not depend on the time of day.
pub(super) struct Rng(pub u64);
impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let x = self.0;
        (x ^ (x >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 17
    }
    pub fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }
    fn float(&mut self) -> f64 {
        (self.next() % 2_000_001) as f64 / 500_000.0 - 2.0
    }
}

fn reg(dtype: Dtype, extent: Extent) -> RegInfo {
    RegInfo { dtype, extent }
}

fn larger(a: Extent, b: Extent) -> Extent {
    match (a, b) {
        (Extent::Full, _) | (_, Extent::Full) => Extent::Full,
        (Extent::Row, _) | (_, Extent::Row) => Extent::Row,
        _ => Extent::One,
    }
}

const F: Dtype = Dtype::Float32;

fn random_group(rng: &mut Rng, row_axes: u8) -> Group {
    let inputs = 1 + rng.below(4);
    let mut regs = Vec::new();
    let mut squeezed = Vec::new();
    for i in 0..inputs {
        let extent = match rng.below(5) {
            0 if i > 0 => Extent::One,
            1 if i > 0 && row_axes > 0 => Extent::Row,
            _ => Extent::Full,
        };
        squeezed.push(extent == Extent::Row && rng.below(2) == 0);
        let all = [F, F, F, Dtype::Bfloat16, Dtype::Int32, Dtype::Float16, Dtype::Complex64, Dtype::Uint8];
        regs.push(reg(all[rng.below(8)], extent));
    }
    let mut instrs = Vec::new();
    for _ in 0..3 + rng.below(9) {
        let dst = regs.len() as u16;
        let pick = |rng: &mut Rng| rng.below(dst as usize) as u16;
        let a = pick(rng);
        let ra = regs[a as usize];
        let like = |rng: &mut Rng, regs: &[RegInfo]| {
            (0..8).map(|_| pick(rng)).find(|&b| regs[b as usize].dtype == ra.dtype).unwrap_or(a)
        };
        match rng.below(6) {
            0 | 1 => {
                let op = [UnaryOp::Square, UnaryOp::Conjugate, UnaryOp::Round][rng.below(3)];
                instrs.push(Instr::Unary { op, src: a, dst });
                regs.push(ra);
            }
            2 | 3 => {
                let b = like(rng, &regs);
                let op =
                    [BinaryOp::Add, BinaryOp::Multiply, BinaryOp::Maximum, BinaryOp::Subtract][rng.below(4)];
                instrs.push(Instr::Binary { op, a, b, dst });
                regs.push(reg(ra.dtype, larger(ra.extent, regs[b as usize].extent)));
            }
            4 => {
                let dtype = [F, Dtype::Float16, Dtype::Int32, Dtype::Bool, Dtype::Float64][rng.below(5)];
                instrs.push(Instr::Cast { src: a, dst });
                regs.push(reg(dtype, ra.extent));
            }
            _ if row_axes > 0 && ra.extent == Extent::Full => {
                let op = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min][rng.below(3)];
                instrs.push(Instr::Reduce { op, src: a, dst });
                regs.push(reg(ra.dtype, Extent::Row));
            }
            _ => {
                instrs.push(Instr::Unary { op: UnaryOp::LogicalNot, src: a, dst });
                regs.push(reg(Dtype::Bool, ra.extent));
                let b = like(rng, &regs);
                instrs.push(Instr::Select { cond: dst, a, b, dst: dst + 1 });
                regs.push(reg(ra.dtype, larger(ra.extent, regs[b as usize].extent)));
            }
        }
    }
    let n = regs.len();
    let mut outputs: Vec<GroupOutput> = Vec::new();
    for k in 0..1 + rng.below(3) {
        let r = if k == 0 { n - 1 } else { rng.below(n) } as u16;
        outputs.push(GroupOutput { reg: r, value: (inputs + k + 1) as u32 });
    }
    let inputs = (0..inputs).map(|i| GroupInput { value: i as u32 + 1, squeezed: squeezed[i] }).collect();
    Group { domain: 0, row_axes, regs, inputs, instrs, outputs, respreads: true }
}

fn shape_of(extent: Extent, shape: &[usize], row_axes: u8, squeezed: bool) -> Vec<usize> {
    let split = shape.len() - row_axes as usize;
    match extent {
        Extent::One => vec![],
        Extent::Full => shape.to_vec(),
        Extent::Row if squeezed => shape[..split].to_vec(),
        Extent::Row => shape.iter().enumerate().map(|(i, &n)| if i < split { n } else { 1 }).collect(),
    }
}

/// A layout that broadcasts to `shape`, with the number of elements of its buffer.
fn random_layout(rng: &mut Rng, shape: &[usize]) -> (Layout, usize) {
    let mut own: Vec<usize> = shape.iter().map(|&n| if rng.below(4) == 0 { 1 } else { n }).collect();
    if rng.below(2) != 0 {
        own = shape.to_vec();
    }
    if rng.below(5) < 3 {
        let n = own.iter().product();
        return (Layout::contiguous(&own), n);
    }
    let mut axes: Vec<usize> = (0..own.len()).collect();
    for i in (1..axes.len()).rev() {
        axes.swap(i, rng.below(i + 1));
    }
    let gap = 1 + rng.below(2);
    let swapped: Vec<usize> = axes.iter().map(|&a| own[a]).collect();
    let dense = Layout::contiguous(&swapped);
    let mut strides = vec![0isize; own.len()];
    let mut offset = 3;
    for (k, &a) in axes.iter().enumerate() {
        strides[a] = dense.strides[k] * gap as isize;
        if rng.below(5) == 0 && own[a] > 0 {
            offset += (own[a] - 1) * strides[a] as usize;
            strides[a] = -strides[a];
        }
    }
    let total = own.iter().product::<usize>() * gap + 3;
    (Layout { shape: own.into(), strides: strides.into(), offset }, total)
}

fn fill(rng: &mut Rng, m: &mut Machine, at: usize, dtype: Dtype, n: usize) {
    for i in 0..n {
        let s = Scalar::from_f64((rng.float() * 2.0).round() / 2.0, dtype);
        let size = dtype.size();
        m.image[at + i * size..at + (i + 1) * size].copy_from_slice(&s.bits.to_le_bytes()[..size]);
    }
}

/// Every instruction as a group of its own, on row-major intermediate values.
fn one_by_one(m: &mut Machine, group: &Group, values: &[Val], shape: &[usize]) -> Vec<Val> {
    let mut regs: Vec<(Val, bool)> =
        group.inputs.iter().map(|i| (values[i.value as usize].clone(), i.squeezed)).collect();
    for instr in &group.instrs {
        let info = group.regs[instr.dst() as usize];
        let srcs = instr.srcs();
        let out = m.value(info.dtype, &shape_of(info.extent, shape, group.row_axes, false));
        let d = srcs.len() as u16;
        let small = Group {
            domain: 0,
            row_axes: group.row_axes,
            regs: srcs.iter().map(|&r| group.regs[r as usize]).chain([info]).collect(),
            inputs: (0..srcs.len())
                .map(|i| GroupInput { value: i as u32 + 1, squeezed: regs[srcs[i] as usize].1 })
                .collect(),
            instrs: vec![match *instr {
                Instr::Unary { op, .. } => Instr::Unary { op, src: 0, dst: d },
                Instr::Binary { op, .. } => Instr::Binary { op, a: 0, b: 1, dst: d },
                Instr::Select { .. } => Instr::Select { cond: 0, a: 1, b: 2, dst: d },
                Instr::Cast { .. } => Instr::Cast { src: 0, dst: d },
                Instr::Reduce { op, .. } => Instr::Reduce { op, src: 0, dst: d },
            }],
            outputs: vec![GroupOutput { reg: d, value: d as u32 + 1 }],
            respreads: false,
        };
        let mut vals = vec![values[0].clone()];
        vals.extend(srcs.iter().map(|&r| regs[r as usize].0.clone()));
        vals.push(out.clone());
        m.add(&small, &vals);
        regs.push((out, false));
    }
    regs.into_iter().map(|r| r.0).collect()
}

/// Elements in row-major order, broadcast to a shape.
fn dense(image: &[u8], v: &Val, shape: &[usize]) -> Vec<Scalar> {
    let l = v.layout.broadcast_to(shape);
    let (n, size) = (shape.iter().product(), v.dtype.size());
    (0..n)
        .map(|i| {
            let (mut rest, mut at) = (i, l.offset as isize);
            for a in (0..shape.len()).rev() {
                at += (rest % shape[a]) as isize * l.strides[a];
                rest /= shape[a];
            }
            let at = v.at + at as usize * size;
            let mut bits = [0u8; 8];
            bits[..size].copy_from_slice(&image[at..at + size]);
            Scalar { dtype: v.dtype, bits: u64::from_le_bytes(bits) }
        })
        .collect()
}

fn is_nan(s: Scalar) -> bool {
    s.dtype.is_inexact() && (s.to_complex().re.is_nan() || s.to_complex().im.is_nan())
}

fn bits(s: Scalar) -> u64 {
    if is_nan(s) { 7 } else { s.bits }
}

struct Case {
    group: Group,
    shape: Vec<usize>,
    values: Vec<Val>,
    regs: Vec<Val>,
    inplace: Option<(usize, Val)>,
    before: Vec<u8>,
}

fn run_cases(name: &str, seed: u64, rounds: usize, shapes: &[&[usize]]) {
    let mut rng = Rng(seed);
    let mut m = Machine::default();
    let mut cases = Vec::new();
    for round in 0..rounds {
        let shape = shapes[round % shapes.len()];
        let row_axes = rng.below(3).min(shape.len()) as u8;
        let group = random_group(&mut rng, row_axes);
        let mut values = vec![Val { at: 0, dtype: F, layout: Layout::contiguous(shape) }];
        let start = m.image.len();
        for (i, input) in group.inputs.iter().enumerate() {
            let info = group.regs[i];
            let full = shape_of(info.extent, shape, row_axes, input.squeezed);
            let (layout, n) = random_layout(&mut rng, &full);
            let skew = [0, 0, 0, 4, 8, 1][rng.below(6)];
            let at = m.room(n * info.dtype.size(), skew);
            fill(&mut rng, &mut m, at, info.dtype, n);
            values.push(Val { at, dtype: info.dtype, layout });
        }
        for o in &group.outputs {
            let info = group.regs[o.reg as usize];
            let v = m.value(info.dtype, &shape_of(info.extent, shape, row_axes, false));
            values.push(v);
        }
        let before = m.image[start..].to_vec();
        let shift = |v: &Val| Val { at: v.at - start, ..v.clone() };
        m.add(&group, &values);
        let regs = one_by_one(&mut m, &group, &values, shape);
        // In place, where an operand lies as a result does.
        let mut inplace = None;
        for (k, o) in group.outputs.iter().enumerate() {
            let info = group.regs[o.reg as usize];
            let own = Layout::contiguous(shape);
            let host = (0..group.inputs.len()).find(|&i| {
                group.regs[i].extent == Extent::Full
                    && info.extent == Extent::Full
                    && group.regs[i].dtype.size() == info.dtype.size()
                    && values[i + 1].layout == own
                    && values[i + 1].at % 16 == 0
            });
            if let (Some(i), None) = (host, &inplace) {
                let mut again = values.clone();
                let n = own.size() * info.dtype.size();
                let at = m.room(n, 0);
                m.image.copy_within(values[i + 1].at..values[i + 1].at + n, at);
                again[i + 1].at = at;
                let out = group.inputs.len() + 1 + k;
                for (j, v) in again.iter_mut().enumerate().skip(group.inputs.len() + 1) {
                    v.at = if j == out { at } else { m.room(v.layout.size() * v.dtype.size(), 0) };
                }
                m.add(&group, &again);
                inplace = Some((k, again[out].clone()));
            }
        }
        cases.push(Case {
            values: values
                .iter()
                .enumerate()
                .map(|(i, v)| if i == 0 { v.clone() } else { shift(v) })
                .collect(),
            regs,
            inplace,
            before,
            group,
            shape: shape.to_vec(),
        });
        cases.last_mut().unwrap().regs.push(Val { at: start, ..values[0].clone() });
    }
    if !m.run(name) {
        return;
    }
    for (round, case) in cases.iter_mut().enumerate() {
        let start = case.regs.pop().unwrap().at;
        check(&m, case, start, round);
    }
}

fn check(m: &Machine, case: &mut Case, start: usize, round: usize) {
    let (group, shape) = (&case.group, &case.shape);
    // On the CPU.
    let mut memory = vec![0u64; case.before.len().div_ceil(8) + 8];
    // SAFETY: the memory was made large enough.
    unsafe {
        std::ptr::copy_nonoverlapping(case.before.as_ptr(), memory.as_mut_ptr().cast(), case.before.len())
    };
    let base = memory.as_mut_ptr() as usize;
    let bounds: Vec<Bound> =
        case.values.iter().map(|v| Bound { base: Address(base + v.at), layout: v.layout.clone() }).collect();
    let even = case.values[1..].iter().all(|v| v.at % v.dtype.size() == 0);
    if even {
        // SAFETY: the values lie within the memory.
        unsafe { oxmlx_cpu::fused::lower(group).unwrap().run(&bounds, &|| Ok(())).unwrap() };
    }
    // SAFETY: as above.
    let cpu = unsafe { std::slice::from_raw_parts(base as *const u8, case.before.len()) };
    for (k, o) in group.outputs.iter().enumerate() {
        let info = group.regs[o.reg as usize];
        let input = group.inputs.get(o.reg as usize);
        let s = shape_of(info.extent, shape, group.row_axes, input.is_some_and(|i| i.squeezed));
        let fused = &case.values[o.value as usize];
        let flat = Val { at: fused.at + start, layout: Layout::contiguous(&s), ..fused.clone() };
        let got = dense(&m.image, &flat, &s);
        let want = dense(&m.image, &case.regs[o.reg as usize], &s);
        let cpu = dense(cpu, &Val { at: fused.at, ..flat.clone() }, &s);
        for i in 0..got.len() {
            assert!(
                bits(got[i]) == bits(want[i]),
                "round {round}, output {k}, element {i}, shape {shape:?}: {:?} alone {:?}\n{group:#?}",
                got[i],
                want[i]
            );
            let (a, b) = (got[i].to_complex(), cpu[i].to_complex());
            let tolerance = if info.dtype.size() == 2 { 0.05 } else { 1e-3 };
            let near = is_nan(got[i]) && is_nan(cpu[i])
                || a == b
                || (a - b).norm() <= tolerance * b.norm().max(1.0)
                || !b.norm().is_finite() && !a.norm().is_finite();
            assert!(
                !even || near,
                "round {round}, output {k}, element {i}, shape {shape:?} / {}: {a} on the CPU {b}\n{group:#?} {:#?}",
                group.row_axes,
                case.values.iter().map(|v| &v.layout).collect::<Vec<_>>()
            );
        }
        if let Some((_, v)) = case.inplace.as_ref().filter(|p| p.0 == k) {
            let other = dense(&m.image, v, &s);
            assert!(
                other.iter().zip(&want).all(|(a, b)| bits(*a) == bits(*b)),
                "round {round} in place: {group:#?}"
            );
        }
    }
}

#[test]
fn small_groups() {
    let shapes: &[&[usize]] = &[
        &[5, 7],
        &[1, 1],
        &[0, 3],
        &[3, 0],
        &[70, 64],
        &[300, 3],
        &[2, 3, 5],
        &[3, 1, 100],
        &[40, 50],
        &[2, 33, 70],
        &[6, 8],
        &[5, 4, 3, 16],
        &[],
        &[1000],
    ];
    run_cases("small", 7, 84, shapes);
}

#[test]
fn across() {
    let shapes: &[&[usize]] =
        &[&[70, 64], &[33, 100], &[3, 40, 50], &[2, 65, 3, 33], &[40, 2, 70], &[64, 5, 2, 32]];
    run_cases("across", 19, 60, shapes);
}

#[test]
fn long_rows() {
    let shapes: &[&[usize]] = &[
        &[3, 4095],
        &[2, 5000],
        &[1, 9000],
        &[3, 20_000],
        &[2, 70_000],
        &[1, 300_000],
        &[5, 1024],
        &[2, 33_000],
        &[3, 40_004],
    ];
    run_cases("long", 3, 36, shapes);
}

/// So much work that no row is kept in registers: sums must have the same bits nevertheless.
#[test]
fn heavy_groups() {
    let mut rng = Rng(5);
    let mut m = Machine::default();
    let mut cases = Vec::new();
    for (rows, len) in [(5, 7), (40, 100), (9, 1000), (3, 2000), (2, 5001), (3, 1024)] {
        let shape = [rows, len];
        let mut instrs = vec![
            Instr::Reduce { op: ReduceOp::Sum, src: 0, dst: 1 },
            Instr::Binary { op: BinaryOp::Subtract, a: 0, b: 1, dst: 2 },
        ];
        let mut regs = vec![reg(F, Extent::Full), reg(F, Extent::Row), reg(F, Extent::Full)];
        for i in 2..60 {
            instrs.push(Instr::Unary { op: UnaryOp::Tanh, src: i, dst: i + 1 });
            regs.push(reg(F, Extent::Full));
        }
        instrs.push(Instr::Reduce { op: ReduceOp::Max, src: 60, dst: 61 });
        regs.push(reg(F, Extent::Row));
        let outputs =
            [1, 60, 61].iter().enumerate().map(|(k, &reg)| GroupOutput { reg, value: 2 + k as u32 });
        let inputs = vec![GroupInput { value: 1, squeezed: false }];
        let group = Group {
            domain: 0,
            row_axes: 1,
            regs,
            inputs,
            instrs,
            outputs: outputs.collect(),
            respreads: true,
        };
        let x = m.value(F, &shape);
        fill(&mut rng, &mut m, x.at, F, rows * len);
        let mut values = vec![x.clone(), x];
        for o in &group.outputs {
            let extent = group.regs[o.reg as usize].extent;
            values.push(m.value(F, &shape_of(extent, &shape, 1, false)));
        }
        m.add(&group, &values);
        let regs = one_by_one(&mut m, &group, &values, &shape);
        cases.push((group, values, regs));
    }
    if !m.run("heavy") {
        return;
    }
    for (group, values, regs) in cases {
        for o in &group.outputs {
            let (a, b) = (&values[o.value as usize], &regs[o.reg as usize]);
            let shape = a.layout.shape.clone();
            let (a, b) = (dense(&m.image, a, &shape), dense(&m.image, b, &shape));
            assert!(a.iter().zip(&b).all(|(a, b)| bits(*a) == bits(*b)), "register {}, {shape:?}", o.reg);
        }
    }
}
