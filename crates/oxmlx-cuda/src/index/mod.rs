//! Gathers and scatters.
//!
//! An index outside of its axis is clamped by gathers and dropped by scatters: no kernel can raise an error.

mod scatter;

pub(crate) use scatter::{scatter, scatter_axis};

use crate::copy::{Place, fill};
use crate::record::{Encoding, Operand, Word};
use crate::walk::{Lanes, THREADS, Walk, common_unit, grid};
use oxmlx_types::{Dtype, Error, ErrorKind, Result};

/// Refuses index arrays that are not of integers.
fn check_indices(op: &'static str, indices: &[Operand<'_>]) -> Result<()> {
    match indices.iter().find(|i| i.dtype.is_inexact()) {
        None => Ok(()),
        Some(i) => {
            let text = format!("Indices must be integral but {} was given.", i.dtype);
            Err(Error::new(ErrorKind::Type, op, text))
        }
    }
}

/// The axes of index arrays, and of something more, merged where all step alike; innermost first, as words.
/// Returns their number, too.
fn index_axes(shape: &[usize], strides: &[&[isize]]) -> (usize, Vec<Word>) {
    let mut axes: Vec<(usize, Vec<isize>)> = Vec::new();
    for (a, &len) in shape.iter().enumerate().filter(|(_, n)| **n != 1) {
        let steps: Vec<isize> = strides.iter().map(|s| s[a]).collect();
        match axes.last_mut() {
            Some((n, last)) if (last.iter().zip(&steps)).all(|(&l, &s)| l == s * len as isize) => {
                *n *= len;
                *last = steps;
            }
            _ => axes.push((len, steps)),
        }
    }
    let one = |(len, steps): &(usize, Vec<isize>)| {
        std::iter::once(Word::from(*len)).chain(steps.iter().map(|&s| Word::from(s))).collect::<Vec<_>>()
    };
    (axes.len(), axes.iter().rev().flat_map(one).collect())
}

fn dtype_code(dtype: Dtype) -> Word {
    Word::Const(dtype as u64)
}

/// The axes that are not indexed.
fn rest_of<T: Copy>(all: &[T], axes: &[u8]) -> Vec<T> {
    (0..all.len()).filter(|a| !axes.contains(&(*a as u8))).map(|a| all[a]).collect()
}

/// `out[i.., r..] = src[indices.., r..]`.
pub(crate) fn gather(
    src: &Operand<'_>,
    indices: &[Operand<'_>],
    axes: &[u8],
    out: &Operand<'_>,
    e: &mut Encoding,
) -> Result<()> {
    check_indices("gather", indices)?;
    let size = src.dtype.size();
    if out.size() == 0 {
        return Ok(());
    }
    if src.size() == 0 {
        return fill(out.address(), out.size() * size, 0, e);
    }
    let (rest, steps) = (rest_of(src.shape(), axes), rest_of(src.strides(), axes));
    let (outer, inner) = Walk::new(&rest, [&steps]).split_inner();
    let lines = outer.size();
    let along: Vec<isize> = axes.iter().map(|&a| src.strides()[a as usize]).collect();
    let unit = if inner.step == [1] {
        let steps = outer.dims.iter().map(|d| d.step[0]).chain(along.iter().copied());
        let bytes = steps.map(|s| s.unsigned_abs() * size);
        let places = [inner.len * size, Place::of(src).alignment, Place::of(out).alignment];
        common_unit(bytes.chain(places)).max(size)
    } else {
        size
    };
    let per = (unit / size) as isize;
    let count = out.size() / rest.iter().product::<usize>();
    let len = inner.len / per as usize;
    let lanes = Lanes::new(len);
    let strides: Vec<&[isize]> = indices.iter().map(Operand::strides).collect();
    let (index_rank, index_words) = index_axes(indices.first().map_or(&[], Operand::shape), &strides);
    let mut record = vec![
        out.address(),
        src.address(),
        Word::from(indices.len()),
        Word::from(index_rank),
        Word::from(lines),
        Word::from(len),
        Word::from(lanes.segments),
        Word::Const(lanes.shift as u64),
        Word::from(if per > 1 { 1 } else { inner.step[0] }),
        Word::from(outer.dims.len()),
        Word::from(count * lines * lanes.segments),
        Word::Const(0),
    ];
    for ((index, &axis), step) in indices.iter().zip(axes).zip(&along) {
        record.extend([
            index.address(),
            dtype_code(index.dtype),
            Word::from(src.shape()[axis as usize]),
            Word::from(step / per),
        ]);
    }
    record.extend(index_words);
    record.extend(outer.in_units(per as usize).words());
    e.launch(&format!("gather_rows_{unit}"), grid(lanes.blocks(count * lines)), &record)
}

/// `out[.., i, ..] = src[.., indices[.., i, ..], ..]`.
pub(crate) fn gather_axis(
    src: &Operand<'_>,
    indices: &Operand<'_>,
    axis: u8,
    out: &Operand<'_>,
    e: &mut Encoding,
) -> Result<()> {
    check_indices("take_along_axis", std::slice::from_ref(indices))?;
    let (axis, size) = (axis as usize, src.dtype.size());
    if out.size() == 0 {
        return Ok(());
    }
    if src.size() == 0 {
        return fill(out.address(), out.size() * size, 0, e);
    }
    let mut steps = src.layout.strides.clone();
    steps[axis] = 0;
    let walk = Walk::new(out.shape(), [indices.strides(), &steps]);
    let mut record = vec![
        out.address(),
        src.address(),
        Word::from(out.size()),
        indices.address(),
        dtype_code(indices.dtype),
        Word::from(src.shape()[axis]),
        Word::from(src.strides()[axis]),
        Word::from(walk.dims.len()),
    ];
    record.extend(walk.words());
    e.launch(&format!("gather_axis_{size}"), grid(out.size().div_ceil(THREADS)), &record)
}
