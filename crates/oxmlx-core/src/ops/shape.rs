//! Other shapes for the same elements, and several arrays made one.

use crate::array::{Array, Inputs};
use crate::ops;
use crate::primitive::{Axes, Op, Params, Primitive, View};
use crate::transforms::rules::{App, Batched};
use oxmlx_types::{Dtype, Error, Result, Shape, broadcast_shapes, format_shape, normalize_axis};
use smallvec::smallvec;

fn view(v: View, a: &Array, shape: Shape) -> Array {
    Array::apply(Primitive::View(v), Params::none(), shape, a.dtype(), smallvec![a.clone()])
}

/// The same array, invisible to differentiation.
pub fn stop_gradient(a: &Array) -> Result<Array> {
    Ok(view(View::Identity { stop: true }, a, a.shape().into()))
}

/// Axes of length 1 and missing leading axes stretched to `shape`.
pub fn broadcast_to(a: &Array, shape: &[usize]) -> Result<Array> {
    if a.shape() == shape {
        return Ok(a.clone());
    }
    if broadcast_shapes(a.shape(), shape)?.as_slice() != shape {
        let (from, to) = (format_shape(a.shape()), format_shape(shape));
        return Err(Error::invalid(
            "broadcast_shapes",
            format!("Shapes {from} and {to} cannot be broadcast."),
        ));
    }
    Ok(view(View::Broadcast, a, shape.into()))
}

/// All arrays broadcast to their common shape.
pub fn broadcast_arrays(arrays: &[Array]) -> Result<Vec<Array>> {
    let mut shape = Shape::new();
    for a in arrays {
        shape = broadcast_shapes(&shape, a.shape())?;
    }
    arrays.iter().map(|a| broadcast_to(a, &shape)).collect()
}

/// The same elements, in row-major order, under another shape; one length may be -1.
pub fn reshape(a: &Array, shape: &[i64]) -> Result<Array> {
    let text = || {
        let dims: Vec<String> = shape.iter().map(i64::to_string).collect();
        format!("({})", dims.join(","))
    };
    let fail = || {
        Error::invalid("reshape", format!("Cannot reshape array of size {} into shape {}.", a.size(), text()))
    };
    let mut known: usize = 1;
    let mut free = None;
    for (i, &n) in shape.iter().enumerate() {
        match n {
            -1 if free.is_some() => {
                return Err(Error::invalid("reshape", "Reshape can only infer one dimension."));
            }
            -1 => free = Some(i),
            n if n < 0 => return Err(fail()),
            n => known = known.checked_mul(n as usize).ok_or_else(fail)?,
        }
    }
    let mut out: Shape = shape.iter().map(|&n| n.max(0) as usize).collect();
    if let Some(i) = free {
        if known == 0 {
            return Err(Error::invalid("reshape", "Cannot infer the shape of an empty array."));
        }
        out[i] = a.size() / known;
        known *= out[i];
    }
    if known != a.size() {
        return Err(fail());
    }
    Ok(reshape_to(a, out))
}

/// A reshape whose size is known to be right.
pub(crate) fn reshape_to(a: &Array, shape: Shape) -> Array {
    if a.shape() == shape.as_slice() { a.clone() } else { view(View::Reshape, a, shape) }
}

/// Axes `start..=end` made one.
pub fn flatten(a: &Array, start: i64, end: i64) -> Result<Array> {
    if a.ndim() == 0 {
        return Ok(reshape_to(a, smallvec![1]));
    }
    let s = normalize_axis("flatten", start.max(-(a.ndim() as i64)), a.ndim())?;
    let e = normalize_axis("flatten", end.min(a.ndim() as i64 - 1), a.ndim())?;
    if s > e {
        return Err(Error::invalid(
            "flatten",
            format!("The start axis {start} lies behind the end axis {end}."),
        ));
    }
    let mut shape: Shape = a.shape()[..s].into();
    shape.push(a.shape()[s..=e].iter().product());
    shape.extend_from_slice(&a.shape()[e + 1..]);
    Ok(reshape_to(a, shape))
}

