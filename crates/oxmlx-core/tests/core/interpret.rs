//! The meaning of plans, slowly: [`check`] runs a plan on a memory of its own, element by element and row by
//! row as backends do, and compares with the graph run node by node. A group that reads too little, a slot
//! that is taken too early, an operand that is overwritten before its last use: all show as wrong numbers.

use crate::graphs::Graphs;
use oxmlx_core::ops::{BinaryOp, UnaryOp};
use oxmlx_core::plan::{Def, Extent, Group, Home, Instr, Plan, Step, ValueId, arena, view_layout};
use oxmlx_core::primitive::{Op, Primitive, ReduceOp, View};
use oxmlx_core::read::for_each_offset;
use oxmlx_types::{Layout, Strides};

/// Asserts that a plan does what its graph says.
pub fn check(g: &Graphs, p: &Plan) {
    in_order(g, p);
    slots_are_apart(g, p);
    let reference = reference(g);
    let scale = reference.iter().flatten().filter(|v| v.is_finite()).fold(1.0f64, |m, v| m.max(v.abs()));
    for donate in [false, true] {
        let mut machine = Machine::new(g, p, donate);
        for step in &p.steps {
            machine.step(step);
        }
        for (&kept, &out) in g.graph.kept.iter().zip(&p.outputs) {
            assert_eq!(kept, out);
            let (got, want) = (machine.read(out), &reference[kept as usize]);
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * scale || (a.is_nan() && b.is_nan()) || a == b;
            let same = got.len() == want.len() && got.iter().zip(want).all(|(&a, &b)| near(a, b));
            assert!(same, "value {kept}, donate {donate}:\n{got:?}\n{want:?}\n{g:?}\n{p:?}");
        }
    }
}

/// The value whose memory `v` is in.
fn root(p: &Plan, mut v: ValueId) -> ValueId {
    while let Home::ViewOf(of) | Home::Same(of) = p.homes[v as usize] {
        v = of;
    }
    v
}

/// Every step finds its operands written, and every output outlives the run.
fn in_order(g: &Graphs, p: &Plan) {
    let mut there: Vec<bool> = p.homes.iter().map(|h| matches!(h, Home::Leaf | Home::Param(_))).collect();
    let mut placed = there.clone();
    for (v, home) in p.homes.iter().enumerate() {
        placed[v] |= matches!(home, Home::Arena(_) | Home::Owned(_));
    }
    for view in &p.views {
        assert!(placed[view.input as usize], "view {} before its base\n{p:?}", view.out);
        placed[view.out as usize] = true;
    }
    for step in &p.steps {
        for v in step.inputs() {
            assert!(
                placed[v as usize] || matches!(p.homes[v as usize], Home::Same(_)),
                "{v} has no place\n{p:?}"
            );
            assert!(there[root(p, v) as usize], "{v} is read before it is written\n{p:?}");
        }
        for v in step.outputs() {
            assert!(
                matches!(p.homes[v as usize], Home::Arena(_) | Home::Owned(_)),
                "{v} is written nowhere\n{p:?}"
            );
            there[v as usize] = true;
        }
    }
    for &v in &g.graph.kept {
        let home = p.homes[root(p, v) as usize];
        assert!(matches!(home, Home::Owned(_) | Home::Leaf), "kept {v} is at {home:?}\n{g:?}\n{p:?}");
        assert!(there[root(p, v) as usize], "kept {v} is never written\n{p:?}");
    }
}

/// Slots that live at one time do not overlap.
fn slots_are_apart(g: &Graphs, p: &Plan) {
    let a = arena(&g.graph, p, &g.dims);
    let bytes = |s: usize| {
        let v = p.slots[s].values[0];
        g.shape(v).iter().product::<usize>() * g.dtype(v).size()
    };
    for s in 0..p.slots.len() {
        assert!(a.offsets[s] + bytes(s) <= a.bytes && a.offsets[s].is_multiple_of(64));
        for t in 0..s {
            let (x, y) = (&p.slots[s], &p.slots[t]);
            let together = x.first <= y.last && y.first <= x.last;
            let overlap = a.offsets[s] < a.offsets[t] + bytes(t) && a.offsets[t] < a.offsets[s] + bytes(s);
            assert!(!(together && overlap), "slots {t} and {s} overlap\n{a:?}\n{p:?}");
        }
    }
}

