"""Adam with a learning rate that can decay over a training."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import optax
from jax import Array

Parameters = TypeVar("Parameters")


def linear_decay(final: float, epoch: int, epochs: int) -> float:
    """A factor that decays linearly over the epochs, from 1 towards `final`."""
    return 1 - (1 - final) * epoch / epochs


def start(learning_rate: float, parameters: Any) -> optax.OptState:
    """Adam's state before the first step."""
    return optax.adam(learning_rate).init(eqx.filter(parameters, eqx.is_array))


def descend(
    learning_rate: float, parameters: Parameters, gradients: Any, state: optax.OptState, decay: Array | float = 1.0
) -> tuple[Parameters, optax.OptState]:
    """One step with `decay` times the learning rate."""
    steps, state = optax.adam(learning_rate).update(gradients, state)
    return optax.apply_updates(parameters, jax.tree.map(lambda step: decay * step, steps)), state
