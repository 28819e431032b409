//! Reading parts of arrays with numpy's rules.
//!
//! An index becomes a list of items, one for each part of the subscript, and from that a plan: one window of
//! the array (a slice for each axis), index arrays that replace axes of it, and where the axes of the result
//! come from. Reading and writing share the plan, so that both mean the same elements.

use super::{PyArray, convert, wrap};
use crate::args::{Number, number};
use crate::error::OrRaise;
use oxmlx::{Array, Dtype, Shape, ops};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyList, PySlice, PySliceMethods, PyTuple};
use smallvec::SmallVec;

/// One part of a subscript.
pub enum Item<'py> {
    /// An integer: drops its axis.
    Int(i64),
    /// A slice: keeps its axis.
    Slice(Bound<'py, PySlice>),
    /// None: a new axis of length 1.
    New,
    /// `...`: all axes that are left.
    Ellipsis,
    /// Integers at positions.
    Array(Array),
    /// Truth values.
    Mask(Array),
}

/// The parts of a subscript.
pub type Items<'py> = SmallVec<[Item<'py>; 4]>;

fn cannot_index() -> PyErr {
    PyValueError::new_err("Cannot index mlx array using the given type.")
}

fn item<'py>(obj: &Bound<'py, PyAny>) -> PyResult<Item<'py>> {
    if let Ok(a) = obj.cast::<PyArray>() {
        return Ok(from_array(a.get().get()));
    }
    if let Ok(s) = obj.cast::<PySlice>() {
        return Ok(Item::Slice(s.clone()));
    }
    if obj.is_none() {
        return Ok(Item::New);
    }
    if obj.is_instance_of::<PyEllipsis>() {
        return Ok(Item::Ellipsis);
    }
    match number(obj)? {
        Some(Number::Int(i)) => return Ok(Item::Int(i)),
        Some(Number::Bool(b)) => return Ok(Item::Mask(Array::scalar(oxmlx::Scalar::from_bool(b)))),
        Some(_) => return Err(cannot_index()),
        None => {}
    }
    if obj.is_instance_of::<PyList>() {
        let a = convert::from_python(obj, None)?;
        return Ok(from_array(a));
    }
    if let Some(a) = convert::protocol(obj)? {
        return Ok(from_array(a));
    }
    if obj.is_instance_of::<PyTuple>() || !convert::is_foreign(obj)? {
        return Err(cannot_index());
    }
    // numpy integers and 0-d arrays of them know how to be an index; whole arrays become ours.
    if let Ok(i) = obj.extract::<i64>() {
        return Ok(Item::Int(i));
    }
    Ok(from_array(convert::foreign(obj, None).map_err(|_| cannot_index())?))
}

fn from_array(a: Array) -> Item<'static> {
    if a.dtype() == Dtype::Bool { Item::Mask(a) } else { Item::Array(a) }
}

/// The parts of a subscript.
///
/// # Errors
/// ValueError for types that are no index.
pub fn items<'py>(key: &Bound<'py, PyAny>) -> PyResult<Items<'py>> {
    match key.cast::<PyTuple>() {
        Ok(parts) => parts.iter().map(|p| item(&p)).collect(),
        Err(_) => Ok(smallvec::smallvec![item(key)?]),
    }
}

/// An axis of the result.
#[derive(Clone, Copy, PartialEq)]
pub enum Axis {
    /// An axis of the window.
    Of(usize),
    /// A new one.
    New,
    /// Where the axes of the index arrays go.
    Index,
}

/// What a subscript means for an array of a certain shape.
#[derive(Default)]
pub struct Plan {
    /// The window, for `ops::slice`.
    pub start: SmallVec<[i64; 4]>,
    /// See `start`.
    pub stop: SmallVec<[i64; 4]>,
    /// See `start`.
    pub step: SmallVec<[i64; 4]>,
    /// Lengths of the window.
    pub window: Shape,
    /// Axes that an integer drops.
    pub dropped: SmallVec<[usize; 4]>,
    /// Index arrays.
    pub arrays: Vec<Array>,
    /// Ascending axes that they index.
    pub axes: Vec<usize>,
    /// Axes of the result in order, without dropped ones.
    pub out: SmallVec<[Axis; 6]>,
}