fn positions(layout: &Layout) -> Vec<usize> {
    let mut all = Vec::new();
    for_each_offset(layout, &mut |at| all.push(at));
    all
}

/// A leaf's layout, and how many elements its buffer has.
fn leaf_layout(shape: &[usize], contiguous: bool) -> (Layout, usize) {
    let mut layout = Layout::contiguous(shape);
    let n: usize = shape.iter().product();
    if contiguous {
        return (layout, n);
    }
    let doubled: Strides = layout.strides.iter().map(|s| s * 2).collect();
    layout.strides = doubled;
    layout.offset = 1;
    (layout, 2 * n + 1)
}

fn leaf_element(v: usize, i: usize) -> f64 {
    ((i * 7 + v * 5) % 11) as f64 - 4.5
}

fn unary(op: UnaryOp, x: f64) -> f64 {
    match op {
        UnaryOp::Exp => x.exp(),
        UnaryOp::Negative => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Square => x * x,
        UnaryOp::Rsqrt => x.sqrt().recip(),
        other => panic!("no meaning for {other:?}"),
    }
}

fn binary(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        BinaryOp::Divide => a / b,
        BinaryOp::Maximum => a.max(b),
        BinaryOp::Minimum => a.min(b),
        other => panic!("no meaning for {other:?}"),
    }
}

fn combine(op: ReduceOp, a: f64, b: f64) -> f64 {
    match op {
        ReduceOp::Sum => a + b,
        ReduceOp::Max => a.max(b),
        other => panic!("no meaning for {other:?}"),
    }
}

fn start(op: ReduceOp) -> f64 {
    if op == ReduceOp::Sum { 0.0 } else { f64::NEG_INFINITY }
}

/// Sums and maxima of an array into one of fewer elements.
fn reduced(op: ReduceOp, values: &[f64], from: &[usize], to: &[usize]) -> Vec<f64> {
    let mut out = vec![start(op); to.iter().product()];
    let at = positions(&Layout::contiguous(to).broadcast_to(from));
    at.iter().zip(values).for_each(|(&at, &v)| out[at] = combine(op, out[at], v));
    out
}

fn product(a: &[f64], b: &[f64], [m, k]: [usize; 2], n: usize) -> Vec<f64> {
    let cell = |at: usize| (0..k).map(|i| a[at / n * k + i] * b[i * n + at % n]).sum();
    (0..m * n).map(cell).collect()
}

/// Every value of the graph, node by node, row-major.
fn reference(g: &Graphs) -> Vec<Vec<f64>> {
    let mut all: Vec<Vec<f64>> = Vec::new();
    for (v, value) in g.graph.values.iter().enumerate() {
        let shape = g.shape(v as ValueId);
        all.push(match value.def {
            Def::Leaf { contiguous } => {
                positions(&leaf_layout(&shape, contiguous).0).iter().map(|&i| leaf_element(v, i)).collect()
            }
            Def::Immediate(word) => vec![f32::from_bits(g.words[word as usize] as u32) as f64],
            Def::Node(n) => node(g, n as usize, &shape, &all),
        });
    }
    all
}

fn node(g: &Graphs, n: usize, shape: &[usize], all: &[Vec<f64>]) -> Vec<f64> {
    let node = &g.graph.nodes[n];
    let operand = |i: usize| -> (Vec<f64>, Vec<usize>) {
        (all[node.inputs[i] as usize].clone(), g.shape(node.inputs[i]))
    };
    let spread = |i: usize| -> Vec<f64> {
        let (values, from) = operand(i);
        positions(&Layout::contiguous(&from).broadcast_to(shape)).iter().map(|&at| values[at]).collect()
    };
    let (first, from) = operand(0);
    match &node.op {
        Primitive::Unary(op) => first.iter().map(|&x| unary(*op, x)).collect(),
        Primitive::Binary(op) => spread(0).iter().zip(spread(1)).map(|(&a, b)| binary(*op, a, b)).collect(),
        Primitive::Cast | Primitive::View(View::Reshape) | Primitive::Op(Op::Contiguous) => first,
        Primitive::Reduce(op, _) => reduced(*op, &first, &from, shape),
        Primitive::View(view) => {
            let words = &g.words[node.params as usize..];
            let layout = view_layout(view, &Layout::contiguous(&from), shape, words).unwrap();
            positions(&layout).iter().map(|&at| first[at]).collect()
        }
        Primitive::Op(Op::Matmul) => product(&first, &operand(1).0, [from[0], from[1]], shape[1]),
        other => panic!("no meaning for {other:?}"),
    }
}