/// One axis cut into several; one length may be -1.
pub fn unflatten(a: &Array, axis: i64, lengths: &[i64]) -> Result<Array> {
    let axis = normalize_axis("unflatten", axis, a.ndim())?;
    let mut lengths = lengths.to_vec();
    let known = lengths.iter().filter(|&&n| n != -1).fold(1i64, |p, &n| p.saturating_mul(n));
    if let Some(free) = lengths.iter_mut().find(|n| **n == -1) {
        *free = if known > 0 { a.shape()[axis] as i64 / known } else { 0 };
    }
    let mut shape: Vec<i64> = a.shape()[..axis].iter().map(|&n| n as i64).collect();
    shape.extend(&lengths);
    shape.extend(a.shape()[axis + 1..].iter().map(|&n| n as i64));
    reshape(a, &shape)
}

/// Axes in another order; without one, reversed.
pub fn transpose(a: &Array, axes: Option<&[i64]>) -> Result<Array> {
    let n = a.ndim();
    let Some(axes) = axes else {
        let reversed: Axes = (0..n as u8).rev().collect();
        return Ok(permute(a, reversed));
    };
    if axes.len() != n {
        let message = format!("Received {} axes for an array with {n} dimensions.", axes.len());
        return Err(Error::invalid("transpose", message));
    }
    let mut order = Axes::new();
    for &axis in axes {
        let axis = normalize_axis("transpose", axis, n)? as u8;
        if order.contains(&axis) {
            return Err(Error::invalid("transpose", "Repeat axes are not allowed."));
        }
        order.push(axis);
    }
    Ok(permute(a, order))
}

/// Axes in another order. The transpose of a pending transpose reads what that one reads.
pub(crate) fn permute(a: &Array, order: Axes) -> Array {
    if order.is_sorted() {
        return a.clone();
    }
    if let Primitive::View(View::Transpose(first)) = &a.node.op
        && let Some(source) = a.inputs().first()
    {
        return permute(source, order.iter().map(|&i| first[i as usize]).collect());
    }
    let shape = order.iter().map(|&i| a.shape()[i as usize]).collect();
    view(View::Transpose(order), a, shape)
}

/// Two axes exchanged.
pub fn swapaxes(a: &Array, x: i64, y: i64) -> Result<Array> {
    let (x, y) = (normalize_axis("swapaxes", x, a.ndim())?, normalize_axis("swapaxes", y, a.ndim())?);
    let mut order: Axes = (0..a.ndim() as u8).collect();
    order.swap(x, y);
    Ok(permute(a, order))
}

/// One axis moved to another place.
pub fn moveaxis(a: &Array, from: i64, to: i64) -> Result<Array> {
    let (from, to) = (normalize_axis("moveaxis", from, a.ndim())?, normalize_axis("moveaxis", to, a.ndim())?);
    let mut order: Axes = (0..a.ndim() as u8).collect();
    let axis = order.remove(from);
    order.insert(to, axis);
    Ok(permute(a, order))
}

/// Axes of length 1 dropped: the given ones, or all.
pub fn squeeze(a: &Array, axes: Option<&[i64]>) -> Result<Array> {
    let mut drop = vec![false; a.ndim()];
    match axes {
        None => drop.iter_mut().zip(a.shape()).for_each(|(d, &n)| *d = n == 1),
        Some(axes) => {
            for &axis in axes {
                let i = normalize_axis("squeeze", axis, a.ndim())?;
                if a.shape()[i] != 1 {
                    let message = format!(
                        "Cannot squeeze axis {axis} with size {} which is not equal to 1.",
                        a.shape()[i]
                    );
                    return Err(Error::invalid("squeeze", message));
                }
                if std::mem::replace(&mut drop[i], true) {
                    return Err(Error::invalid("squeeze", "Received duplicate axes."));
                }
            }
        }
    }
    let shape = a.shape().iter().zip(&drop).filter(|(_, d)| !**d).map(|(&n, _)| n).collect();
    Ok(reshape_to(a, shape))
}

/// Axes of length 1 put in, at these places of the result.
pub fn expand_dims(a: &Array, axes: &[i64]) -> Result<Array> {
    let n = a.ndim() + axes.len();
    let mut new = vec![false; n];
    for &axis in axes {
        let i = normalize_axis("expand_dims", axis, n)?;
        if std::mem::replace(&mut new[i], true) {
            return Err(Error::invalid("expand_dims", "Received duplicate axes."));
        }
    }
    let mut old = a.shape().iter();
    let shape = new.iter().map(|&is| if is { 1 } else { old.next().copied().unwrap_or(1) }).collect();
    Ok(reshape_to(a, shape))
}

/// Row-major in memory.
pub fn contiguous(a: &Array) -> Result<Array> {
    let op = Primitive::Op(Op::Contiguous);
    Ok(Array::apply(op, Params::none(), a.shape().into(), a.dtype(), smallvec![a.clone()]))
}

