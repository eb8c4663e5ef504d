"""What every trainer is: whole episodes, then gradient steps, an epoch at a time."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibol.bounds import Count, Counts, Fraction, Natural, Positive
from ibol.learners.adam import linear_decay
from ibol.learners.normalizer import Normalizer, epoch_weight
from ibol.learners.rollout import Agent
from ibol.runs.checkpoint import Arrays, check_like

REPLAYS = ("replay/", "recent/")
"""How the names of arrays begin that are kept in a `Replay` and grow with the epochs."""


@dataclass(frozen=True)
class TrainingConfig:
    """Settings that everything that is trained has; the preset gives the defaults."""

    epochs: Count = 300
    """Epochs of collecting and learning."""
    episodes_per_epoch: Count = 16
    """Episodes collected in each epoch, all at once in a batch."""
    hidden: Counts = (256, 256)
    """Units of each hidden layer."""
    layer_norm: bool = False
    """Layer normalisation in policies and critics."""
    learning_rate: Positive = 3e-4
    """Adam's learning rate for all networks."""
    final_learning_rate: Fraction = 1.0
    """Learning rate at the last epoch, as a fraction of the first one; it decays linearly."""
    evaluate_every: Natural = 10
    """Epochs between evaluations; 0 never evaluates."""


class Epoch(NamedTuple):
    """What an epoch did."""

    env_steps: int
    """Steps of the environment in this epoch."""
    metrics: dict[str, float]


class Trainer(ABC):
    """One training, an epoch at a time.

    The contract that exact resume stands on: everything random in epoch `e` follows from `derive(seed, stream, e)`, and
    all that one epoch leaves for the next is in `state`.
    """

    headline: tuple[str, ...] = ()
    """The metrics that tell whether it learns."""
    normalizer: Normalizer | None = None
    """Statistics of observations, saved with the rest."""

    def __init__(self, config: TrainingConfig, seed: int, epochs: int | None = None) -> None:
        self.config, self.seed = config, seed
        self.epochs = config.epochs if epochs is None else epochs
        self.env_steps = 0

    # What a method says.

    @abstractmethod
    def run_epoch(self, epoch: int) -> Epoch:
        """Collect whole episodes and learn from them; `epoch` counts from 0."""

    @abstractmethod
    def agent(self) -> Agent:
        """What has been learned so far, ready to act."""

    @abstractmethod
    def learned(self) -> Arrays:
        """All that learns, and what it will learn from, by name."""

    @abstractmethod
    def restore_learned(self, arrays: Arrays) -> None:
        """Undo `learned`."""

    def stage(self, epoch: int) -> str:
        """What an epoch does, for the progress, if a training has stages."""
        return ""

    def evaluate(self, epoch: int) -> dict[str, float]:
        """Measurements for the log, every `evaluate_every` epochs and at the end."""
        return {}

    def describe(self) -> dict[str, Any]:
        """What config.json needs on top of the settings, to rebuild what was learned without its training."""
        return {}

    def prepare(self, directory: Path) -> None:
        """Put into the run's directory what training does not change but the agent needs."""
        return

    def growth(self) -> int:
        """Bytes by which a checkpoint may still grow, such as those of a replay buffer that fills."""
        return 0

    # What the loop calls.

    def train_epoch(self, epoch: int) -> Epoch:
        """Run an epoch, and evaluate if it is time to."""
        done = self.run_epoch(epoch)
        self.env_steps += done.env_steps
        metrics = {"env_steps": self.env_steps, **done.metrics}
        every = self.config.evaluate_every
        if every and (epoch + 1 == self.epochs or (epoch + 1) % every == 0):
            metrics |= {f"evaluation/{name}": value for name, value in self.evaluate(epoch).items()}
        return Epoch(done.env_steps, metrics)

    def state(self) -> Arrays:
        """All that `restore` needs to continue exactly, by name."""
        statistics = {} if self.normalizer is None else self.normalizer.state()
        return {**self.learned(), **statistics, "env_steps": np.array(self.env_steps)}

    def restore(self, arrays: Arrays) -> None:
        """Continue from what `state` gave; refuses arrays that do not fit before it changes anything."""
        fixed = {name: value for name, value in self.state().items() if not name.startswith(REPLAYS)}
        check_like(fixed, arrays)
        self.go_back(arrays)

    def go_back(self, arrays: Arrays) -> None:
        """Undo an epoch that did not come to its end: `arrays` are what `state` gave last, before it."""
        self.restore_learned(arrays)
        if self.normalizer is not None:
            self.normalizer = Normalizer.from_state(arrays, len(self.normalizer.mean))
        self.env_steps = int(arrays["env_steps"])

    def checkpoint_bytes(self) -> int:
        """The size that a checkpoint may reach."""
        return sum(value.nbytes for value in self.state().values()) + self.growth()

    # What methods share.

    def decay(self, epoch: int) -> float:
        """What is left of the learning rate in an epoch, as a fraction."""
        return linear_decay(self.config.final_learning_rate, epoch, self.epochs)

    def follow_states(self, states: NDArray[np.floating], lengths: NDArray[np.int64]) -> None:
        """Mix the visited ones of an epoch's states (N, T + 1, n) into the normaliser's moving average."""
        assert self.normalizer is not None
        visited = states[np.arange(states.shape[1]) <= lengths[:, None]]
        self.normalizer.update(visited, epoch_weight(len(visited)))