fn too_many(ndim: usize) -> PyErr {
    PyValueError::new_err(if ndim == 0 {
        "too many indices for array: array is 0-dimensional".to_owned()
    } else {
        format!("Too many indices for array with {ndim} dimensions.")
    })
}

impl Plan {
    fn whole(&mut self, n: usize) {
        self.out.push(Axis::Of(self.window.len()));
        self.push(0, n as i64, 1, n);
    }

    fn push(&mut self, start: i64, stop: i64, step: i64, length: usize) {
        self.start.push(start);
        self.stop.push(stop);
        self.step.push(step);
        self.window.push(length);
    }

    fn slice(&mut self, s: &Bound<'_, PySlice>, n: usize) -> PyResult<()> {
        let at = s.indices(n as isize).map_err(|e| {
            let zero = e.is_instance_of::<PyValueError>(s.py());
            PyValueError::new_err(if zero {
                "slice step cannot be zero"
            } else {
                "Slice indices must be integers or None."
            })
        })?;
        let (start, step, length) = (at.start as i64, at.step as i64, at.slicelength);
        self.out.push(Axis::Of(self.window.len()));
        match length {
            0 => self.push(0, 0, 1, 0),
            1 => self.push(start, start + 1, 1, 1),
            _ if step < 0 && at.stop < 0 => self.push(start, -(n as i64) - 1, step, length),
            _ => self.push(start, at.stop as i64, step, length),
        }
        Ok(())
    }

    fn int(&mut self, i: i64, n: usize) -> PyResult<()> {
        let axis = self.window.len();
        let at = if i < 0 { i + n as i64 } else { i };
        if at < 0 || at >= n as i64 {
            return Err(PyIndexError::new_err(format!(
                "index {i} is out of bounds for axis {axis} with size {n}"
            )));
        }
        self.dropped.push(axis);
        self.push(at, at + 1, 1, 1);
        Ok(())
    }

