"""`Module`, the base of every layer: a dict of parameters and children with attribute access.

It exists so that a model is a plain tree: `mx.compile`, `mx.eval`, `tree_map` and the file formats need no
knowledge of layers. A training step calls `parameters`, `trainable_parameters` and `update` on every module
of the model, so these are written as direct loops and not as special cases of `filter_and_map`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oxmlx.core as mx
from oxmlx.utils import tree_flatten, tree_unflatten

_array = mx.array
_containers = (dict, list)


class Module(dict):
    """The base class of all layers and models.

    Attributes that are arrays, modules, or dicts, lists and tuples are items of the dict and so part of the
    tree; everything else is an ordinary Python attribute. Names that begin with an underscore are never
    parameters. A subclass defines `__init__`, which must call `super().__init__()`, and `__call__`.
    """

    __call__: Callable

    def __init__(self):
        self._no_grad: set[str] = set()
        self._training: bool = True

    def __getattr__(self, key: str):
        # Called only after the ordinary lookup has failed.
        value = self.get(key)
        if value is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {key!r}")
        return value

    def __setattr__(self, key: str, val: Any):
        if isinstance(val, (_array, dict, list, tuple)):
            # An ordinary attribute of the same name would hide the item.
            self.__dict__.pop(key, None)
            self[key] = val
        else:
            super().__setattr__(key, val)
            self.pop(key, None)

    def __delattr__(self, name: str):
        if name in self:
            del self[name]
        else:
            super().__delattr__(name)

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        return self._training

    @property
    def state(self) -> Module:
        """The module itself: the tree of everything that `mx.compile` must capture."""
        return self

    def _extra_repr(self) -> str:
        return ""

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__}({self._extra_repr()}"]
        for name, child in tree_flatten(self.children(), is_leaf=self.is_module):
            if isinstance(child, Module):
                lines.append(f"  ({name}): " + repr(child).replace("\n", "\n  "))
        return lines[0] + ")" if len(lines) == 1 else "\n".join(lines) + "\n)"

    def load_weights(self, file_or_weights: str | list[tuple[str, mx.array]], strict: bool = True) -> Module:
        """Set the parameters from a `.npz` or `.safetensors` file or a list of `(name, array)` pairs.

        With `strict`, the names must be exactly those of the model and the shapes must agree: otherwise
        ValueError. Without it, what is missing keeps its value and what is unknown is ignored.
        """
        weights = file_or_weights
        if isinstance(weights, str):
            weights = list(mx.load(weights).items())
        if strict:
            self._check_weights(dict(weights))
        if weights:
            self.update(tree_unflatten(weights), strict=False)
        return self

    def _check_weights(self, new: dict[str, Any]) -> None:
        current = tree_flatten(self.parameters(), destination={})
        if extra := sorted(new.keys() - current.keys()):
            raise ValueError(f"Received {len(extra)} parameters not in model: \n" + ",\n".join(extra) + ".")
        if missing := sorted(current.keys() - new.keys()):
            raise ValueError(f"Missing {len(missing)} parameters: \n" + ",\n".join(missing) + ".")
        for name, old in current.items():
            value = new[name]
            if not isinstance(value, _array):
                raise ValueError(f"Expected mx.array but received {type(value)} for parameter {name}")
            if value.shape != old.shape:
                raise ValueError(
                    f"Expected shape {old.shape} but received shape {value.shape} for parameter {name}"
                )

    def save_weights(self, file: str) -> None:
        """Write the parameters to `file`, whose suffix, `.npz` or `.safetensors`, chooses the format.

        Any other suffix is a ValueError.
        """
        weights = tree_flatten(self.parameters(), destination={})
        if file.endswith(".npz"):
            mx.savez(file, **weights)
        elif file.endswith(".safetensors"):
            mx.save_safetensors(file, weights)
        else:
            raise ValueError(f"Unsupported file extension for {file}. Use '.npz' or '.safetensors'.")

    @staticmethod
    def is_module(value) -> bool:
        """Whether `value` is a module."""
        return isinstance(value, Module)

    @staticmethod
    def valid_child_filter(module, key, value) -> bool:
        """Whether `value` is something that may hold modules."""
        return isinstance(value, _containers)

    @staticmethod
    def valid_parameter_filter(module, key, value) -> bool:
        """Whether `value` is a parameter or may hold parameters."""
        return isinstance(value, (dict, list, _array)) and not key.startswith("_")

    @staticmethod
    def trainable_parameter_filter(module, key, value) -> bool:
        """Whether `value` is a parameter that is not frozen, or may hold such parameters."""
        return Module.valid_parameter_filter(module, key, value) and key not in module._no_grad

    def filter_and_map(
        self,
        filter_fn: Callable[[Module, str, Any], bool],
        map_fn: Callable | None = None,
        is_leaf_fn: Callable[[Module, str, Any], bool] | None = None,
    ) -> dict:
        """The tree of the items that `filter_fn(module, key, value)` accepts, each leaf through `map_fn`.

        Keys inside dicts and lists of a module are joined with dots. By default a leaf is whatever is
        neither a module nor a dict nor a list. Raises RuntimeError when such a value is accepted by the
        filter but refused by `is_leaf_fn`.
        """
        return {
            key: _walk(self, key, value, filter_fn, map_fn, is_leaf_fn)
            for key, value in self.items()
            if filter_fn(self, key, value)
        }

    def parameters(self) -> dict:
        """All parameters of the module and its children, as a tree of arrays."""
        return _collect(self, False)

    def trainable_parameters(self) -> dict:
        """The parameters that are not frozen, as a tree of arrays."""
        return _collect(self, True)

    def children(self) -> dict:
        """The direct children of the module, as a tree of modules."""
        return self.filter_and_map(self.valid_child_filter, is_leaf_fn=_is_child)

    def leaf_modules(self) -> dict:
        """The modules without children of their own, as a tree of modules."""
        return self.filter_and_map(self.valid_child_filter, is_leaf_fn=_is_leaf_module)

    def modules(self) -> list[Module]:
        """This module and all modules below it."""
        return [module for _, module in self.named_modules()]

    def named_modules(self) -> list[tuple[str, Module]]:
        """Like `modules`, with the path of each one; the path of the module itself is empty."""
        found = []
        stack: list[tuple[str, Module]] = [("", self)]
        while stack:
            name, module = stack.pop()
            found.append((name, module))
            # A prefix of the flattening starts with the separator.
            prefix = f".{name}" if name else ""
            stack += [
                pair
                for pair in tree_flatten(module.children(), prefix=prefix, is_leaf=self.is_module)
                if isinstance(pair[1], Module)
            ]
        return found

    def update(self, parameters: dict, strict: bool = True) -> Module:  # type: ignore[override]
        """Replace parameters by those of a tree, which may be a part of the module's tree.

        With `strict`, a name that the module does not have or a value of the wrong kind is a ValueError;
        without it, such values are ignored.
        """
        _update(self, parameters, strict)
        return self

    def apply(
        self,
        map_fn: Callable[[mx.array], mx.array],
        filter_fn: Callable[[Module, str, Any], bool] | None = None,
    ) -> Module:
        """Replace every parameter `p` (that `filter_fn` accepts) by `map_fn(p)`."""
        _update(self, self.filter_and_map(filter_fn or self.valid_parameter_filter, map_fn), True)
        return self

    def update_modules(self, modules: dict, strict: bool = True) -> Module:
        """Replace child modules by those of a tree; see `update` for `strict`."""
        _update_modules(self, modules, strict)
        return self

    def apply_to_modules(self, apply_fn: Callable[[str, Module], Any]) -> Module:
        """Call `apply_fn(path, module)` for this module and all modules below it."""
        for named in self.named_modules():
            apply_fn(*named)
        return self

    def _change_frozen(self, change: Callable, keys, recurse: bool, strict: bool) -> Module:
        if isinstance(keys, str):
            keys = [keys]
        for module in self.modules() if recurse else [self]:
            if keys is None:
                local = [
                    key
                    for key, _ in tree_flatten(
                        module.filter_and_map(
                            lambda m, k, v: not isinstance(v, Module) and m.valid_parameter_filter(m, k, v)
                        )
                    )
                ]
            else:
                for key in keys if strict else ():
                    if key not in module:
                        raise KeyError(f"Module doesn't contain member {key}.")
                local = [key for key in keys if key in module]
            change(module._no_grad, local)
        return self

    def freeze(
        self, *, recurse: bool = True, keys: str | list[str] | None = None, strict: bool = False
    ) -> Module:
        """Exclude parameters (all, or those named `keys`) from `trainable_parameters`.

        With `recurse` this covers the modules below too. With `strict`, a module that lacks one of the
        `keys` is a KeyError.
        """
        return self._change_frozen(set.update, keys, recurse, strict)

    def unfreeze(
        self, *, recurse: bool = True, keys: str | list[str] | None = None, strict: bool = False
    ) -> Module:
        """Undo `freeze`, for all parameters or for those named `keys`; the arguments are the same."""
        # Each module is asked, because some keep parameters frozen whatever their parent does.
        for module in self.modules()[1:] if recurse else ():
            module.unfreeze(recurse=False, keys=keys, strict=strict)
        if keys is None:
            self._no_grad.clear()
            return self
        return self._change_frozen(set.difference_update, keys, False, strict)

    def train(self, mode: bool = True) -> Module:
        """Set training mode (or, with False, evaluation mode) for this module and all below it."""
        mode = bool(mode)
        for module in self.modules():
            module._training = mode
        return self

    def eval(self) -> Module:
        """Set evaluation mode: `train(False)`."""
        return self.train(False)

    def set_dtype(
        self,
        dtype: mx.Dtype,
        predicate: Callable[[mx.Dtype], bool] | None = lambda x: mx.issubdtype(x, mx.floating),
    ) -> None:
        """Cast every parameter whose dtype satisfies `predicate` (all, where it is None) to `dtype`."""
        self.apply(lambda x: x.astype(dtype) if predicate is None or predicate(x.dtype) else x)


def _is_child(module, key, value) -> bool:
    return isinstance(value, Module) or not isinstance(value, _containers)


def _is_leaf_module(module, key, value) -> bool:
    return isinstance(value, Module) and not tree_flatten(value.children())


def _walk(module, key, value, filter_fn, map_fn, is_leaf_fn):
    """One value of `filter_and_map`; what the filter refuses inside a dict or list leaves an empty dict."""
    if is_leaf_fn is None:
        leaf = not isinstance(value, _containers)
    else:
        leaf = is_leaf_fn(module, key, value)
    if leaf:
        return value if map_fn is None else map_fn(value)
    if isinstance(value, Module):
        return value.filter_and_map(filter_fn, map_fn, is_leaf_fn)

    def inner(k, v):
        path = f"{key}.{k}"
        return _walk(module, path, v, filter_fn, map_fn, is_leaf_fn) if filter_fn(module, path, v) else {}

    if isinstance(value, dict):
        return {k: inner(k, v) for k, v in value.items()}
    if isinstance(value, list):
        return [inner(i, v) for i, v in enumerate(value)]
    raise RuntimeError("Unexpected leaf found while traversing the module")


def _collect(module: Module, trainable: bool) -> dict:
    out = {}
    frozen = module._no_grad if trainable else ()
    for key, value in module.items():
        if key[0] == "_" or key in frozen:
            continue
        # Exact types are the common case and the cheapest question.
        kind = type(value)
        if kind is _array:
            out[key] = value
        elif issubclass(kind, Module):
            out[key] = _collect(value, trainable)
        elif issubclass(kind, (_array, dict, list)):
            out[key] = _collect_inside(value, trainable, frozen, key)
    return out


def _collect_inside(value, trainable: bool, frozen, path: str):
    """The parameters in a dict or list that is an item of a module; `frozen` holds paths like "layers.0"."""
    if isinstance(value, Module):
        return _collect(value, trainable)
    if isinstance(value, _array):
        return value
    if not isinstance(value, _containers):
        return {}
    keys = list(value) if isinstance(value, dict) else range(len(value))
    found = []
    for k in keys:
        at = f"{path}.{k}" if frozen else path
        found.append({} if at in frozen else _collect_inside(value[k], trainable, frozen, at))
    return dict(zip(keys, found)) if isinstance(value, dict) else found


def _wrong(value):
    raise ValueError(f"Received invalid type: {type(value).__name__}.")


def _pairs(source, strict: bool):
    if isinstance(source, dict):
        return source.items()
    if isinstance(source, list):
        return enumerate(source)
    if strict:
        _wrong(source)
    return ()


def _update(target, source, strict: bool) -> None:
    """Write the arrays of the tree `source` into the tree `target`."""
    for key, new in _pairs(source, strict):
        try:
            old = target[key]
        except (KeyError, IndexError, TypeError):
            if strict and isinstance(source, list):
                _wrong(new)
            if strict:
                raise ValueError(f'Module does not have parameter named "{key}".') from None
            continue
        if isinstance(old, _array):
            if strict and not isinstance(new, _array):
                _wrong(new)
            target[key] = new
        else:
            _update(old, new, strict)


def _update_modules(target, source, strict: bool) -> None:
    """Write the modules of the tree `source` into the tree `target`."""
    for key, new in _pairs(source, strict):
        try:
            old = target[key]
        except (KeyError, IndexError, TypeError):
            if strict:
                raise ValueError(f'Module does not have sub-module named "{key}".') from None
            continue
        if isinstance(old, Module) and isinstance(new, Module):
            target[key] = new
        elif isinstance(old, _containers):
            _update_modules(old, new, strict)
        elif strict and new != {}:
            _wrong(new)
