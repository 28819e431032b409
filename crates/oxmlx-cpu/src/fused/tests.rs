//! Fused groups against the same instructions run one by one.

use super::*;
use oxmlx_core::backend::Address;
use oxmlx_core::ops::elementwise::{BinaryOp, UnaryOp};
use oxmlx_core::plan::{GroupInput, GroupOutput, Instr, RegInfo};
use oxmlx_core::primitive::ReduceOp;
use oxmlx_types::{Dtype, Layout};
use std::time::Instant;

/// A small generator: tests must not depend on the time of day.
struct Rng(u64);
impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let x = self.0;
        (x ^ (x >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 17
    }
    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }
    fn float(&mut self) -> f32 {
        (self.next() % 2_000_001) as f32 / 500_000.0 - 2.0
    }
}

/// A value: its memory and its layout.
#[derive(Clone)]
struct Val {
    mem: Vec<u64>,
    layout: Layout,
}

impl Val {
    fn new(bytes: usize, layout: Layout) -> Val {
        Val { mem: vec![0; bytes.div_ceil(8) + 8], layout }
    }
    fn f32s(data: &[f32], shape: &[usize]) -> Val {
        let mut v = Val::new(data.len() * 4, Layout::contiguous(shape));
        // SAFETY: the memory was made for as many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(
                data.as_ptr().cast::<u8>(),
                v.mem.as_mut_ptr().cast(),
                data.len() * 4,
            )
        };
        v
    }
    fn bytes(&self, n: usize) -> &[u8] {
        // SAFETY: the memory holds at least n bytes.
        unsafe { std::slice::from_raw_parts(self.mem.as_ptr().cast(), n) }
    }
    fn f32(&self) -> Vec<f32> {
        self.bytes(self.layout.size() * 4)
            .chunks(4)
            .map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]]))
            .collect()
    }
    fn bound(&mut self) -> Bound {
        Bound { base: Address(self.mem.as_mut_ptr() as usize), layout: self.layout.clone() }
    }
}

fn run(group: &Group, values: &mut [Val]) {
    let bounds: Vec<Bound> = values.iter_mut().map(Val::bound).collect();
    let kernel = lower(group).unwrap();
    // SAFETY: the values are alive and large enough.
    unsafe { kernel.run(&bounds, &|| Ok(())).unwrap() };
}

fn reg(dtype: Dtype, extent: Extent) -> RegInfo {
    RegInfo { dtype, extent }
}

const F: Dtype = Dtype::Float32;

fn random_group(rng: &mut Rng, row_axes: u8) -> Group {
    let inputs = 1 + rng.below(4);
    let mut regs = Vec::new();
    for i in 0..inputs {
        let extent = match rng.below(5) {
            0 if i > 0 => Extent::One,
            1 if i > 0 && row_axes > 0 => Extent::Row,
            _ => Extent::Full,
        };
        let dtype = [F, F, F, Dtype::Bfloat16, Dtype::Int32][rng.below(5)];
        regs.push(reg(dtype, extent));
    }
    let mut instrs = Vec::new();
    for _ in 0..3 + rng.below(9) {
        let dst = regs.len() as u16;
        let pick = |rng: &mut Rng| rng.below(dst as usize) as u16;
        let a = pick(rng);
        let ra = regs[a as usize];
        match rng.below(6) {
            0 | 1 => {
                let op = [UnaryOp::Square, UnaryOp::Abs, UnaryOp::Sign][rng.below(3)];
                instrs.push(Instr::Unary { op, src: a, dst });
                regs.push(ra);
            }
            2 | 3 => {
                let b = (0..8).map(|_| pick(rng)).find(|&b| regs[b as usize].dtype == ra.dtype).unwrap_or(a);
                let op =
                    [BinaryOp::Add, BinaryOp::Multiply, BinaryOp::Maximum, BinaryOp::Subtract][rng.below(4)];
                instrs.push(Instr::Binary { op, a, b, dst });
                regs.push(reg(ra.dtype, larger(ra.extent, regs[b as usize].extent)));
            }
            4 => {
                let dtype = [F, Dtype::Float16, Dtype::Int32, F][rng.below(4)];
                instrs.push(Instr::Cast { src: a, dst });
                regs.push(reg(dtype, ra.extent));
            }
            _ if row_axes > 0 && ra.extent == Extent::Full => {
                let op = [ReduceOp::Sum, ReduceOp::Max][rng.below(2)];
                instrs.push(Instr::Reduce { op, src: a, dst });
                regs.push(reg(ra.dtype, Extent::Row));
            }
            _ => {
                let cond = dst;
                instrs.push(Instr::Unary { op: UnaryOp::LogicalNot, src: a, dst: cond });
                regs.push(reg(Dtype::Bool, ra.extent));
                let b = (0..8).map(|_| pick(rng)).find(|&b| regs[b as usize].dtype == ra.dtype).unwrap_or(a);
                instrs.push(Instr::Select { cond, a, b, dst: dst + 1 });
                regs.push(reg(ra.dtype, larger(ra.extent, regs[b as usize].extent)));
            }
        }
    }
    let n = regs.len();
    let mut outputs: Vec<GroupOutput> = Vec::new();
    for k in 0..1 + rng.below(3) {
        let r = if k == 0 { n - 1 } else { rng.below(n) } as u16;
        outputs.push(GroupOutput { reg: r, value: 0 });
    }
    for (k, o) in outputs.iter_mut().enumerate() {
        o.value = (inputs + k + 1) as u32;
    }
    let inputs = (0..inputs).map(|i| GroupInput { value: i as u32 + 1, squeezed: false }).collect();
    Group { domain: 0, row_axes, regs, inputs, instrs, outputs, respreads: true }
}