    /// The plan of a subscript without masks.
    ///
    /// # Errors
    /// ValueError for too many indices, a second ellipsis, masks and slices of other than integers;
    /// IndexError for integers beyond the end.
    pub fn new(items: &[Item<'_>], shape: &[usize]) -> PyResult<Plan> {
        let used =
            items.iter().filter(|i| matches!(i, Item::Int(_) | Item::Slice(_) | Item::Array(_))).count();
        if used > shape.len() {
            return Err(too_many(shape.len()));
        }
        let advanced = items.iter().any(|i| matches!(i, Item::Array(_)));
        let mut plan = Plan::default();
        let mut ellipsis = false;
        // Index arrays that something else separates put their axes first.
        let (mut seen, mut ended, mut apart) = (false, false, false);
        for i in items {
            let n = |p: &Plan| shape[p.window.len()];
            let is_advanced = advanced && matches!(i, Item::Int(_) | Item::Array(_));
            if is_advanced {
                apart |= ended;
                if !seen {
                    plan.out.push(Axis::Index);
                }
                seen = true;
            } else {
                ended |= seen;
            }
            match i {
                Item::Int(at) => plan.int(*at, n(&plan))?,
                Item::Slice(s) => plan.slice(s, n(&plan))?,
                Item::New => plan.out.push(Axis::New),
                Item::Array(a) => {
                    plan.axes.push(plan.window.len());
                    plan.arrays.push(a.clone());
                    let n = n(&plan);
                    plan.push(0, n as i64, 1, n);
                }
                Item::Ellipsis if ellipsis => {
                    return Err(PyValueError::new_err("An index can only have a single ellipsis (...)"));
                }
                Item::Ellipsis => {
                    ellipsis = true;
                    for _ in used..shape.len() {
                        plan.whole(shape[plan.window.len()]);
                    }
                }
                Item::Mask(_) => return Err(PyValueError::new_err("boolean indices are not yet supported")),
            }
        }
        while plan.window.len() < shape.len() {
            plan.whole(shape[plan.window.len()]);
        }
        if apart {
            plan.out.retain(|a| *a != Axis::Index);
            plan.out.insert(0, Axis::Index);
        }
        Ok(plan)
    }

    /// Shape of the axes that the index arrays make.
    pub fn index_shape(&self) -> PyResult<Shape> {
        let mut shape = Shape::new();
        for a in &self.arrays {
            shape = oxmlx::broadcast_shapes(&shape, a.shape()).or_raise()?;
        }
        Ok(shape)
    }

    /// Shape of the result.
    pub fn shape(&self, index: &[usize]) -> Shape {
        let mut shape = Shape::new();
        for axis in &self.out {
            match axis {
                Axis::Of(i) => shape.push(self.window[*i]),
                Axis::New => shape.push(1),
                Axis::Index => shape.extend_from_slice(index),
            }
        }
        shape
    }

    /// Whether the window is the whole array.
    pub fn is_whole(&self, shape: &[usize]) -> bool {
        self.window.as_slice() == shape && self.step.iter().all(|&s| s == 1)
    }
}

/// The elements that a plan means.
fn read(a: &Array, plan: &Plan) -> PyResult<Array> {
    let window = ops::slice(a, &plan.start, &plan.stop, &plan.step).or_raise()?;
    let index = plan.index_shape()?;
    let shape: SmallVec<[i64; 6]> = plan.shape(&index).iter().map(|&n| n as i64).collect();
    if plan.arrays.is_empty() {
        return ops::reshape(&window, &shape).or_raise();
    }
    let found = ops::gather(&window, &plan.arrays, &plan.axes).or_raise()?;
    // The index axes come first; they may belong behind some of the others. Dropped axes have length 1 and
    // vanish in the reshape, so only the kept ones need their order.
    let before = plan.out.iter().take_while(|x| **x != Axis::Index).filter_map(|x| match x {
        Axis::Of(i) => Some(*i),
        _ => None,
    });
    if let Some(limit) = before.last() {
        let rest = (0..plan.window.len()).filter(|i| !plan.axes.contains(i));
        let (moved, n) = (rest.clone().filter(|&i| i <= limit).count(), found.ndim());
        let k = index.len();
        let order: Vec<i64> = (k..k + moved).chain(0..k).chain(k + moved..n).map(|i| i as i64).collect();
        return ops::reshape(&ops::transpose(&found, Some(&order)).or_raise()?, &shape).or_raise();
    }
    ops::reshape(&found, &shape).or_raise()
}

/// Element `i` along the first axis; a slice and a reshape.
pub fn row(a: &Array, i: usize) -> PyResult<Array> {
    let mut start: SmallVec<[i64; 6]> = smallvec::smallvec![0; a.ndim()];
    let mut stop: SmallVec<[i64; 6]> = a.shape().iter().map(|&n| n as i64).collect();
    let step: SmallVec<[i64; 6]> = smallvec::smallvec![1; a.ndim()];
    (start[0], stop[0]) = (i as i64, i as i64 + 1);
    let rest: SmallVec<[i64; 6]> = a.shape()[1..].iter().map(|&n| n as i64).collect();
    ops::reshape(&ops::slice(a, &start, &stop, &step).or_raise()?, &rest).or_raise()
}

/// What `a[key]` reads.
pub fn get(a: &Array, key: &Bound<'_, PyAny>) -> PyResult<Array> {
    let items = items(key)?;
    if let [Item::Int(i)] = items.as_slice()
        && let Some(&n) = a.shape().first()
    {
        let at = if *i < 0 { i + n as i64 } else { *i };
        if at < 0 || at >= n as i64 {
            return Err(PyIndexError::new_err(format!(
                "index {i} is out of bounds for axis 0 with size {n}"
            )));
        }
        return row(a, at as usize);
    }
    read(a, &Plan::new(&items, a.shape())?)
}

#[pymethods]
impl PyArray {
    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyArray>> {
        wrap(py, get(&self.get(), key)?)
    }

    fn __setitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let a = self.get();
        self.set(super::assign::assign(py, &a, key, value)?);
        Ok(())
    }

    fn __delitem__(&self, _key: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(pyo3::exceptions::PyAttributeError::new_err("elements of an array cannot be deleted"))
    }
}