/// The same bytes as elements of another dtype. Another element size scales the last axis.
///
/// # Errors
/// InvalidArgument for 0-d arrays and last axes that the new element size does not divide.
pub fn bitcast(a: &Array, dtype: Dtype) -> Result<Array> {
    if a.dtype() == dtype {
        return Ok(a.clone());
    }
    let (from, to) = (a.dtype().size(), dtype.size());
    let mut shape: Shape = a.shape().into();
    let mut source = a.clone();
    if from != to {
        let Some(last) = shape.last_mut() else {
            return Err(Error::invalid(
                "view",
                "Changing the type of a scalar is only allowed for types of one size.",
            ));
        };
        let Some(bytes) = last.checked_mul(from) else {
            return Err(Error::invalid("view", "The last axis is too long."));
        };
        if bytes % to != 0 {
            let message =
                format!("The last axis, {last} elements of {from} bytes, isn't a multiple of {to} bytes.");
            return Err(Error::invalid("view", message));
        }
        *last = bytes / to;
        crate::array::checked_size(&shape, dtype)?;
        source = contiguous(a)?;
    }
    let op = Primitive::View(View::Bitcast);
    Ok(Array::apply(op, Params::none(), shape, dtype, smallvec![source]))
}

/// Elements moved along axes (or, without any, of the flattened array); what leaves at one end enters at the
/// other.
pub fn roll(a: &Array, shifts: &[i64], axes: Option<&[i64]>) -> Result<Array> {
    let Some(axes) = axes else {
        let flat = roll(
            &reshape_to(a, smallvec![a.size()]),
            &[shifts.iter().fold(0i64, |a, &b| a.wrapping_add(b))],
            Some(&[0]),
        )?;
        return Ok(reshape_to(&flat, a.shape().into()));
    };
    let mut out = a.clone();
    for (k, &axis) in axes.iter().enumerate() {
        let axis = normalize_axis("roll", axis, a.ndim())?;
        let n = a.shape()[axis] as i64;
        let shift = if shifts.len() == 1 { shifts[0] } else { *shifts.get(k).unwrap_or(&0) };
        if n > 0 && shift.rem_euclid(n) != 0 {
            let cut = n - shift.rem_euclid(n);
            out = concatenate(&[window(&out, axis, cut, n)?, window(&out, axis, 0, cut)?], axis as i64)?;
        }
    }
    Ok(out)
}

/// The k-th diagonals of the planes of two axes, as the last axis.
pub fn diagonal(a: &Array, k: i64, axis1: i64, axis2: i64) -> Result<Array> {
    let (x, y) = (normalize_axis("diagonal", axis1, a.ndim())?, normalize_axis("diagonal", axis2, a.ndim())?);
    if x == y {
        return Err(Error::invalid("diagonal", "The two axes must differ."));
    }
    let mut order: Axes = (0..a.ndim() as u8).filter(|&i| i as usize != x && i as usize != y).collect();
    order.extend([x as u8, y as u8]);
    let (n, m) = (a.shape()[x] as i64, a.shape()[y] as i64);
    // Diagonals further out are as empty as the first ones outside.
    let k = k.clamp(-n, m);
    let length = if k >= 0 { n.min(m - k) } else { m.min(n + k) }.max(0);
    // In row-major order the elements of a diagonal are one row and one column apart.
    let plane = permute(a, order);
    let mut shape: Shape = plane.shape()[..a.ndim() - 2].into();
    shape.push((n * m) as usize);
    let flat = reshape_to(&plane, shape);
    let (mut start, mut stop, mut steps) = (
        vec![0; flat.ndim()],
        flat.shape().iter().map(|&d| d as i64).collect::<Vec<_>>(),
        vec![1; flat.ndim()],
    );
    let last = flat.ndim() - 1;
    start[last] = if k >= 0 { k } else { -k * m };
    stop[last] = if length == 0 { start[last] } else { start[last] + (length - 1) * (m + 1) + 1 };
    steps[last] = m + 1;
    ops::slice(&flat, &start, &stop, &steps)
}

