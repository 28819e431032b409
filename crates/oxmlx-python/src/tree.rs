//! Walks over nested lists, tuples and dicts. They are native since a training step makes hundreds of them,
//! and most of its host time would otherwise be spent in them.

use pyo3::exceptions::{PyRecursionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

type Any<'py> = Bound<'py, PyAny>;

/// Levels of a tree that a walk goes down, at most; Python itself goes no deeper by default.
const MAX_DEPTH: u32 = 1000;

/// Counts the levels of a walk: a tree that contains itself must not use up the stack.
pub struct Level(());

impl Level {
    /// One level further down.
    pub fn enter() -> PyResult<Level> {
        let depth = DEPTH.with(|d| d.replace(d.get() + 1));
        let level = Level(());
        if depth >= MAX_DEPTH {
            return Err(PyRecursionError::new_err("the tree is too deep, or contains itself"));
        }
        Ok(level)
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.with(|d| d.set(d.get() - 1));
    }
}

thread_local! {
    static DEPTH: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// A container, or a leaf.
pub enum Kind<'a, 'py> {
    /// A list or a subclass.
    List(&'a Bound<'py, PyList>),
    /// A tuple or a subclass.
    Tuple(&'a Bound<'py, PyTuple>),
    /// A dict or a subclass.
    Dict(&'a Bound<'py, PyDict>),
    /// Anything else.
    Leaf,
}

/// What an object is to a walk.
pub fn kind<'a, 'py>(obj: &'a Any<'py>) -> Kind<'a, 'py> {
    if let Ok(d) = obj.cast::<PyDict>() {
        Kind::Dict(d)
    } else if let Ok(l) = obj.cast::<PyList>() {
        Kind::List(l)
    } else if let Ok(t) = obj.cast::<PyTuple>() {
        Kind::Tuple(t)
    } else {
        Kind::Leaf
    }
}

fn leaf(is_leaf: Option<&Any<'_>>, obj: &Any<'_>) -> PyResult<bool> {
    match is_leaf {
        Some(f) if !f.is_none() => f.call1((obj,))?.is_truthy(),
        _ => Ok(false),
    }
}

/// A tuple of the same type from items: subclasses with named fields keep their type.
fn like_tuple<'py>(of: &Bound<'py, PyTuple>, items: Vec<Any<'py>>) -> PyResult<Any<'py>> {
    let py = of.py();
    let plain = PyTuple::new(py, items)?;
    if of.is_exact_instance_of::<PyTuple>() {
        return Ok(plain.into_any());
    }
    let ty: Bound<'py, PyType> = of.get_type();
    if ty.hasattr("_fields")? { ty.call1(plain) } else { ty.call1((plain,)) }
}

/// Calls `f` on every leaf and builds the same structure from the results.
pub fn map<'py>(tree: &Any<'py>, f: &mut dyn FnMut(&Any<'py>) -> PyResult<Any<'py>>) -> PyResult<Any<'py>> {
    let _level = Level::enter()?;
    match kind(tree) {
        Kind::Dict(d) => {
            let out = PyDict::new(tree.py());
            for (k, v) in d.iter() {
                out.set_item(k, map(&v, f)?)?;
            }
            Ok(out.into_any())
        }
        Kind::List(l) => {
            let out = PyList::empty(tree.py());
            for v in l.iter() {
                out.append(map(&v, f)?)?;
            }
            Ok(out.into_any())
        }
        Kind::Tuple(t) => {
            let items = t.iter().map(|v| map(&v, f)).collect::<PyResult<_>>()?;
            like_tuple(t, items)
        }
        Kind::Leaf => f(tree),
    }
}

/// Calls `f` on every leaf, in order.
pub fn visit<'py>(tree: &Any<'py>, f: &mut dyn FnMut(&Any<'py>) -> PyResult<()>) -> PyResult<()> {
    let _level = Level::enter()?;
    match kind(tree) {
        Kind::Dict(d) => d.iter().try_for_each(|(_, v)| visit(&v, f)),
        Kind::List(l) => l.iter().try_for_each(|v| visit(&v, f)),
        Kind::Tuple(t) => t.iter().try_for_each(|v| visit(&v, f)),
        Kind::Leaf => f(tree),
    }
}

/// The matching child of each tree that is walked beside the first.
fn child<'py>(rest: &[Any<'py>], key: &Any<'py>) -> PyResult<Vec<Any<'py>>> {
    rest.iter().map(|r| r.get_item(key)).collect()
}

struct Mapper<'a, 'py> {
    function: &'a Any<'py>,
    is_leaf: Option<&'a Any<'py>>,
    /// Whether the function gets the path first.
    with_path: bool,
}