/// A memory in which every byte is a cell, and an element is the cell of its first byte.
struct Machine<'a> {
    g: &'a Graphs,
    p: &'a Plan,
    spaces: Vec<Vec<f64>>,
    /// Per value: space, first byte and layout.
    places: Vec<(usize, usize, Layout)>,
}

/// One register: as many elements as its extent has in a row.
type Row = Vec<f64>;

impl<'a> Machine<'a> {
    fn new(g: &'a Graphs, p: &'a Plan, donate: bool) -> Machine<'a> {
        let a = arena(&g.graph, p, &g.dims);
        let mut m = Machine { g, p, spaces: vec![vec![f64::NAN; a.bytes]], places: Vec::new() };
        let mut owned: Vec<Option<usize>> = vec![None; p.owned.len()];
        for (v, home) in p.homes.iter().enumerate() {
            let shape = g.shape(v as ValueId);
            let mut place = (0, 0, Layout::contiguous(&shape));
            match (home, g.graph.values[v].def) {
                (Home::Leaf, Def::Leaf { contiguous }) => {
                    let (layout, n) = leaf_layout(&shape, contiguous);
                    place = (
                        m.space((0..n).map(|i| leaf_element(v, i)), g.dtype(v as ValueId).size()),
                        0,
                        layout,
                    );
                }
                (Home::Param(word), _) => {
                    let value = f32::from_bits(g.words[*word as usize] as u32) as f64;
                    place = (m.space(std::iter::once(value), 8), 0, Layout::default());
                }
                (Home::Arena(slot), _) => place.1 = a.offsets[*slot as usize],
                (Home::Owned(k), _) => {
                    let of = p.aliases.iter().find(|alias| donate && alias.1 == v as ValueId);
                    let taken =
                        of.map(|alias| m.places[alias.0 as usize].0).filter(|s| !owned.contains(&Some(*s)));
                    let n = shape.iter().product();
                    let size = g.dtype(v as ValueId).size();
                    place.0 = taken.unwrap_or_else(|| m.space(std::iter::repeat_n(f64::NAN, n), size));
                    owned[*k as usize] = Some(place.0);
                }
                _ => {}
            }
            m.places.push(place);
        }
        for view in &p.views {
            let (space, at, layout) = m.places[view.input as usize].clone();
            let shape = g.shape(view.out);
            let layout = view_layout(&view.view, &layout, &shape, &g.words[view.params as usize..]);
            m.places[view.out as usize] = (space, at, layout.expect("a planned view is a view"));
        }
        for (v, home) in p.homes.iter().enumerate() {
            if let Home::Same(of) = home {
                m.places[v] = m.places[*of as usize].clone();
            }
        }
        m
    }

    fn space(&mut self, values: impl Iterator<Item = f64>, size: usize) -> usize {
        let cells = values.flat_map(|v| std::iter::once(v).chain(std::iter::repeat_n(f64::NAN, size - 1)));
        self.spaces.push(cells.collect());
        self.spaces.len() - 1
    }

    /// Cells of a value, row-major, as another layout of its buffer sees them.
    fn cells(&self, v: ValueId, change: impl Fn(&Layout) -> Layout) -> (usize, Vec<usize>) {
        let (space, first, layout) = &self.places[v as usize];
        let size = self.g.dtype(v).size();
        (*space, positions(&change(layout)).iter().map(|at| first + at * size).collect())
    }

    fn read(&self, v: ValueId) -> Vec<f64> {
        let (space, cells) = self.cells(v, Layout::clone);
        cells.iter().map(|&c| self.spaces[space][c]).collect()
    }

    fn write(&mut self, v: ValueId, values: &[f64]) {
        let (space, cells) = self.cells(v, Layout::clone);
        assert_eq!(cells.len(), values.len());
        cells.iter().zip(values).for_each(|(&c, &x)| self.spaces[space][c] = x);
    }

    fn step(&mut self, step: &Step) {
        if let Step::Group(group) = step {
            return self.group(group);
        }
        // What a kernel writes, it may write before it reads.
        for out in step.outputs() {
            let n = self.g.shape(out).iter().product();
            self.write(out, &vec![f64::NAN; n]);
        }
        let (values, out) = match step {
            Step::Reduce { op, input, out, .. } => {
                (reduced(*op, &self.read(*input), &self.g.shape(*input), &self.g.shape(*out)), *out)
            }
            Step::Op { op: Op::Contiguous, inputs, out, .. } => (self.read(inputs[0]), *out),
            Step::Op { op: Op::Matmul, inputs, out, .. } => {
                let (a, b) = (self.g.shape(inputs[0]), self.g.shape(inputs[1]));
                (product(&self.read(inputs[0]), &self.read(inputs[1]), [a[0], a[1]], b[1]), *out)
            }
            other => panic!("no meaning for {other:?}"),
        };
        self.write(out, &values);
    }

    fn group(&mut self, group: &Group) {
        let domain = self.g.shape(group.domain);
        let lead = domain.len() - group.row_axes as usize;
        let rows: usize = domain[..lead].iter().product();
        let length: usize = domain[lead..].iter().product();
        let mut kept = domain.clone();
        kept[lead..].fill(1);
        // Per input: its space and the cells that it reads, over all rows.
        let loads: Vec<(usize, Vec<usize>)> = (0..group.inputs.len())
            .map(|i| {
                let input = group.inputs[i];
                self.cells(input.value, |l| match group.regs[i].extent {
                    Extent::Full => l.broadcast_to(&domain),
                    Extent::Row if input.squeezed => l.broadcast_to(&domain[..lead]),
                    Extent::Row => l.broadcast_to(&kept),
                    Extent::One => l.clone(),
                })
            })
            .collect();
        let stores: Vec<(usize, Vec<usize>)> =
            group.outputs.iter().map(|o| self.cells(o.value, Layout::clone)).collect();
        for row in 0..rows {
            let part = |extent: Extent| match extent {
                Extent::Full => row * length..(row + 1) * length,
                Extent::Row => row..row + 1,
                Extent::One => 0..1,
            };
            let mut regs: Vec<Row> = vec![Row::new(); group.regs.len()];
            for (i, (space, cells)) in loads.iter().enumerate() {
                regs[i] = cells[part(group.regs[i].extent)].iter().map(|&c| self.spaces[*space][c]).collect();
            }
            group.instrs.iter().for_each(|i| instruction(group, i, &mut regs, length));
            for (o, (space, cells)) in group.outputs.iter().zip(&stores) {
                let values = &regs[o.reg as usize];
                let to = &cells[part(group.regs[o.reg as usize].extent)];
                assert_eq!(to.len(), values.len());
                to.iter().zip(values).for_each(|(&c, &x)| self.spaces[*space][c] = x);
            }
        }
        assert_eq!(self.p.dtypes.len(), self.places.len());
    }
}