fn larger(a: Extent, b: Extent) -> Extent {
    match (a, b) {
        (Extent::Full, _) | (_, Extent::Full) => Extent::Full,
        (Extent::Row, _) | (_, Extent::Row) => Extent::Row,
        _ => Extent::One,
    }
}

fn shape_of(extent: Extent, shape: &[usize], row_axes: u8) -> Vec<usize> {
    let split = shape.len() - row_axes as usize;
    match extent {
        Extent::One => vec![],
        Extent::Full => shape.to_vec(),
        Extent::Row => shape.iter().enumerate().map(|(i, &n)| if i < split { n } else { 1 }).collect(),
    }
}

fn fill(rng: &mut Rng, v: &mut Val, dtype: Dtype, n: usize) {
    for i in 0..n {
        let s = oxmlx_types::Scalar::from_f64((rng.float() * 4.0).round() as f64 / 4.0 + 0.25, dtype);
        // SAFETY: the memory was made for n elements.
        unsafe {
            let p = v.mem.as_mut_ptr().cast::<u8>().add(i * dtype.size());
            std::ptr::copy_nonoverlapping((&raw const s.bits).cast::<u8>(), p, dtype.size());
        }
    }
}

/// A layout that broadcasts to `shape`, with the number of elements of its buffer.
fn random_layout(rng: &mut Rng, shape: &[usize]) -> (Layout, usize) {
    let mut own: Vec<usize> = shape.iter().map(|&n| if rng.below(4) == 0 { 1 } else { n }).collect();
    let stretch = rng.below(2) == 0;
    if !stretch {
        own = shape.to_vec();
    }
    if rng.below(2) == 0 {
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
    for (k, &a) in axes.iter().enumerate() {
        strides[a] = dense.strides[k] * gap as isize;
    }
    let total = own.iter().product::<usize>() * gap + 3;
    (Layout { shape: own.into(), strides: strides.into(), offset: 3 }, total)
}

/// Every instruction as a group of its own, on dense intermediate arrays.
fn one_by_one(group: &Group, values: &[Val], shape: &[usize]) -> Vec<Val> {
    let mut regs: Vec<Val> = Vec::new();
    for i in &group.inputs {
        regs.push(values[i.value as usize].clone());
    }
    for instr in &group.instrs {
        let dst = instr.dst() as usize;
        let info = group.regs[dst];
        let s = shape_of(info.extent, shape, group.row_axes);
        let out = Val::new(s.iter().product::<usize>() * info.dtype.size(), Layout::contiguous(&s));
        let srcs = instr.srcs();
        let mut small = Group {
            domain: 0,
            row_axes: group.row_axes,
            regs: srcs.iter().map(|&r| group.regs[r as usize]).chain([info]).collect(),
            inputs: (0..srcs.len()).map(|i| GroupInput { value: i as u32 + 1, squeezed: false }).collect(),
            instrs: vec![],
            outputs: vec![GroupOutput { reg: srcs.len() as u16, value: srcs.len() as u32 + 1 }],
            respreads: false,
        };
        let d = srcs.len() as u16;
        small.instrs.push(match *instr {
            Instr::Unary { op, .. } => Instr::Unary { op, src: 0, dst: d },
            Instr::Binary { op, .. } => Instr::Binary { op, a: 0, b: 1, dst: d },
            Instr::Select { .. } => Instr::Select { cond: 0, a: 1, b: 2, dst: d },
            Instr::Cast { .. } => Instr::Cast { src: 0, dst: d },
            Instr::Reduce { op, .. } => Instr::Reduce { op, src: 0, dst: d },
        });
        let mut vals = vec![Val::new(0, Layout::contiguous(shape))];
        vals.extend(srcs.iter().map(|&r| regs[r as usize].clone()));
        vals.push(out);
        run(&small, &mut vals);
        regs.push(vals.pop().unwrap());
    }
    group.outputs.iter().map(|o| regs[o.reg as usize].clone()).collect()
}

#[test]
fn fused_is_bit_equal_to_unfused() {
    let mut rng = Rng(7);
    let shapes: &[&[usize]] = &[
        &[5, 7],
        &[3, 4095],
        &[2, 4097],
        &[1, 1],
        &[0, 3],
        &[3, 0],
        &[70, 64],
        &[300, 3],
        &[2, 3, 5],
        &[1, 9000],
        &[3, 1, 100],
        &[40, 50],
        &[2, 33, 70],
        &[12, 20_000],
        &[1, 300_000],
    ];
    for round in 0..400 {
        let shape = shapes[rng.below(shapes.len())];
        let row_axes = rng.below(3).min(shape.len()) as u8;
        let group = random_group(&mut rng, row_axes);
        let mut values = vec![Val::new(0, Layout::contiguous(shape))];
        for (i, _) in group.inputs.iter().enumerate() {
            let info = group.regs[i];
            let full = shape_of(info.extent, shape, row_axes);
            let (layout, n) = random_layout(&mut rng, &full);
            let mut v = Val::new(n * info.dtype.size(), layout);
            fill(&mut rng, &mut v, info.dtype, n);
            values.push(v);
        }
        for o in &group.outputs {
            let info = group.regs[o.reg as usize];
            let s = shape_of(info.extent, shape, row_axes);
            values.push(Val::new(s.iter().product::<usize>() * info.dtype.size(), Layout::contiguous(&s)));
        }
        let want = one_by_one(&group, &values, shape);
        // In place, where an operand has a result's layout.
        let mut inplace = values.clone();
        run(&group, &mut values);
        for (k, (o, w)) in group.outputs.iter().zip(&want).enumerate() {
            let info = group.regs[o.reg as usize];
            let got = &values[o.value as usize];
            let s = shape_of(info.extent, shape, row_axes);
            let (a, b) = (dense(got, info.dtype, &s), dense(w, info.dtype, &s));
            assert!(a == b, "round {round}, output {k}, shape {shape:?} / {row_axes}: {group:#?}");
        }
        let (o, info) = (group.outputs[0], group.regs[group.outputs[0].reg as usize]);
        let s = Layout::contiguous(&shape_of(info.extent, shape, row_axes));
        let host = group.inputs.iter().enumerate().find(|(i, v)| {
            let r = group.regs[*i];
            r.extent == info.extent
                && r.dtype.size() == info.dtype.size()
                && inplace[v.value as usize].layout == s
        });
        if let Some((_, host)) = host {
            let mut bounds: Vec<Bound> = inplace.iter_mut().map(Val::bound).collect();
            bounds[o.value as usize] = bounds[host.value as usize].clone();
            // SAFETY: as in `run`; the result takes an operand's memory.
            unsafe { lower(&group).unwrap().run(&bounds, &|| Ok(())).unwrap() };
            let got = dense(&inplace[host.value as usize], info.dtype, &s.shape);
            assert!(got == dense(&want[0], info.dtype, &s.shape), "in place, round {round}: {group:#?}");
        }
    }
}

/// A value's bytes in row-major order, broadcast to a shape.
fn dense(v: &Val, dtype: Dtype, shape: &[usize]) -> Vec<u8> {
    let (n, size) = (shape.iter().product(), dtype.size());
    let mut out = vec![0u8; n * size];
    // SAFETY: the value's memory is as large as its layout says.
    unsafe {
        let base = v.mem.as_ptr().cast::<u8>().add(v.layout.offset * size);
        let source = Source::new(base, &v.layout, shape, size);
        let p = source.block(0, n, out.as_mut_ptr());
        if p != out.as_ptr() {
            std::ptr::copy_nonoverlapping(p, out.as_mut_ptr(), n * size);
        }
    }
    out
}

fn softmax_group() -> Group {
    let mut regs = vec![reg(F, Extent::Full), reg(F, Extent::Row)];
    regs.extend([reg(F, Extent::Full), reg(F, Extent::Full), reg(F, Extent::Row), reg(F, Extent::Full)]);
    Group {
        domain: 0,
        row_axes: 1,
        regs,
        inputs: vec![GroupInput { value: 0, squeezed: false }],
        instrs: vec![
            Instr::Reduce { op: ReduceOp::Max, src: 0, dst: 1 },
            Instr::Binary { op: BinaryOp::Subtract, a: 0, b: 1, dst: 2 },
            Instr::Unary { op: UnaryOp::Exp, src: 2, dst: 3 },
            Instr::Reduce { op: ReduceOp::Sum, src: 3, dst: 4 },
            Instr::Binary { op: BinaryOp::Divide, a: 3, b: 4, dst: 5 },
        ],
        outputs: vec![GroupOutput { reg: 5, value: 1 }],
        respreads: true,
    }
}

/// Bits of fused groups over arrays that are large enough to be split.
fn digest() -> u64 {
    let mut rng = Rng(11);
    let mut sum = 0u64;
    for (rows, n) in [(1usize, 300_001usize), (2, 70_000), (700, 129), (9, 9000)] {
        let data: Vec<f32> = (0..rows * n).map(|_| rng.float()).collect();
        let mut reduce = softmax_group();
        (reduce.instrs, reduce.outputs) =
            (reduce.instrs[..1].to_vec(), vec![GroupOutput { reg: 1, value: 1 }]);
        reduce.instrs[0] = Instr::Reduce { op: ReduceOp::Sum, src: 0, dst: 1 };
        for g in [softmax_group(), reduce] {
            let mut v =
                vec![Val::f32s(&data, &[rows, n]), Val::new(rows * n * 4, Layout::contiguous(&[rows, n]))];
            run(&g, &mut v);
            for x in v[1].f32() {
                sum = (sum ^ x.to_bits() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
            }
        }
    }
    sum
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let mine = format!("digest {:x}", digest());
    if std::env::var_os("OXMLX_DIGEST").is_some_and(|v| !v.is_empty()) {
        println!("{mine}");
        return;
    }
    for threads in ["1", "2", "5"] {
        let out = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "fused::tests::any_number_of_threads_gives_the_same_bits", "--nocapture"])
            .env("OXMLX_DIGEST", "1")
            .env("OXMLX_NUM_THREADS", threads)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(text.contains(&mine), "{threads} threads: {text} instead of {mine}");
    }
}