impl<'py> Mapper<'_, 'py> {
    fn run(&self, tree: &Any<'py>, rest: &[Any<'py>], path: &str) -> PyResult<Any<'py>> {
        let _level = Level::enter()?;
        let py = tree.py();
        if leaf(self.is_leaf, tree)? {
            return self.call(tree, rest, path);
        }
        let deeper = |key: &dyn std::fmt::Display| {
            if !self.with_path {
                String::new()
            } else if path.is_empty() {
                key.to_string()
            } else {
                format!("{path}.{key}")
            }
        };
        match kind(tree) {
            Kind::Dict(d) => {
                let out = PyDict::new(py);
                for (k, v) in d.iter() {
                    let below = if self.with_path { deeper(&k) } else { String::new() };
                    let item = if rest.is_empty() {
                        self.run(&v, &[], &below)?
                    } else {
                        self.run(&v, &child(rest, &k)?, &below)?
                    };
                    out.set_item(k, item)?;
                }
                Ok(out.into_any())
            }
            Kind::List(l) => {
                let out = PyList::empty(py);
                for (i, v) in l.iter().enumerate() {
                    out.append(self.item(&v, i, rest, &deeper)?)?;
                }
                Ok(out.into_any())
            }
            Kind::Tuple(t) => {
                let items = t
                    .iter()
                    .enumerate()
                    .map(|(i, v)| self.item(&v, i, rest, &deeper))
                    .collect::<PyResult<_>>()?;
                like_tuple(t, items)
            }
            Kind::Leaf => self.call(tree, rest, path),
        }
    }

    fn item(
        &self,
        v: &Any<'py>,
        i: usize,
        rest: &[Any<'py>],
        deeper: &dyn Fn(&dyn std::fmt::Display) -> String,
    ) -> PyResult<Any<'py>> {
        if rest.is_empty() {
            return self.run(v, &[], &deeper(&i));
        }
        let key = i.into_pyobject(v.py())?.into_any();
        self.run(v, &child(rest, &key)?, &deeper(&i))
    }

    fn call(&self, tree: &Any<'py>, rest: &[Any<'py>], path: &str) -> PyResult<Any<'py>> {
        let py = tree.py();
        if !self.with_path && rest.is_empty() {
            return self.function.call1((tree,));
        }
        let mut args: Vec<Any<'py>> = Vec::with_capacity(rest.len() + 2);
        if self.with_path {
            args.push(PyString::new(py, path).into_any());
        }
        args.push(tree.clone());
        args.extend(rest.iter().cloned());
        self.function.call1(PyTuple::new(py, args)?)
    }
}

/// Applies `fn` to the leaves of `tree`, together with the leaves at the same places of the other trees.
/// Returns the same structure (dict subclasses become dicts).
#[pyfunction]
#[pyo3(signature = (r#fn, tree, *rest, is_leaf=None))]
fn tree_map<'py>(
    r#fn: &Any<'py>,
    tree: &Any<'py>,
    rest: &Bound<'py, PyTuple>,
    is_leaf: Option<&Any<'py>>,
) -> PyResult<Any<'py>> {
    let rest: Vec<Any<'py>> = rest.iter().collect();
    Mapper { function: r#fn, is_leaf, with_path: false }.run(tree, &rest, "")
}

/// As `tree_map`; `fn` gets the path of the leaf (keys joined with dots) as its first argument.
#[pyfunction]
#[pyo3(signature = (r#fn, tree, *rest, is_leaf=None, path=None))]
fn tree_map_with_path<'py>(
    r#fn: &Any<'py>,
    tree: &Any<'py>,
    rest: &Bound<'py, PyTuple>,
    is_leaf: Option<&Any<'py>>,
    path: Option<&Any<'py>>,
) -> PyResult<Any<'py>> {
    let rest: Vec<Any<'py>> = rest.iter().collect();
    let path = path.filter(|p| !p.is_none()).map_or(Ok(String::new()), |p| p.str().map(|s| s.to_string()))?;
    Mapper { function: r#fn, is_leaf, with_path: true }.run(tree, &rest, &path)
}

