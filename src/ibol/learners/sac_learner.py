"""SAC in epochs: a replay buffer (or the epoch's own transitions), minibatches, and the state that is saved.

Shared by everything that learns with SAC; what differs between them is how a minibatch is composed.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ibol import memory
from ibol.bounds import Count, Fraction, Natural, Positive, PositiveFraction
from ibol.errors import IbolError
from ibol.learners import sac
from ibol.learners.replay import Columns, Replay
from ibol.learners.rollout import Trajectories
from ibol.nn.networks import BetaPolicy, TanhGaussianPolicy
from ibol.runs import checkpoint
from ibol.runs.checkpoint import Arrays
from ibol.seeding import derive, generator

Compose = Callable[[Columns, np.random.Generator], sac.Transitions]


@dataclass(frozen=True)
class SACFields:
    """Settings of SAC; a part of the settings of every method that uses it."""

    gradient_steps: Count = 200
    """Gradient steps in each epoch."""
    batch_size: Natural = 256
    """Transitions in a gradient step; 0 takes all of the epoch's (only without a replay buffer)."""
    replay_size: Natural = 1_000_000
    """Transitions kept for learning; 0 learns only from the current epoch's."""
    discount: Fraction = 0.99
    """Discount factor gamma."""
    tau: PositiveFraction = 0.005
    """Fraction by which the target networks move at each of their updates."""
    target_every_step: bool = True
    """Move the target networks after every gradient step instead of once in an epoch."""
    temperature: Positive = 0.1
    """Entropy weight alpha at the start."""
    learn_temperature: bool = True
    """Adapt the temperature to the target entropy."""
    target_entropy: float = -0.5
    """Target entropy for each action dimension, in nats."""
    bootstrap_at_time_limit: bool = True
    """Add the value of the state at which the time limit ended the episode; the authors' code does not."""


