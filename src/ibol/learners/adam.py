"""Adam with a learning rate that can fall over a training."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import optax
from jax import Array

Parameters = TypeVar("Parameters")


def falling(final: float, epoch: int, epochs: int) -> float:
    """What is left of the learning rate at `epoch`: it falls along a straight line from 1 to `final`."""
    return 1 - (1 - final) * epoch / epochs


def start(learning_rate: float, parameters: Any) -> optax.OptState:
    """Adam's state before the first step."""
    return optax.adam(learning_rate).init(eqx.filter(parameters, eqx.is_array))


def descend(
    learning_rate: float, parameters: Parameters, gradients: Any, state: optax.OptState, rate: Array | float = 1.0
) -> tuple[Parameters, optax.OptState]:
    """One step with `rate` times the learning rate."""
    steps, state = optax.adam(learning_rate).update(gradients, state)
    return optax.apply_updates(parameters, jax.tree.map(lambda step: rate * step, steps)), state