fn flatten_into<'py>(
    tree: &Any<'py>,
    prefix: &str,
    is_leaf: Option<&Any<'py>>,
    put: &mut dyn FnMut(&str, &Any<'py>) -> PyResult<()>,
) -> PyResult<()> {
    let _level = Level::enter()?;
    let key = |prefix: &str| prefix.strip_prefix('.').unwrap_or(prefix).to_string();
    if leaf(is_leaf, tree)? {
        return put(&key(prefix), tree);
    }
    match kind(tree) {
        Kind::Dict(d) => {
            d.iter().try_for_each(|(k, v)| flatten_into(&v, &format!("{prefix}.{k}"), is_leaf, put))
        }
        Kind::List(l) => l
            .iter()
            .enumerate()
            .try_for_each(|(i, v)| flatten_into(&v, &format!("{prefix}.{i}"), is_leaf, put)),
        Kind::Tuple(t) => t
            .iter()
            .enumerate()
            .try_for_each(|(i, v)| flatten_into(&v, &format!("{prefix}.{i}"), is_leaf, put)),
        Kind::Leaf => put(&key(prefix), tree),
    }
}

/// The leaves with their paths (keys joined with dots): a list of pairs, or, with a dict as `destination`, that
/// dict filled.
#[pyfunction]
#[pyo3(signature = (tree, prefix="", is_leaf=None, destination=None))]
fn tree_flatten<'py>(
    tree: &Any<'py>,
    prefix: &str,
    is_leaf: Option<&Any<'py>>,
    destination: Option<&Any<'py>>,
) -> PyResult<Any<'py>> {
    let py = tree.py();
    let destination = match destination {
        Some(d) if !d.is_none() => d.clone(),
        _ => PyList::empty(py).into_any(),
    };
    let (list, dict) = (destination.cast::<PyList>().ok(), destination.cast::<PyDict>().ok());
    if list.is_none() && dict.is_none() {
        return Err(PyValueError::new_err("Destination should be either a list or a dictionary or None"));
    }
    flatten_into(tree, prefix, is_leaf, &mut |k, v| match (&list, &dict) {
        (Some(l), _) => l.append((k, v)),
        (_, Some(d)) => d.set_item(k, v),
        _ => Ok(()),
    })?;
    Ok(destination)
}

/// One level of a tree that is being put together.
enum Building<'py> {
    Leaf(Any<'py>),
    Branch(Vec<(String, Building<'py>)>),
}

fn insert<'py>(into: &mut Vec<(String, Building<'py>)>, path: &str, value: Any<'py>) -> PyResult<()> {
    let (head, rest) = path.split_once('.').map_or((path, None), |(h, r)| (h, Some(r)));
    let at = match into.last().filter(|(k, _)| k == head) {
        Some(_) => into.len() - 1,
        None => into.iter().position(|(k, _)| k == head).unwrap_or(into.len()),
    };
    match rest {
        None => into.push((head.to_string(), Building::Leaf(value))),
        Some(rest) => {
            if at == into.len() {
                into.push((head.to_string(), Building::Branch(Vec::new())));
            }
            match &mut into[at].1 {
                Building::Branch(b) => insert(b, rest, value)?,
                Building::Leaf(_) => {
                    return Err(PyValueError::new_err(format!("'{head}' is both a leaf and a branch.")));
                }
            }
        }
    }
    Ok(())
}

fn build<'py>(py: Python<'py>, node: Building<'py>) -> PyResult<Any<'py>> {
    let _level = Level::enter()?;
    let children = match node {
        Building::Leaf(v) => return Ok(v),
        Building::Branch(c) => c,
    };
    let numbers: Option<Vec<usize>> = children.iter().map(|(k, _)| k.parse().ok()).collect();
    let Some(numbers) = numbers.filter(|n| !n.is_empty()) else {
        let out = PyDict::new(py);
        for (k, c) in children {
            out.set_item(k, build(py, c)?)?;
        }
        return Ok(out.into_any());
    };
    // Keys that are numbers make a list; places that nobody fills are empty dicts.
    let mut items: Vec<(usize, Building<'py>)> =
        numbers.into_iter().zip(children.into_iter().map(|c| c.1)).collect();
    items.sort_by_key(|i| i.0);
    let out = PyList::empty(py);
    for (i, c) in items {
        if i > out.len() + 1_000_000 {
            return Err(PyValueError::new_err(format!(
                "index {i} leaves a hole of more than a million places."
            )));
        }
        while out.len() < i {
            out.append(PyDict::new(py))?;
        }
        out.append(build(py, c)?)?;
    }
    Ok(out.into_any())
}

/// The tree whose `tree_flatten` is given, as pairs or as a dict.
#[pyfunction]
fn tree_unflatten<'py>(tree: &Any<'py>) -> PyResult<Any<'py>> {
    let py = tree.py();
    let pairs = match tree.cast::<PyDict>() {
        Ok(d) => d.items().into_any(),
        Err(_) => tree.clone(),
    };
    let mut root = Vec::new();
    for pair in pairs.try_iter()? {
        let (path, value): (String, Any<'py>) = pair?.extract()?;
        if path.is_empty() {
            return Ok(value);
        }
        insert(&mut root, &path, value)?;
    }
    build(py, Building::Branch(root))
}

