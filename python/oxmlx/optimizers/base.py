"""What all optimizers share: the state tree, the step counter, scheduled settings and the update walk.

The state is one tree of arrays under the names that MLX uses, so `mx.compile` captures it, `mx.eval` takes
it and a file written by either library loads in the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oxmlx.core as mx
from oxmlx.nn import Module
from oxmlx.utils import tree_flatten, tree_map, tree_merge, tree_reduce, tree_unflatten


class Optimizer:
    """The base of all optimizers; a subclass defines `init_single` and `apply_single`."""

    def __init__(self, schedulers: dict[str, Callable] | None = None):
        self._initialized = False
        self._state: dict[str, Any] = {"step": mx.array(0, mx.uint64)}
        self._schedulers = dict(schedulers or {})

    def update(self, model: Module, gradients: dict) -> None:
        """Step `model` along `gradients`, a tree like its trainable parameters or a part of that."""
        model.update(self.apply_gradients(gradients, model))

    def init(self, parameters: dict) -> None:
        """Make the state for a tree of parameters; what exists already is kept.

        The first update does this by itself. Call it before compiling a training step or loading a state.
        """
        _init_states(self, parameters, self._state)
        self._initialized = True

    def init_single(self, parameter: mx.array, state: dict) -> None:
        """Put the initial state of one parameter into `state`."""
        raise NotImplementedError()

    def apply_gradients(self, gradients: dict, parameters: dict) -> dict:
        """The stepped parameters, as a tree like `gradients`; the state advances by one step."""
        if not self._initialized:
            self.init(gradients)
        state = self._state
        step = state["step"]
        for name, schedule in self._schedulers.items():
            state[name] = schedule(step)
        state["step"] = step + 1
        return tree_map(self.apply_single, gradients, parameters, state)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        """The stepped parameter; the new state of the parameter goes into `state`."""
        raise NotImplementedError()

    @property
    def state(self) -> dict:
        """The state tree; assign one to continue from it."""
        return self._state

    @state.setter
    def state(self, state: dict) -> None:
        # A state that was loaded may lack parameters: they are made at the next update.
        self._initialized = False
        self._state = state

    @property
    def step(self) -> mx.array:
        """How many steps were taken, as a uint64 array."""
        return self._state["step"]

    @property
    def learning_rate(self) -> mx.array:
        """The learning rate of the last step, or the one set."""
        return self._state["learning_rate"]

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | mx.array) -> None:
        self._state["learning_rate"] = mx.array(learning_rate)

    def _maybe_schedule(self, name: str, param: float | Callable[[mx.array], mx.array]) -> None:
        """Make the setting `name` a value of the state, or a schedule of it where `param` is callable."""
        if callable(param):
            self._schedulers[name] = param
            self._state[name] = param(self.step)
        else:
            self._state[name] = mx.array(param)


def _init_states(optimizer: Optimizer, parameters: Any, state: Any) -> None:
    """Walk a tree of parameters beside the state and fill in what the state lacks."""
    pairs = parameters.items() if isinstance(parameters, dict) else enumerate(parameters)
    for key, value in pairs:
        if isinstance(state, dict):
            here = state.get(key)
        else:
            here = state[key] if key < len(state) else None
        if here is None:
            here = [] if isinstance(value, (list, tuple)) else {}
        if isinstance(value, (dict, list, tuple)):
            _init_states(optimizer, value, here)
        elif isinstance(value, mx.array) and not here:
            optimizer.init_single(value, here)
        if isinstance(state, dict) or key < len(state):
            state[key] = here
        else:
            state.append(here)


class MultiOptimizer(Optimizer):
    """Several optimizers, each for the parameters that its filter takes.

    `filters[i](path, gradient)` says whether optimizer i takes a parameter; the first that does gets it, and
    the last optimizer, which has no filter, gets the rest. ValueError unless there is one filter fewer.
    """

    def __init__(self, optimizers, filters: list | None = None):
        super().__init__({})
        self._state = {}
        filters = list(filters or [])
        if len(filters) != len(optimizers) - 1:
            raise ValueError(f"Given {len(filters)} filters but {len(optimizers) - 1} needed.")
        self.optimizers = optimizers
        self.filters = [*filters, lambda *args, **kwargs: True]

    def _split(self, tree: dict) -> list[dict]:
        if len(self.optimizers) == 1:
            return [tree]
        parts: list[list] = [[] for _ in self.optimizers]
        for path, leaf in tree_flatten(tree):
            for part, accepts in zip(parts, self.filters):
                if accepts(path, leaf):
                    part.append((path, leaf))
                    break
        return [tree_unflatten(part) if part else {} for part in parts]

    def init(self, parameters: dict) -> None:
        """Make the state of every optimizer for its part of the parameters."""
        for optimizer, part in zip(self.optimizers, self._split(parameters)):
            optimizer.init(part)
        self._initialized = True

    def apply_gradients(self, gradients: dict, parameters: dict) -> dict:
        """Step each part with its optimizer and merge the results into one tree."""
        tree: dict = {}
        for optimizer, part in zip(self.optimizers, self._split(gradients)):
            if part:
                tree = tree_merge(tree, optimizer.apply_gradients(part, parameters))
        return tree

    @property
    def state(self) -> dict:
        """The states of all optimizers, under the name "states"."""
        return {"states": [optimizer.state for optimizer in self.optimizers]}

    @state.setter
    def state(self, state: dict) -> None:
        states = state.get("states")
        if states is None or len(states) != len(self.optimizers):
            raise ValueError("Invalid state provided")
        for optimizer, part in zip(self.optimizers, states):
            optimizer.state = part

    @property
    def learning_rate(self) -> mx.array:
        """The learning rate of the first optimizer; setting it sets it for all."""
        return self.optimizers[0].learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | mx.array) -> None:
        for optimizer in self.optimizers:
            optimizer.learning_rate = learning_rate


def clip_grad_norm(grads, max_norm):
    """Scale a tree of gradients so that its global norm is at most `max_norm`: (gradients, norm before).

    (Pascanu et al., 2013.)
    """
    squared = tree_reduce(lambda total, g: total + g.square().sum(), grads, 0.0)
    norm = mx.sqrt(squared)
    factor = mx.minimum(max_norm / (norm + 1e-6), 1.0)
    return tree_map(lambda g: g * factor, grads), norm