#[test]
fn softmax_of_short_and_long_rows() {
    let mut rng = Rng(1);
    for (rows, n) in [(64, 64), (3, 1), (1, 50_000), (5, 5000), (100, 10)] {
        let data: Vec<f32> = (0..rows * n).map(|_| rng.float()).collect();
        let mut v =
            vec![Val::f32s(&data, &[rows, n]), Val::new(rows * n * 4, Layout::contiguous(&[rows, n]))];
        run(&softmax_group(), &mut v);
        for (x, y) in data.chunks(n).zip(v[1].f32().chunks(n)) {
            let total: f64 = x.iter().map(|&x| (x as f64).exp()).sum();
            for (x, y) in x.iter().zip(y) {
                assert!((y - ((*x as f64).exp() / total) as f32).abs() <= 1e-6 * y, "{x} {y}");
            }
        }
    }
}

fn pointwise(n_in: usize, instrs: Vec<Instr>, ones: usize) -> Group {
    let n = n_in + instrs.len();
    let regs = (0..n).map(|i| reg(F, if i < ones { Extent::One } else { Extent::Full })).collect();
    Group {
        domain: 0,
        row_axes: 0,
        regs,
        inputs: (0..n_in).map(|i| GroupInput { value: i as u32, squeezed: false }).collect(),
        instrs,
        outputs: vec![GroupOutput { reg: n as u16 - 1, value: n_in as u32 }],
        respreads: false,
    }
}

