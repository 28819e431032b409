//! Plans as text, for people: `OXMLX_DUMP_PLAN=dir` writes one file a plan.

use super::{Graph, Home, Instr, Plan, Step};
use std::fmt::Write;
use std::path::Path;

/// Writes a plan to `dir/plan-<hash>.txt`. A dump that can't be written is no reason to fail an eval.
pub fn write(dir: &Path, hash: u64, graph: &Graph, plan: &Plan) {
    let written = std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(dir.join(format!("plan-{hash:016x}.txt")), text(graph, plan)));
    if let Err(e) = written {
        eprintln!("oxmlx: the plan could not be written to {}: {e}", dir.display());
    }
}

/// A plan as text: one line a kernel, with its instructions below it.
pub fn text(graph: &Graph, plan: &Plan) -> String {
    let mut out = String::new();
    let mut line = |s: String| {
        out.push_str(&s);
        out.push('\n');
    };
    line(format!("{} nodes, {} steps, {} slots", graph.nodes.len(), plan.steps.len(), plan.slots.len()));
    for v in &plan.views {
        line(format!("view   %{} = {:?} of %{}", v.out, v.view, v.input));
    }
    for (i, step) in plan.steps.iter().enumerate() {
        match step {
            Step::Group(g) => {
                let inputs: Vec<String> = g.inputs.iter().map(|x| format!("%{}", x.value)).collect();
                line(format!("{i:4}   group over %{} rows {} ({})", g.domain, g.row_axes, inputs.join(", ")));
                for instr in &g.instrs {
                    let info = g.regs[instr.dst() as usize];
                    line(format!("         {instr:?} {} {:?}", info.dtype, info.extent));
                }
                for o in &g.outputs {
                    line(format!("         %{} = r{} {}", o.value, o.reg, home(plan, o.value)));
                }
            }
            Step::Op { op, inputs, out: v, .. } => {
                line(format!("{i:4}   %{v} = {op:?} {inputs:?} {}", home(plan, *v)))
            }
            Step::Reduce { op, axes, input, out: v } => {
                line(format!("{i:4}   %{v} = {op:?} {axes:?} %{input} {}", home(plan, *v)));
            }
        }
    }
    out
}

impl Plan {
    /// The operations of the first dozen steps, for messages.
    pub fn summary(&self) -> String {
        let step = |s: &Step| match s {
            Step::Group(g) => {
                let ops: Vec<&str> = g.instrs.iter().take(6).map(name).collect();
                format!("({})", ops.join(" "))
            }
            Step::Op { op, .. } => crate::Primitive::Op(op.clone()).name().into(),
            Step::Reduce { op, .. } => op.name().into(),
        };
        self.steps.iter().take(12).map(step).collect::<Vec<String>>().join(", ")
    }
}

fn name(i: &Instr) -> &'static str {
    match i {
        Instr::Unary { op, .. } => op.name(),
        Instr::Binary { op, .. } => op.name(),
        Instr::Select { .. } => "where",
        Instr::Cast { .. } => "astype",
        Instr::Reduce { op, .. } => op.name(),
    }
}

fn home(plan: &Plan, v: super::ValueId) -> String {
    let mut s = String::new();
    let _ = match plan.homes[v as usize] {
        Home::Arena(slot) => write!(
            s,
            "[slot {slot}, steps {}..={}]",
            plan.slots[slot as usize].first, plan.slots[slot as usize].last
        ),
        Home::Owned(k) => write!(s, "[output {k}]"),
        other => write!(s, "[{other:?}]"),
    };
    s
}
