"""The tree functions: what is a leaf, how paths are written, and what comes back."""

import oxmlx.core as mx
import pytest
from oxmlx.utils import tree_flatten, tree_map, tree_map_with_path, tree_merge, tree_reduce, tree_unflatten

TREE = {"a": [1, 2, (3, {"b": 4})], "c": None}


def test_flatten():
    assert tree_flatten(TREE) == [("a.0", 1), ("a.1", 2), ("a.2.0", 3), ("a.2.1.b", 4), ("c", None)]
    assert tree_flatten(3) == [("", 3)]
    assert tree_flatten([]) == [] and tree_flatten({"a": {}}) == []
    assert tree_flatten({"a": 1, 3: 2}) == [("a", 1), ("3", 2)]


def test_flatten_options():
    assert tree_flatten({"a": 1}, prefix=".x") == [("x.a", 1)]
    assert tree_flatten({"a": [1]}, destination={}) == {"a.0": 1}
    into = [("z", 0)]
    assert tree_flatten({"a": 1}, destination=into) is into and into == [("z", 0), ("a", 1)]
    flat = tree_flatten({"a": [1, 2], "b": 3}, is_leaf=lambda x: isinstance(x, list))
    assert flat == [("a", [1, 2]), ("b", 3)]


def test_unflatten():
    assert tree_unflatten([("a.0", 1), ("a.1", 2)]) == {"a": [1, 2]}
    assert tree_unflatten({"a.1": 1}) == {"a": [{}, 1]}
    assert tree_unflatten([("0.a", 1), ("2.b", 3)]) == [{"a": 1}, {}, {"b": 3}]
    assert tree_unflatten([("", 3)]) == 3
    assert tree_unflatten(tree_flatten({"a": [1, {"b": 2}]})) == {"a": [1, {"b": 2}]}
    assert tree_unflatten([(f"x.{i}", i) for i in range(12)]) == {"x": list(range(12))}


def test_map():
    assert tree_map(lambda x: x + 1, {"a": [1, (2,)]}) == {"a": [2, (3,)]}
    assert tree_map(lambda x, y: x + y, {"a": 1}, {"a": 2, "b": 3}) == {"a": 3}
    assert tree_map(len, {"a": [1, 2]}, is_leaf=lambda x: isinstance(x, list)) == {"a": 2}
    assert type(tree_map(lambda x: x, {"a": ()})["a"]) is tuple


def test_map_gives_the_subtree_of_the_rest():
    """A leaf of the first tree may stand beside a subtree of the others: optimizers rely on it."""
    seen = []
    tree_map(lambda g, s: seen.append((g, s)), {"w": 1}, {"w": {"m": 2, "v": 3}, "step": 0})
    assert seen == [(1, {"m": 2, "v": 3})]


def test_map_with_path():
    found = tree_map_with_path(lambda p, x: f"{p}={x}", {"a": [1, {"b": 2}]})
    assert found == {"a": ["a.0=1", {"b": "a.1.b=2"}]}
    assert tree_map_with_path(lambda p, x: p, {"a": 1}, path="q") == {"a": "q.a"}


def test_reduce():
    assert tree_reduce(lambda a, b: a + b, {"a": [1, 2], "b": 3}) == 6
    assert tree_reduce(lambda a, b: a + b, [], 5) == 5
    assert tree_reduce(lambda a, b: a + b, []) is None
    assert tree_reduce(lambda a, b: a + len(b), {"a": [1, 2]}, 0, lambda x: isinstance(x, list)) == 2


def test_merge():
    assert tree_merge({"a": 1}, {"b": [2]}) == {"a": 1, "b": [2]}
    assert tree_merge([1, {}], [{}, 2]) == [1, 2]
    assert tree_merge({"a": 1}, {"a": 2}, lambda a, b: a + b) == {"a": 3}
    with pytest.raises(ValueError):
        tree_merge({"a": 1}, {"a": 2})


def test_arrays_are_leaves():
    x = mx.arange(3)
    assert tree_flatten({"x": x})[0][1] is x
    doubled = tree_map(lambda a: a * 2, {"x": [x]})
    assert doubled["x"][0].tolist() == [0, 2, 4]


def test_exceptions_pass_through():
    def fail(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tree_map(fail, [1])