/// Not a test of correctness: prints times. `cargo test --release -- --ignored --nocapture speed`.
#[test]
#[ignore]
fn speed() {
    let time = |name: &str, reps: usize, group: &Group, vals: &mut [Val], per: f64, unit: &str| {
        let bounds: Vec<Bound> = vals.iter_mut().map(Val::bound).collect();
        let k = lower(group).unwrap();
        let mut best = f64::MAX;
        for _ in 0..7 {
            let t = Instant::now();
            for _ in 0..reps {
                // SAFETY: the values are alive and large enough.
                unsafe { k.run(&bounds, &|| Ok(())).unwrap() };
            }
            best = best.min(t.elapsed().as_secs_f64() / reps as f64);
        }
        println!("{name}: {:.3} us, {:.3} {unit}", best * 1e6, per / best);
    };
    let mut rng = Rng(3);
    let mut array = |n: usize| Val::f32s(&(0..n).map(|_| rng.float()).collect::<Vec<_>>(), &[n]);
    let n = 1 << 14;
    for op in [
        UnaryOp::Exp,
        UnaryOp::Tanh,
        UnaryOp::Sin,
        UnaryOp::Log,
        UnaryOp::Erf,
        UnaryOp::Sigmoid,
        UnaryOp::Expm1,
        UnaryOp::Log1p,
        UnaryOp::ArcTan,
        UnaryOp::ErfInv,
        UnaryOp::Tan,
        UnaryOp::Rsqrt,
        UnaryOp::Square,
    ] {
        let (x, mut y) = (array(n), vec![0f32; n]);
        let f = crate::elementwise::unary(op, F).unwrap();
        let mut best = f64::MAX;
        for _ in 0..30 {
            let t = Instant::now();
            // SAFETY: both arrays have n elements.
            unsafe { f(x.mem.as_ptr().cast(), y.as_mut_ptr().cast(), n) };
            best = best.min(t.elapsed().as_secs_f64());
        }
        println!("{}: {:.3} ns/element", op.name(), best * 1e9 / n as f64);
    }
    for op in [BinaryOp::Add, BinaryOp::Power, BinaryOp::Remainder, BinaryOp::Maximum] {
        let (x, z, mut y) = (array(n), array(n), vec![0f32; n]);
        let f = crate::elementwise::binary(op, F).unwrap();
        let mut best = f64::MAX;
        for _ in 0..30 {
            let t = Instant::now();
            // SAFETY: all arrays have n elements.
            unsafe {
                f(
                    x.mem.as_ptr().cast(),
                    z.mem.as_ptr().cast(),
                    y.as_mut_ptr().cast(),
                    n,
                    crate::elementwise::Form::Both,
                );
            }
            best = best.min(t.elapsed().as_secs_f64());
        }
        println!("{}: {:.3} ns/element", op.name(), best * 1e9 / n as f64);
    }
    let mut chain = Vec::new();
    let mut z = 0u16;
    for i in 0..8u16 {
        let d = 2 + 3 * i;
        chain.push(Instr::Binary { op: BinaryOp::Multiply, a: z, b: 1, dst: d });
        chain.push(Instr::Unary { op: UnaryOp::Tanh, src: d, dst: d + 1 });
        chain.push(Instr::Binary { op: BinaryOp::Add, a: d + 1, b: 0, dst: d + 2 });
        z = d + 2;
    }
    let n = 4 << 20;
    let mut v = [array(n), array(n), array(n)];
    time("chain 4M", 3, &pointwise(2, chain, 0), &mut v, n as f64 / 1e6, "M/s");
    let n = 16 << 20;
    let mut v = [array(n), array(n), array(n)];
    let add = pointwise(2, vec![Instr::Binary { op: BinaryOp::Add, a: 0, b: 1, dst: 2 }], 0);
    time("add 16M", 3, &add, &mut v, n as f64 * 12e-9, "GB/s");
    let mut sum = pointwise(1, vec![Instr::Reduce { op: ReduceOp::Sum, src: 0, dst: 1 }], 0);
    (sum.row_axes, sum.regs[1].extent) = (1, Extent::Row);
    time("sum 16M", 3, &sum, &mut v, n as f64 * 4e-9, "GB/s");
    for (r, c) in [(64usize, 64usize), (1024, 1024), (8, 50_000), (16384, 8)] {
        let mut v = [array(r * c), array(r * c)];
        v[0].layout = Layout::contiguous(&[r, c]);
        let reps = if r == 64 { 2000 } else { 10 };
        time(&format!("softmax {r}x{c}"), reps, &softmax_group(), &mut v, (r * c) as f64 / 1e9, "Gel/s");
    }
    let n = 2048;
    let mut v = [array(n * n), array(n * n), array(n * n)];
    for x in &mut v {
        x.layout = Layout::contiguous(&[n, n]);
    }
    v[1].layout = v[1].layout.permute(&[1, 0]);
    time("add transposed 4M", 5, &add, &mut v, (n * n) as f64 * 12e-9, "GB/s");
    v[1].layout = Layout::contiguous(&[n]);
    time("add row 4M", 5, &add, &mut v, (n * n) as f64 * 8e-9, "GB/s");
    v[1].layout = Layout { strides: smallvec::smallvec![1, 0], ..Layout::contiguous(&[n, 1]) };
    time("add column 4M", 5, &add, &mut v, (n * n) as f64 * 8e-9, "GB/s");
    let mut v = [array(3 << 20), array(3), array(3 << 20)];
    for x in [0, 2] {
        v[x].layout = Layout::contiguous(&[1 << 20, 3]);
    }
    time("add triple 3M", 5, &add, &mut v, 3e6 * 8e-9, "GB/s");
    let mut half = pointwise(2, vec![Instr::Binary { op: BinaryOp::Add, a: 0, b: 1, dst: 2 }], 0);
    for d in [Dtype::Float16, Dtype::Bfloat16] {
        half.regs.iter_mut().for_each(|r| r.dtype = d);
        let mut v = [array(1 << 20), array(1 << 20), array(1 << 20)];
        time(&format!("add 1M {d}"), 5, &half, &mut v, (1 << 20) as f64 * 1e-9, "Gel/s");
    }
    let mut v = [array(16), array(16), array(16)];
    time("add 16", 20_000, &add, &mut v, 1e-6, "M/s");
    let (x, mut y) = (array(4096), vec![0f32; 4096]);
    for op in [ReduceOp::Max, ReduceOp::Sum] {
        let r = reduce_row::reducer(op, F).unwrap();
        let t = Instant::now();
        for _ in 0..1000 {
            // SAFETY: 64 rows of 64 elements.
            unsafe { (r.rows)(x.mem.as_ptr().cast(), 64, 64, y.as_mut_ptr().cast()) };
        }
        println!("{} 64x64: {:.3} us", op.name(), t.elapsed().as_secs_f64() * 1e3);
    }
    for op in [BinaryOp::Subtract, BinaryOp::Divide] {
        let f = crate::elementwise::binary(op, F).unwrap();
        let t = Instant::now();
        for _ in 0..1000 {
            for i in 0..64 {
                // SAFETY: 64 rows of 64 elements.
                unsafe {
                    let p = x.mem.as_ptr().cast::<u8>().add(i * 256);
                    f(p, p, y.as_mut_ptr().cast::<u8>().add(i * 256), 64, crate::elementwise::Form::First);
                }
            }
        }
        println!("{} by row 64x64: {:.3} us", op.name(), t.elapsed().as_secs_f64() * 1e3);
    }
    let t = Instant::now();
    for _ in 0..10_000 {
        crate::pool::for_each_chunk(2, |_| {}).unwrap();
    }
    println!("pool region: {:.3} us", t.elapsed().as_secs_f64() * 1e6 / 1e4);
}