fn instruction(group: &Group, i: &Instr, regs: &mut [Row], length: usize) {
    let n = if group.regs[i.dst() as usize].extent == Extent::Full { length } else { 1 };
    let get = |r: u16, at: usize| -> f64 {
        let row = &regs[r as usize];
        if group.regs[r as usize].extent == Extent::Full {
            assert!(n == length, "an element of a row where one a row is wanted: {i:?}");
            row[at]
        } else {
            row[0]
        }
    };
    let values: Row = match *i {
        Instr::Unary { op, src, .. } => (0..n).map(|k| unary(op, get(src, k))).collect(),
        Instr::Binary { op, a, b, .. } => (0..n).map(|k| binary(op, get(a, k), get(b, k))).collect(),
        Instr::Select { cond, a, b, .. } => {
            (0..n).map(|k| if get(cond, k) != 0.0 { get(a, k) } else { get(b, k) }).collect()
        }
        Instr::Cast { src, .. } => (0..n).map(|k| get(src, k)).collect(),
        Instr::Reduce { op, src, .. } => {
            assert_eq!(group.regs[src as usize].extent, Extent::Full, "a reduction of what is no row: {i:?}");
            vec![regs[src as usize].iter().fold(start(op), |m, &x| combine(op, m, x))]
        }
    };
    regs[i.dst() as usize] = values;
}