/// A matrix with a vector as its k-th diagonal, or the k-th diagonal of a matrix.
pub fn diag(a: &Array, k: i64) -> Result<Array> {
    match a.ndim() {
        2 => diagonal(a, k, 0, 1),
        1 => {
            let n = (a.size() as i64).saturating_add(k.saturating_abs());
            crate::array::checked_size(&[n as usize, n as usize], a.dtype())?;
            let zeros = ops::zeros(&[(n * n) as usize], a.dtype())?;
            let start = if k >= 0 { k } else { -k * n };
            let stop = (start + (a.size() as i64 - 1) * (n + 1) + 1).max(start);
            reshape(&ops::slice_update(&zeros, a, &[start], &[stop], &[n + 1])?, &[n, n])
        }
        n => Err(Error::invalid("diag", format!("An array of 1 or 2 dimensions is needed, not {n}."))),
    }
}

/// Arrays joined along an axis; the other lengths must be equal. dtypes promote.
pub fn concatenate(arrays: &[Array], axis: i64) -> Result<Array> {
    let Some(first) = arrays.first() else {
        return Err(Error::invalid("concatenate", "No arrays provided for concatenation"));
    };
    let axis = normalize_axis("concatenate", axis, first.ndim())?;
    let dtype = arrays.iter().fold(first.dtype(), |d, a| d.promote(a.dtype()));
    let mut shape: Shape = first.shape().into();
    shape[axis] = 0;
    let mut operands = Inputs::new();
    for a in arrays {
        let fits = a.ndim() == shape.len() && (0..shape.len()).all(|i| i == axis || a.shape()[i] == shape[i]);
        if !fits {
            let (x, y) = (format_shape(first.shape()), format_shape(a.shape()));
            let message = format!(
                "All the input array dimensions must match exactly except for the concatenation axis. However, the \
                 provided shapes are {x} and {y}, and the concatenation axis is {axis}."
            );
            return Err(Error::invalid("concatenate", message));
        }
        shape[axis] = shape[axis].saturating_add(a.shape()[axis]);
        operands.push(ops::astype(a, dtype)?);
    }
    crate::array::checked_size(&shape, dtype)?;
    if operands.len() == 1 {
        return Ok(operands.remove(0));
    }
    let op = Primitive::Op(Op::Concat { axis: axis as u8 });
    Ok(Array::apply(op, Params::none(), shape, dtype, operands))
}

/// Arrays of one shape as slices of a new axis.
pub fn stack(arrays: &[Array], axis: i64) -> Result<Array> {
    let Some(first) = arrays.first() else {
        return Err(Error::invalid("stack", "No arrays provided for stacking"));
    };
    if arrays.iter().any(|a| a.shape() != first.shape()) {
        return Err(Error::invalid("stack", "All arrays must have the same shape"));
    }
    let axis = normalize_axis("stack", axis, first.ndim() + 1)? as i64;
    let expanded: Vec<Array> = arrays.iter().map(|a| expand_dims(a, &[axis])).collect::<Result<_>>()?;
    concatenate(&expanded, axis)
}

/// Cut before each of these positions along an axis.
pub fn split_at(a: &Array, positions: &[i64], axis: i64) -> Result<Vec<Array>> {
    let axis = normalize_axis("split", axis, a.ndim())?;
    let n = a.shape()[axis] as i64;
    let at = |p: i64| if p < 0 { (p + n).max(0) } else { p.min(n) };
    let mut parts = Vec::with_capacity(positions.len() + 1);
    let mut begin = 0;
    for end in positions.iter().map(|&p| at(p)).chain([n]) {
        parts.push(window(a, axis, begin, end.max(begin))?);
        begin = end;
    }
    Ok(parts)
}

/// `count` equal parts along an axis.
pub fn split(a: &Array, count: i64, axis: i64) -> Result<Vec<Array>> {
    let i = normalize_axis("split", axis, a.ndim())?;
    let n = a.shape()[i] as i64;
    if count <= 0 || n % count != 0 {
        let message = format!(
            "Array split does not result in sub arrays with equal size: {n} along axis {axis} into {count}."
        );
        return Err(Error::invalid("split", message));
    }
    let positions: Vec<i64> = (1..count).map(|k| k * (n / count)).collect();
    split_at(a, &positions, axis)
}

/// Elements `begin..end` along one axis.
pub(crate) fn window(a: &Array, axis: usize, begin: i64, end: i64) -> Result<Array> {
    let mut start = vec![0i64; a.ndim()];
    let mut stop: Vec<i64> = a.shape().iter().map(|&n| n as i64).collect();
    (start[axis], stop[axis]) = (begin, end);
    ops::slice(a, &start, &stop, &vec![1; a.ndim()])
}

