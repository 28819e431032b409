"""Learning-rate schedules: functions from the step count to a rate.

An optimizer calls them with its step counter, an array, so a compiled or replayed training step keeps
following the schedule.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import oxmlx.core as mx


def exponential_decay(init: float, decay_rate: float) -> Callable:
    """init * decay_rate^step."""

    def schedule(step):
        return init * decay_rate**step

    return schedule


def step_decay(init: float, decay_rate: float, step_size: int) -> Callable:
    """init * decay_rate^(step // step_size)."""

    def schedule(step):
        return init * (decay_rate ** (step // step_size))

    return schedule


def cosine_decay(init: float, decay_steps: int, end: float = 0.0) -> Callable:
    """From `init` along half a cosine to `end` at `decay_steps`, and `end` from there on.

    (Loshchilov and Hutter, 2016.)
    """

    def schedule(step):
        s = mx.minimum(step, decay_steps)
        decay = 0.5 * (1.0 + mx.cos((math.pi / decay_steps) * s))
        return end + decay * (init - end)

    return schedule


def join_schedules(schedules: list[Callable], boundaries: list[int]) -> Callable:
    """Schedule i from boundary i-1 on, each counting its steps from its own start.

    ValueError without schedules, or unless there is one boundary fewer than schedules.
    """
    if len(schedules) == 0:
        raise ValueError("Must provide at least 1 schedule to join.")
    if len(schedules) != len(boundaries) + 1:
        raise ValueError(f"Received {len(boundaries)} boundaries but expected {len(schedules) - 1}.")

    def schedule(step):
        output = schedules[0](step)
        for boundary, following in zip(boundaries, schedules[1:]):
            output = mx.where(step < boundary, output, following(step - boundary))
        return output

    return schedule


def linear_schedule(init: float, end: float, steps: int) -> Callable:
    """From `init` in a straight line to `end` at `steps`, then `end`; ValueError if steps < 1."""
    if steps < 1:
        raise ValueError(f"steps must be greater than 0, but got {steps}.")

    def schedule(step):
        return mx.minimum(step, steps) * ((end - init) / steps) + init

    return schedule
