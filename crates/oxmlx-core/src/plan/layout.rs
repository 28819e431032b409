//! Second pass: what each live node is to the rest of the planner, and the arithmetic of views.
//!
//! A view is free if its layout follows from its operand's by symbols alone, so that the decision holds for
//! every run of the plan. A reshape of something that isn't row-major is a copy unless it only inserts or
//! drops axes of length 1, or cuts a single axis in parts.

use super::simplify::{Simplified, differ_in_ones};
use super::{Def, Graph, ONE, Sym, ValueId};
use crate::primitive::{Primitive, View};
use oxmlx_types::Layout;

/// What a node is to the planner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Nobody needs it, or it equals another value.
    Dead,
    /// Reads its operand's buffer.
    View,
    /// Can be part of a group: element-wise, or a reduction along the last axes.
    Fusable,
    /// A view of an immediate: the same element everywhere.
    Fill,
    /// A kernel of its own.
    Kernel,
}

pub(super) struct Roles {
    pub of_node: Vec<Role>,
    /// Per value: the immediate whose element it repeats, if it does.
    pub fill: Vec<Option<ValueId>>,
}

pub(super) fn roles(g: &Graph, s: &Simplified) -> Roles {
    let mut contiguous: Vec<bool> = g
        .values
        .iter()
        .map(|v| match v.def {
            Def::Leaf { contiguous } => contiguous,
            _ => true,
        })
        .collect();
    let mut fill: Vec<Option<ValueId>> = (0..g.values.len())
        .map(|v| matches!(g.values[v].def, Def::Immediate(_)).then_some(v as ValueId))
        .collect();
    let mut of_node = Vec::with_capacity(g.nodes.len());
    for (i, node) in g.nodes.iter().enumerate() {
        let dead = !s.live[i] || s.same[node.out as usize] != node.out;
        if dead {
            let of = s.same[node.out as usize] as usize;
            contiguous[node.out as usize] = contiguous[of];
            fill[node.out as usize] = fill[of];
            of_node.push(Role::Dead);
            continue;
        }
        let role = match &node.op {
            Primitive::View(view) => {
                let input = s.same[node.inputs[0] as usize];
                fill[node.out as usize] = fill[input as usize];
                if fill[input as usize].is_some() && *view == View::Bitcast {
                    // The immediate has another dtype: the bytes are written once and read anew.
                    fill[node.out as usize] = None;
                    Role::Kernel
                } else if fill[input as usize].is_some() {
                    Role::Fill
                } else {
                    let (role, is) = view_role(g, view, input, node.out, contiguous[input as usize]);
                    contiguous[node.out as usize] = is;
                    role
                }
            }
            Primitive::Reduce(_, axes) if trailing(axes, g.shape(node.inputs[0]).len()) => Role::Fusable,
            op if op.is_elementwise() => Role::Fusable,
            _ => Role::Kernel,
        };
        of_node.push(role);
    }
    Roles { of_node, fill }
}

/// Whether ascending axes are the last ones of `ndim`.
pub(super) fn trailing(axes: &[u8], ndim: usize) -> bool {
    axes.iter().rev().enumerate().all(|(i, &a)| a as usize + i + 1 == ndim)
}

/// Role of a view node, and whether its output is row-major.
fn view_role(g: &Graph, view: &View, input: ValueId, out: ValueId, contiguous: bool) -> (Role, bool) {
    let (a, b) = (g.shape(input), g.shape(out));
    match view {
        View::Reshape if contiguous => (Role::View, true),
        View::Reshape if differ_in_ones(a, b) || splits_one_axis(a, b) => (Role::View, false),
        View::Reshape => (Role::Kernel, true),
        View::Transpose(axes) => {
            let moved: Vec<u8> = axes.iter().copied().filter(|&x| a[x as usize] != ONE).collect();
            (Role::View, contiguous && moved.is_sorted())
        }
        View::Slice(steps) => {
            let full = |i: usize| a[i] == b[i] && steps[i] == 1;
            let cut = (0..a.len()).find(|&i| a[i] != ONE || b[i] != ONE);
            let rest = cut.is_none_or(|c| steps[c] == 1 && (c + 1..a.len()).all(full));
            (Role::View, contiguous && rest)
        }
        View::Broadcast => (Role::View, contiguous && differ_in_ones(a, b)),
        View::Identity { .. } | View::Bitcast => (Role::View, contiguous),
    }
}

/// Whether `b` is `a` with one axis cut into several: always a view.
fn splits_one_axis(a: &[Sym], b: &[Sym]) -> bool {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count().min(a.len().saturating_sub(1));
    let tail = a.len() - head - 1;
    b.len() >= a.len() && b[b.len() - tail..] == a[head + 1..]
}

/// The layout of a view's output from its operand's; `None` if the elements would have to move.
pub fn view_layout(view: &View, input: &Layout, shape: &[usize], params: &[u64]) -> Option<Layout> {
    match view {
        View::Identity { .. } => Some(input.clone()),
        View::Broadcast => Some(input.broadcast_to(shape)),
        View::Reshape => input.reshape(shape),
        // Another element size comes with a row-major operand of its own (offset 0).
        View::Bitcast if input.shape.as_slice() == shape => Some(input.clone()),
        View::Bitcast => Some(Layout::contiguous(shape)),
        View::Transpose(axes) => {
            let axes: smallvec::SmallVec<[usize; 6]> = axes.iter().map(|&a| a as usize).collect();
            Some(input.permute(&axes))
        }
        View::Slice(steps) => {
            let mut out = Layout { shape: shape.into(), ..input.clone() };
            let empty = shape.contains(&0);
            let mut offset = input.offset as isize;
            for (i, &step) in steps.iter().enumerate() {
                if !empty {
                    offset += params[i] as isize * input.strides[i];
                }
                out.strides[i] *= step as isize;
            }
            out.offset = offset as usize;
            Some(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_axes_only() {
        assert!(trailing(&[1, 2], 3) && trailing(&[], 3) && trailing(&[0], 1));
        assert!(!trailing(&[0], 2) && !trailing(&[0, 2], 3));
    }

    #[test]
    fn one_axis_may_be_cut() {
        assert!(splits_one_axis(&[5, 6, 7], &[5, 6, 8, 9]));
        assert!(splits_one_axis(&[5, 6, 7], &[8, 9, 6, 7]));
        assert!(!splits_one_axis(&[5, 6, 7], &[5, 42]));
    }

    #[test]
    fn a_slice_moves_its_start_at_run_time() {
        let base = Layout::contiguous(&[4, 6]);
        let l = view_layout(&View::Slice(smallvec::smallvec![1, -2]), &base, &[2, 3], &[1, 5]).unwrap();
        assert_eq!((l.offset, l.strides.to_vec()), (11, vec![6, -2]));
    }
}