class SACLearner:
    """Networks, replay buffer and the gradient steps of an epoch.

    Without a replay buffer a gradient step takes the whole epoch, or with `epoch_minibatches` a part of it.
    """

    def __init__(
        self,
        config: SACFields,
        *,
        hidden: tuple[int, ...],
        layer_norm: bool,
        learning_rate: float,
        inputs: int,
        actions: int,
        features: int,
        columns: Mapping[str, tuple[int, ...]],
        transitions_per_epoch: int,
        seed: int,
        policy_type: type[TanhGaussianPolicy] | type[BetaPolicy] = TanhGaussianPolicy,
        epoch_minibatches: bool = False,
        entropy_in_targets: bool = True,
    ) -> None:
        if config.replay_size and not config.batch_size:
            raise IbolError("batch_size is 0 (the whole epoch), which goes with --replay-size 0 only")
        if config.batch_size and not config.replay_size and not epoch_minibatches:
            raise IbolError("replay_size is 0 (the epoch alone), which goes with --batch-size 0 only")
        row = 4 * sum(math.prod(shape) for shape in columns.values())
        memory.check(
            transitions_per_epoch * row,
            f"an epoch of {transitions_per_epoch} transitions",
            "choose a smaller --episodes-per-epoch, --horizon or --latent-dim",
        )
        sampled = config.gradient_steps * (config.batch_size or transitions_per_epoch)
        memory.check(2 * sampled * row, f"{sampled} samples", "choose a smaller --batch-size or --gradient-steps")
        self.config, self.seed = config, seed
        self.transitions_per_epoch = transitions_per_epoch
        self.settings = sac.SACSettings(
            learning_rate=learning_rate,
            discount=config.discount,
            tau=config.tau,
            target_entropy=config.target_entropy * actions,
            learn_temperature=config.learn_temperature,
            target_every_step=config.target_every_step,
            entropy_in_targets=entropy_in_targets,
        )
        self.networks = sac.create(
            inputs,
            actions,
            hidden,
            features=features,
            temperature=config.temperature,
            settings=self.settings,
            key=jax.random.key(derive(seed, "networks")),
            layer_norm=layer_norm,
            policy_type=policy_type,
        )
        self.current: Columns = {}
        self.replay = Replay(config.replay_size, columns) if config.replay_size else None

    @property
    def policy(self) -> sac.Policy:
        """The policy as it is now."""
        return self.networks.policy

    def learn(self, transitions: Columns, epoch: int, decay: float, compose: Compose) -> dict[str, float]:
        """Take the gradient steps of an epoch; `compose` turns sampled columns (steps, batch, ...) into minibatches."""
        self.store(transitions)
        rng = generator(self.seed, "minibatches", epoch)
        return self.update(compose(self.sample(rng, self.config.gradient_steps), rng), epoch, decay)

    def store(self, transitions: Columns) -> None:
        """Take an epoch's transitions: into the replay buffer, or in place of those of the epoch before."""
        if self.replay is None:
            self.current = transitions
        else:
            self.replay.add(transitions)

    def sample(self, rng: np.random.Generator, steps: int) -> Columns:
        """Columns (steps, batch, ...) of transitions at random."""
        batch_size = self.config.batch_size
        if self.replay is not None:
            return self.replay.sample(rng, (steps, batch_size))
        count = len(next(iter(self.current.values())))
        if batch_size:
            rows = rng.integers(count, size=(steps, batch_size))
        else:
            # Episodes that ended early are made up for by repeated transitions: compiled code wants one size.
            missing = rng.integers(count, size=self.transitions_per_epoch - count)
            whole = np.concatenate([np.arange(count), missing])
            rows = np.broadcast_to(whole, (steps, len(whole)))
        return {name: values[rows] for name, values in self.current.items()}

    def update(self, batches: sac.Transitions, epoch: int, decay: float) -> dict[str, float]:
        """A gradient step on each of the minibatches, with `decay` times the learning rate."""
        key = sac.draw_noise(self.policy, batches, derive(self.seed, "updates", epoch))
        self.networks, info = sac.update_many(self.networks, batches, key, self.settings, decay)
        return {name: float(value) for name, value in info.items()}

    def state(self) -> Arrays:
        """Networks, optimisers and replay buffer by name."""
        replay = {} if self.replay is None else self.replay.state()
        return {
            **checkpoint.flatten(self.networks, "learner/"),
            **{f"replay/{name}": value for name, value in replay.items()},
        }

    def restore(self, arrays: Arrays) -> None:
        """Continue from what `state` gave."""
        self.networks = checkpoint.unflatten(self.networks, arrays, "learner/")
        if self.replay is not None:
            saved = {name.removeprefix("replay/"): v for name, v in arrays.items() if name.startswith("replay/")}
            self.replay.restore(saved)

    def growth(self) -> int:
        """Bytes by which its checkpoint grows until the replay buffer is full."""
        return 0 if self.replay is None else self.replay.num_bytes()


def transitions(trajectories: Trajectories, inputs: NDArray[np.float32], *, time_limits: bool) -> Columns:
    """The steps that were taken, one row each, for a reward of one number.

    `inputs` (N, T + 1, k) is what the networks see of the states; with `time_limits` no value is added where the time
    was over.
    """
    mask = trajectories.mask
    return {
        "inputs": inputs[:, :-1][mask],
        "actions": trajectories.actions[mask],
        "rewards": trajectories.rewards[mask],
        "next_inputs": inputs[:, 1:][mask],
        "dones": trajectories.ends(time_limits=time_limits)[mask].astype(np.float32),
    }


def transition_widths(inputs: int, actions: int) -> dict[str, tuple[int, ...]]:
    """The columns of `transitions`, for a replay buffer."""
    return {"inputs": (inputs,), "actions": (actions,), "rewards": (), "next_inputs": (inputs,), "dones": ()}


def plain_batch(columns: Columns, rng: np.random.Generator) -> sac.Transitions:
    """Minibatches of `transitions`, as plain SAC sees them."""
    rewards = jnp.asarray(columns["rewards"])[..., None]
    rest = {name: jnp.asarray(columns[name]) for name in ("inputs", "actions", "next_inputs", "dones")}
    return sac.Transitions(rewards=rewards, weights=jnp.ones_like(rewards), next_maps=None, **rest)