/// Folds the leaves with `fn(accumulated, leaf)`, from `initializer` on or from the first leaf.
#[pyfunction]
#[pyo3(signature = (r#fn, tree, initializer=None, is_leaf=None))]
fn tree_reduce<'py>(
    r#fn: &Any<'py>,
    tree: &Any<'py>,
    initializer: Option<Any<'py>>,
    is_leaf: Option<&Any<'py>>,
) -> PyResult<Option<Any<'py>>> {
    let mut accumulated = initializer.filter(|i| !i.is_none());
    flatten_into(tree, "", is_leaf, &mut |_, v| {
        accumulated = Some(match accumulated.take() {
            Some(a) => r#fn.call1((a, v))?,
            None => v.clone(),
        });
        Ok(())
    })?;
    Ok(accumulated)
}

/// Two trees made one: where both have something that isn't a container, `merge_fn` decides.
#[pyfunction]
#[pyo3(signature = (tree_a, tree_b, merge_fn=None))]
fn tree_merge<'py>(tree_a: &Any<'py>, tree_b: &Any<'py>, merge_fn: Option<&Any<'py>>) -> PyResult<Any<'py>> {
    let _level = Level::enter()?;
    let py = tree_a.py();
    let empty =
        |t: &Any<'py>| t.is_none() || (!matches!(kind(t), Kind::Leaf) && t.len().is_ok_and(|n| n == 0));
    if empty(tree_a) {
        return Ok(tree_b.clone());
    }
    if empty(tree_b) {
        return Ok(tree_a.clone());
    }
    match (kind(tree_a), kind(tree_b)) {
        (Kind::Dict(a), Kind::Dict(b)) => {
            let out = PyDict::new(py);
            for (k, v) in a.iter() {
                let merged = match b.get_item(&k)? {
                    Some(w) => tree_merge(&v, &w, merge_fn)?,
                    None => v,
                };
                out.set_item(k, merged)?;
            }
            for (k, v) in b.iter() {
                if !a.contains(&k)? {
                    out.set_item(k, v)?;
                }
            }
            Ok(out.into_any())
        }
        (Kind::List(_) | Kind::Tuple(_), Kind::List(_) | Kind::Tuple(_)) => {
            let (a, b): (Vec<Any<'py>>, Vec<Any<'py>>) =
                (tree_a.try_iter()?.collect::<PyResult<_>>()?, tree_b.try_iter()?.collect::<PyResult<_>>()?);
            let mut items = Vec::with_capacity(a.len().max(b.len()));
            for i in 0..a.len().max(b.len()) {
                items.push(match (a.get(i), b.get(i)) {
                    (Some(x), Some(y)) => tree_merge(x, y, merge_fn)?,
                    (Some(x), None) | (None, Some(x)) => x.clone(),
                    (None, None) => py.None().into_bound(py),
                });
            }
            tree_a.get_type().call1((PyList::new(py, items)?,))
        }
        _ => match merge_fn.filter(|f| !f.is_none()) {
            Some(f) => f.call1((tree_a, tree_b)),
            None => Err(PyValueError::new_err(
                "Trees contain elements at the same locations but no merge function was provided",
            )),
        },
    }
}

/// The submodule `tree`.
pub fn module<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyModule>> {
    let m = PyModule::new(py, "tree")?;
    m.add_function(wrap_pyfunction!(tree_map, &m)?)?;
    m.add_function(wrap_pyfunction!(tree_map_with_path, &m)?)?;
    m.add_function(wrap_pyfunction!(tree_flatten, &m)?)?;
    m.add_function(wrap_pyfunction!(tree_unflatten, &m)?)?;
    m.add_function(wrap_pyfunction!(tree_reduce, &m)?)?;
    m.add_function(wrap_pyfunction!(tree_merge, &m)?)?;
    Ok(m)
}

/// Raised where a tree holds something that isn't an array.
pub fn not_an_array(obj: &Any<'_>) -> PyErr {
    let ty = obj.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string());
    PyValueError::new_err(format!(
        "[tree_flatten] The argument should contain only arrays, but it holds a {ty}."
    ))
}

/// For callers that need a callable.
pub fn expect_callable(f: &Any<'_>, what: &str) -> PyResult<()> {
    if f.is_callable() { Ok(()) } else { Err(PyTypeError::new_err(format!("{what} takes a function."))) }
}
