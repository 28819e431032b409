//! What groups encode to: launches and their records, without a device.

use super::super::rows::Division;
use super::super::*;
use super::compile::{chain, full, group, rms_norm, softmax, sum, texts};
use oxmlx_core::ops::elementwise::BinaryOp;
use oxmlx_core::plan::Instr;
use oxmlx_types::{Dtype, Layout};

const F: Dtype = Dtype::Float32;

fn flat(shape: &[usize]) -> Vec<Layout> {
    vec![Layout::contiguous(shape); 6]
}

#[test]
fn a_length_that_grows_by_one_keeps_the_launch() {
    for n in [10_000usize, 3_000_001, 50_000_000] {
        assert_eq!(texts(&chain(F), &flat(&[n])), texts(&chain(F), &flat(&[n + 1])));
    }
    // Rows of one length, more and more of them.
    for rows in [1001usize, 70_001] {
        assert_eq!(texts(&softmax(F), &flat(&[rows, 512])), texts(&softmax(F), &flat(&[rows + 1, 512])));
    }
    // Longer and longer rows: the same for every fourth, but where the division changes.
    let same = (300..800)
        .filter(|&n| texts(&softmax(F), &flat(&[64, 4 * n])) == texts(&softmax(F), &flat(&[64, 4 * n + 4])));
    assert!(same.count() > 470);
}

#[test]
fn nothing_is_launched_for_nothing() {
    assert!(texts(&chain(F), &flat(&[0])).is_empty());
    assert!(texts(&softmax(F), &flat(&[0, 5])).is_empty());
    // An empty row still has a sum.
    assert_eq!(texts(&sum(F), &flat(&[3, 0])).len(), 1);
}

#[test]
fn few_long_rows_are_cut() {
    assert_eq!(texts(&sum(F), &flat(&[1, 1 << 26])).len(), 2);
    assert_eq!(texts(&sum(F), &flat(&[4096, 4096])).len(), 1);
    assert_eq!(texts(&softmax(F), &flat(&[2, 1 << 20])).len(), 1);
    for rows in [1, 2, 3, 7, 100, 511, 1000] {
        for len in [1, 7, 1024, 1025, 32_768, 32_769, 100_000, 1 << 26] {
            let d = Division::new(rows, len);
            assert!(
                d.segments * d.segment >= len && (d.segments - 1) * d.segment < len,
                "{rows} x {len}: {d:?}"
            );
            assert!(d.segments == 1 || d.segment.is_multiple_of(4096) && d.threads == 1024);
            assert!(
                d.threads <= 32 && d.threads.is_power_of_two()
                    || d.threads.is_multiple_of(32) && d.threads <= 1024
            );
        }
    }
}

#[test]
fn equal_texts_are_one_kernel() {
    let add = || {
        let instr = Instr::Binary { op: BinaryOp::Add, a: 0, b: 1, dst: 2 };
        lower(&group(0, &[full(F), full(F)], &[(instr, full(F))], &[2])).unwrap()
    };
    let layout = Layout::contiguous(&[100]);
    let operand =
        |value: ValueId| Operand { value, dtype: F, layout: &layout, alignment: 16, base: value as usize };
    let mut e = Encoding::default();
    add().encode(&operand, &mut e).unwrap();
    add().encode(&operand, &mut e).unwrap();
    let kernels: Vec<_> = e
        .calls
        .iter()
        .map(|c| match c {
            crate::record::Call::Kernel { kernel, .. } => kernel.clone(),
            crate::record::Call::Gemm { .. } => panic!("no kernel"),
        })
        .collect();
    assert!(Arc::ptr_eq(&kernels[0], &kernels[1]));
    assert!(kernels[0].name.starts_with("fused_"));
}

#[test]
fn weights_and_columns_are_read_as_they_lie() {
    let shape = [64usize, 256];
    let dense = Layout::contiguous(&shape);
    let one = Layout::contiguous(&[]);
    let weight = Layout::contiguous(&[256]);
    let layouts = [dense.clone(), dense.clone(), weight.clone(), one.clone(), one, dense.clone()];
    let text = &texts(&rms_norm(F), &layouts)[0].0;
    assert!(text.contains("row::read_unit<4, true>(a1 + 4 * k, p1 + c, left)"), "{text}");
    // A column is one element a row.
    let column = Layout::contiguous(&[64, 1]);
    let instr = Instr::Binary { op: BinaryOp::Add, a: 0, b: 1, dst: 2 };
    let both = group(0, &[full(F), full(F)], &[(instr, full(F))], &[2]);
    let text = &texts(&both, &[dense.clone(), dense.clone(), column, dense.clone()])[0].0;
    assert!(text.contains("const float32 c = read_one(p1 + o1)"), "{text}");
    let text = &texts(&both, &[dense.clone(), dense.clone(), weight, dense])[0].0;
    assert!(text.contains("read<4, 4>(a1 + u * 4, p1 + o1)"), "{text}");
}