/// Each element `count` times in a row, along an axis or, without one, of the flattened array.
pub fn repeat(a: &Array, count: i64, axis: Option<i64>) -> Result<Array> {
    if count < 0 {
        return Err(Error::invalid("repeat", "Number of repeats cannot be negative"));
    }
    let Some(axis) = axis else { return repeat(&flatten(a, 0, -1)?, count, Some(0)) };
    let axis = normalize_axis("repeat", axis, a.ndim())?;
    let expanded = expand_dims(a, &[axis as i64 + 1])?;
    let mut shape: Shape = expanded.shape().into();
    shape[axis + 1] = count as usize;
    let mut out: Shape = a.shape().into();
    out[axis] = out[axis].saturating_mul(count as usize);
    crate::array::checked_size(&out, a.dtype())?;
    Ok(reshape_to(&broadcast_to(&expanded, &shape)?, out))
}

/// The whole array repeated along each axis.
pub fn tile(a: &Array, counts: &[i64]) -> Result<Array> {
    if counts.iter().any(|&c| c < 0) {
        return Err(Error::invalid("tile", "Number of repeats cannot be negative"));
    }
    let n = a.ndim().max(counts.len());
    let length = |i: usize| if i + a.ndim() >= n { a.shape()[i + a.ndim() - n] } else { 1 };
    let count = |i: usize| if i + counts.len() >= n { counts[i + counts.len() - n] as usize } else { 1 };
    let expanded: Shape = (0..n).flat_map(|i| [1, length(i)]).collect();
    let stretched: Shape = (0..n).flat_map(|i| [count(i), length(i)]).collect();
    let out: Shape = (0..n).map(|i| count(i).saturating_mul(length(i))).collect();
    crate::array::checked_size(&out, a.dtype())?;
    Ok(reshape_to(&broadcast_to(&reshape_to(a, expanded), &stretched)?, out))
}

/// Cotangent of a view's operand, or of one of concatenate's.
pub(crate) fn vjp(app: &App<'_>, by: usize, g: &Array) -> Result<Option<Array>> {
    let input = &app.inputs[by];
    Ok(Some(match app.op {
        Primitive::View(View::Identity { stop: true } | View::Bitcast) => return Ok(None),
        Primitive::View(View::Identity { stop: false }) | Primitive::Op(Op::Contiguous) => g.clone(),
        Primitive::View(View::Broadcast) => ops::sum_to(g, input.shape())?,
        Primitive::View(View::Reshape) => reshape_to(g, input.shape().into()),
        Primitive::View(View::Transpose(axes)) => {
            let mut inverse: Axes = smallvec![0; axes.len()];
            for (i, &a) in axes.iter().enumerate() {
                inverse[a as usize] = i as u8;
            }
            permute(g, inverse)
        }
        Primitive::Op(Op::Concat { axis }) => {
            let axis = *axis as usize;
            let begin: usize = app.inputs[..by].iter().map(|a| a.shape()[axis]).sum();
            window(g, axis, begin as i64, (begin + input.shape()[axis]) as i64)?
        }
        _ => return Err(app.missing("vjp")),
    }))
}

/// Batched form of a view or of concatenate; the batch axis comes first.
pub(crate) fn vmap(app: &App<'_>, inputs: &[Batched], size: usize) -> Result<Array> {
    let x = &inputs[0];
    let mut shape: Shape = smallvec![size];
    shape.extend_from_slice(app.out.shape());
    match app.op {
        Primitive::View(View::Transpose(axes)) => {
            let mut order: Axes = smallvec![0];
            order.extend(axes.iter().map(|a| a + 1));
            Ok(permute(&x.array, order))
        }
        Primitive::View(View::Broadcast) => broadcast_to(&x.aligned(app.out.ndim())?, &shape),
        Primitive::View(View::Reshape) => Ok(reshape_to(&x.array, shape)),
        Primitive::View(View::Bitcast) => bitcast(&x.array, app.out.dtype()),
        Primitive::View(View::Identity { stop: true }) => stop_gradient(&x.array),
        Primitive::Op(Op::Concat { axis }) => {
            let all: Vec<Array> = inputs.iter().map(|b| b.spread(size)).collect::<Result<_>>()?;
            concatenate(&all, *axis as i64 + 1)
        }
        Primitive::Op(Op::Contiguous) => contiguous(&x.array),
        _ => Ok(x.array.clone()),
    }
}
