//! Several independent steps as one launch: the updates of all parameters by an optimiser, the norms of all
//! gradients.
//!
//! Steps that follow each other, none of which needs another, and whose kernels have the same text differ in their
//! records only. A variant of the kernel takes a table of records, and each block finds its own.

use crate::record::{Call, Encoding, Grid, Kernel, Origin, Word};
use oxmlx_core::plan::{Home, Plan, Step, ValueId};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Records in one table, at most.
const MOST: usize = 256;

/// Steps that may be one launch: maximal runs of groups that read nothing that another one of the run writes.
/// What lies in the arena must be looked at again when addresses are known.
pub(crate) fn runs(plan: &Plan, root: &dyn Fn(ValueId) -> Option<ValueId>) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut begin = 0;
    while begin < plan.steps.len() {
        let mut end = begin;
        let mut written: Vec<ValueId> = Vec::new();
        let mut read: Vec<ValueId> = Vec::new();
        while end < plan.steps.len() {
            let step = &plan.steps[end];
            let inputs: Vec<ValueId> = step.inputs().into_iter().filter_map(root).collect();
            let outputs: Vec<ValueId> = step.outputs().into_iter().filter_map(root).collect();
            let taken = |v: &ValueId| {
                // An output may take a leaf's buffer that another step of the run still reads.
                plan.aliases.iter().any(|(leaf, out)| out == v && read.contains(leaf))
            };
            let lent =
                |v: &ValueId| plan.aliases.iter().any(|(leaf, out)| leaf == v && written.contains(out));
            let fits = matches!(step, Step::Group(_))
                && !inputs.iter().any(|v| written.contains(v) || lent(v))
                && !outputs.iter().any(taken);
            if !fits {
                break;
            }
            written.extend(outputs);
            read.extend(inputs);
            end += 1;
        }
        if end > begin + 1 {
            all.push(begin..end);
        }
        begin = end.max(begin + 1);
    }
    all
}

/// Values of some steps that lie in the arena: reads and writes.
pub(crate) fn in_arena(
    plan: &Plan,
    step: &Step,
    root: &dyn Fn(ValueId) -> Option<ValueId>,
) -> [Vec<ValueId>; 2] {
    let arena = |v: &ValueId| matches!(plan.homes[*v as usize], Home::Arena(_));
    let of = |all: Vec<ValueId>| all.into_iter().filter_map(root).filter(arena).collect();
    [of(step.inputs()), of(step.outputs())]
}

/// Appends the encodings of independent steps, those with one kernel as one launch.
pub(crate) fn append(parts: Vec<Encoding>, e: &mut Encoding) {
    let mut tables: Vec<(Arc<Kernel>, u32, usize, Vec<Encoding>)> = Vec::new();
    for part in parts {
        let Some((kernel, threads)) = single(&part) else {
            e.append(&part);
            continue;
        };
        let words = part.words.len();
        let suits = |t: &&mut (Arc<Kernel>, u32, usize, Vec<Encoding>)| {
            t.0.name == kernel.name && t.1 == threads && t.2 == words && t.3.len() < MOST
        };
        match tables.iter_mut().find(suits) {
            Some(table) => table.3.push(part),
            None => tables.push((kernel, threads, words, vec![part])),
        }
    }
    for (kernel, threads, words, parts) in tables {
        match (parts.len(), variant(&kernel)) {
            (2.., Some(many)) => launch(many, threads, words, &parts, e),
            _ => parts.iter().for_each(|p| e.append(p)),
        }
    }
}

/// The kernel and the threads of an encoding that is one launch of generated code along x.
fn single(part: &Encoding) -> Option<(Arc<Kernel>, u32)> {
    match &part.calls[..] {
        [Call::Kernel { kernel, grid, record: 0 }]
            if grid.blocks[1] == 1 && grid.blocks[2] == 1 && grid.shared == 0 && part.scratch == 0 =>
        {
            Some((kernel.clone(), grid.threads))
        }
        _ => None,
    }
}

fn blocks(part: &Encoding) -> usize {
    match part.calls[0] {
        Call::Kernel { grid, .. } => grid.blocks[0] as usize,
        Call::Gemm { .. } => 0,
    }
}

fn launch(many: Arc<Kernel>, threads: u32, words: usize, parts: &[Encoding], e: &mut Encoding) {
    let mut record: Vec<Word> = vec![parts.len().into(), words.into()];
    let mut first = 0usize;
    for part in parts {
        record.push(first.into());
        first += blocks(part);
    }
    for part in parts {
        record.extend_from_slice(&part.words);
    }
    e.launch_kernel(many, Grid::line(first, threads), &record);
}

/// The kernel that takes a table, made from the text of one that takes a record; `None` where that can't be.
fn variant(kernel: &Kernel) -> Option<Arc<Kernel>> {
    static ALL: OnceLock<Mutex<FxHashMap<String, Option<Arc<Kernel>>>>> = OnceLock::new();
    let mut all = ALL.get_or_init(Mutex::default).lock();
    if let Some(known) = all.get(&kernel.name) {
        return known.clone();
    }
    let made = match &kernel.origin {
        Origin::Generated(text) => rewrite(&kernel.name, text),
        Origin::Symbol(_) => None,
    };
    all.insert(kernel.name.clone(), made.clone());
    made
}

fn rewrite(name: &str, text: &str) -> Option<Arc<Kernel>> {
    let entry = format!("{name}(Record r) {{\n");
    let (head, body) = text.split_once(&entry)?;
    if body.contains("gridDim") || head.contains("blockIdx") {
        return None;
    }
    let many = format!("{name}_many");
    let body = body.replace("blockIdx.x", "block");
    let text = format!(
        "#include \"many.cuh\"\n{head}{many}(Record table) {{\n  uint32 block;\n  const Record r = pick(table, block);\n{body}"
    );
    Some(Kernel::generated(many, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, blocks: usize, word: usize) -> Encoding {
        let text =
            format!("extern \"C\" __global__ void {name}(Record r) {{\n  work(r[0], blockIdx.x);\n}}\n");
        let mut e = Encoding::default();
        e.launch_kernel(Kernel::generated(name.into(), text), Grid::line(blocks, 256), &[word.into()]);
        e
    }

    #[test]
    fn equal_kernels_become_one_launch_with_a_table() {
        let mut e = Encoding::default();
        append(vec![part("a", 3, 10), part("b", 1, 11), part("a", 5, 12)], &mut e);
        let launches: Vec<(String, u32)> = e
            .calls
            .iter()
            .map(|c| match c {
                Call::Kernel { kernel, grid, .. } => (kernel.name.clone(), grid.blocks[0]),
                Call::Gemm { .. } => panic!("no product was asked for"),
            })
            .collect();
        assert_eq!(launches, [("a_many".to_string(), 8), ("b".to_string(), 1)]);
        let words: Vec<Word> = [2usize, 1, 0, 3, 10, 12, 11].map(Word::from).to_vec();
        assert_eq!(e.words, words);
    }
}
