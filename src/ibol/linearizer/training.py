"""Training of the linearizer (paper, Algorithm 1): SAC on the macro-step reward, one goal for each episode.

The reward of a step is linear in the goal and known for any goal in hindsight, which the `fast` preset uses twice: the
stored transitions are relabelled with fresh goals, and the critic predicts the vector of discounted state differences,
psi(s, g, a), so that Q = <psi, g> (+ the entropy's and the alive bonus's own entry).
"""

import dataclasses
import math
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ibol import memory
from ibol.envs import ROBOTS, Env, RobotEnv, sizes
from ibol.envs.robots import has_fallen
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.learners import adam, sac
from ibol.learners.adam import linear_decay
from ibol.learners.noise import colored_noise
from ibol.learners.normalizer import Normalizer, find_normalizer
from ibol.learners.replay import Columns
from ibol.learners.rollout import Trajectories, collect
from ibol.learners.sac_learner import SACLearner
from ibol.linearizer.augmentation import symmetry_augmentation
from ibol.linearizer.evaluation import check_directions, evaluate_linearizer
from ibol.linearizer.frame import Frame, seen_transitions
from ibol.linearizer.policy import POLICY_PREFIX, Linearizer, LinearizerDescription, find_frame, load_linearizer
from ibol.linearizer.reward import (
    chunk_differences,
    discounted_sums,
    euclidean_reward,
    inner_product_features,
    sample_goals,
)
from ibol.linearizer.rhythm import BLUR, DISTURBANCE, Rhythms, imitate
from ibol.linearizer.settings import LinearizerConfig, check, possible, timed
from ibol.runs import checkpoint
from ibol.runs.checkpoint import Arrays
from ibol.seeding import derive, generator
from ibol.training.method import Method
from ibol.training.trainer import Epoch, Trainer

ONE_STEP = "one_step_"  # begins the names of the columns for one step, beside those for several
_REWARD_RATE = 0.01


class LinearizerTrainer(Trainer):
    """Collects episodes with one goal each, and learns."""

    headline = ("reward", "evaluation/reach", "evaluation/direction_error")
    config: LinearizerConfig
    normalizer: Normalizer

    def __init__(self, env: str, env_settings: EnvSettings, config: LinearizerConfig, seed: int) -> None:
        robot = env_settings.robot(env)
        if config.where_possible:
            config = possible(config, robot, env_settings.make(env, 1))
        if config.by_seconds:
            config = timed(config, env_settings.make(env, 1).dt)
        super().__init__(config, seed)
        check(env, config, robot)
        options = {"end_when_fallen": True} if config.end_when_fallen else {}
        self.env = env_settings.make(env, config.episodes_per_epoch, **options)
        for name, steps in (("macro_length", config.macro_length), ("n_step", config.n_step)):
            if steps > self.env.horizon:
                raise IbolError(
                    f"{name} is {steps}, but an episode has {self.env.horizon} steps: choose a smaller "
                    f"--{name.replace('_', '-')} or a longer --horizon"
                )
        if config.evaluate_every:
            check_directions(env, self.env.location_dims)
        state_dim, action_dim = sizes(self.env)
        self.description = LinearizerDescription(
            env=env,
            state_dim=state_dim,
            action_dim=action_dim,
            goal_dim=_goal_dim(env, self.env, state_dim, config),
            location_dims=self.env.location_dims,
            macro_length=config.macro_length,
            hidden=tuple(config.hidden),
            layer_norm=config.layer_norm,
            frame=config.frame,
            env_settings=env_settings,
        )
        self.normalizer = find_normalizer(env, env_settings, config.normalizer_trajectories, seed)
        goal_dim, vector = self.description.goal_dim, config.critic == "vector"
        widths = {"states": state_dim, "next_states": state_dim, "goals": goal_dim, "actions": action_dim}
        columns: dict[str, tuple[int, ...]] = {name: (width,) for name, width in widths.items()}
        columns |= {"features": (goal_dim,), "bonus": (), "effort": (), "dones": ()}
        self.one_step_relabels = config.one_step_relabels and config.n_step > 1 and config.relabel > 0
        if self.one_step_relabels:
            returns = ("next_states", "features", "bonus", "effort", "dones")
            columns |= {f"{ONE_STEP}{name}": columns[name] for name in returns}
        imitated = config.imitation_steps * config.batch_size
        memory.check(8 * imitated * (state_dim + goal_dim), f"{imitated} samples", "choose fewer --imitation-steps")
        self.learner = SACLearner(
            config,
            hidden=config.hidden,
            layer_norm=config.layer_norm,
            learning_rate=config.learning_rate,
            inputs=state_dim + goal_dim,
            actions=action_dim,
            features=goal_dim + 1 if vector else 1,
            columns=columns,
            transitions_per_epoch=config.episodes_per_epoch * self.env.horizon,
            seed=seed,
        )
        self.augmentation = symmetry_augmentation(env, self.env, self.normalizer) if config.symmetric else None
        self.rhythms = None
        if self.augmentation is not None and config.rhythms:
            self.rhythms = Rhythms(self.augmentation.symmetries, len(self.env.location_dims))
        self.imitation = adam.start(config.learning_rate, self.learner.policy)
        self.frame = find_frame(self.description, self.normalizer)
        self.best_policy, self.best_reach = self.learner.policy, np.zeros(())
        self.reward_moments = np.zeros(2)  # mean and variance; a variance of 0 means none yet

    def agent(self) -> Linearizer:
        """The linearizer as it is now."""
        return Linearizer(self.description, self.learner.policy, self.normalizer)

    def _kept_policy(self) -> sac.Policy:
        """What the run is asked for: the last policy, or that of the best evaluation if there was a good one."""
        return self.best_policy if self.config.keep_best and self.best_reach > 0 else self.learner.policy

    def run_epoch(self, epoch: int) -> Epoch:
        """Collect one episode for each of a batch of goals, then learn."""
        goals = self._goals(generator(self.seed, "goals", epoch), self.env.num_envs)
        trajectories = self._explore(goals, epoch)
        transitions, reward = self._transitions(trajectories, goals)
        cost = self.config.action_cost * epoch / self.epochs
        info = self.learner.learn(transitions, epoch, self.decay(epoch), partial(self._compose, action_cost=cost))
        info |= self._imitate(epoch)
        metrics = {"reward": reward, "episode_length": float(trajectories.lengths.mean()), **info}
        return Epoch(trajectories.num_steps, metrics)

    def evaluate(self, epoch: int) -> dict[str, float]:
        """How far goals along the location carry; the policy that reaches farthest is remembered."""
        scores = evaluate_linearizer(self.agent(), seed=derive(self.seed, "evaluation", epoch)).scalars()
        if scores["reach"] > self.best_reach:
            self.best_policy, self.best_reach = self.learner.policy, np.array(scores["reach"])
        return scores

    def _goals(self, rng: np.random.Generator, count: int) -> NDArray[np.float32]:
        return sample_goals(
            rng,
            count,
            self.description.goal_dim,
            beta=self.config.goal_beta,
            sparse_fraction=self.config.sparse_goals,
            location_fraction=self.config.location_goals,
            location_dims=self.env.location_dims,
        )

    def _explore(self, goals: NDArray[np.float32], epoch: int) -> Trajectories:
        """Episodes of the policy, and in the first of them of rhythms."""
        randomness = jax.random.key(derive(self.seed, "exploration", epoch))
        if self.config.noise_color:
            shape = (self.env.horizon, len(goals), self.description.action_dim)
            rng = generator(self.seed, "exploration", epoch)
            randomness = jnp.asarray(colored_noise(rng, shape, self.config.noise_color))
        rhythms, dims = self.rhythms, list(self.env.location_dims)
        count = round(self.config.rhythms * linear_decay(0.0, epoch, self.epochs) * len(goals))
        noise = generator(self.seed, "rhythms", epoch)
        gaits = rhythms.draw(noise, goals[:count, dims]) if rhythms else None

        def act(states: NDArray[np.float32], step: int) -> Any:
            actions = _sample(self.learner.policy, self.frame, states, goals, randomness, step)
            if rhythms is None or gaits is None:
                return actions
            noisy = rhythms.actions(gaits, step) + DISTURBANCE * noise.standard_normal((count, actions.shape[1]))
            return np.concatenate([noisy.clip(-1, 1), actions[count:]])

        trajectories = collect(self.env, act, seed=derive(self.seed, "episodes", epoch))
        if rhythms is not None and gaits is not None:
            rhythms.learn(gaits, trajectories, dims)
        return trajectories

    def _imitate(self, epoch: int) -> dict[str, float]:
        """Gradient steps of the policy towards what the best rhythms did, for goals along their paths."""
        rhythms, config = self.rhythms, self.config
        if rhythms is None or not config.imitation_steps or not len(rhythms.moving_steps()):
            return {}
        assert self.augmentation is not None
        rng = generator(self.seed, "imitation", epoch)
        shape = (config.imitation_steps, config.batch_size)
        states, actions, directions = rhythms.examples(rng, math.prod(shape))
        goals = np.zeros((len(directions), self.description.goal_dim), np.float32)
        goals[:, list(self.env.location_dims)] = directions * rng.uniform(0.3, 1, (len(directions), 1))
        normalized = self.normalizer(states)
        normalized = normalized + BLUR * rng.standard_normal(normalized.shape, np.float32)
        columns: Columns = {"states": normalized, "next_states": normalized, "actions": actions, "features": goals}
        columns = self.augmentation(columns, rng.integers(len(self.augmentation), size=len(directions)))
        seen = seen_transitions(self.frame, columns, columns["features"])
        inputs, aims = (values.reshape(*shape, -1) for values in (seen.inputs, seen.actions))
        rate = linear_decay(0.0, epoch, self.epochs)
        policy, self.imitation, loss = imitate(
            self.learner.policy, self.imitation, inputs, aims, config.learning_rate, rate
        )
        self.learner.networks = eqx.tree_at(lambda networks: networks.policy, self.learner.networks, policy)
        return {"imitation": float(loss)}

    def _transitions(self, trajectories: Trajectories, goals: NDArray[np.float32]) -> tuple[Columns, float]:
        """The steps that were taken, one row each, and the mean reward of a step."""
        config, mask = self.config, trajectories.mask
        states = self.normalizer(trajectories.states)
        held = np.repeat(goals[:, None], mask.shape[1], axis=1)  # (N, T, k)
        ends = trajectories.ends(time_limits=not config.bootstrap_at_time_limit)
        robot = self.description.env_settings.robot(self.description.env)
        fallen = has_fallen(robot, trajectories.states[:, 1:]) if robot else np.zeros(mask.shape, bool)
        bonus = np.where(fallen, 0.0, config.alive_bonus).astype(np.float32)
        if config.reward == "euclidean":
            raw = chunk_differences(trajectories.states, trajectories.lengths, config.macro_length)
            features = np.zeros_like(held)
            bonus += euclidean_reward(raw, held, _goal_ranges(self.description.env))
        else:
            moved = chunk_differences(states, trajectories.lengths, config.macro_length)
            features = inner_product_features(moved[..., : held.shape[-1]], config.macro_length)
        reward = (features * held).sum(axis=-1)[mask] + bonus[mask]
        taken = {"features": features, "bonus": bonus, "effort": (trajectories.actions**2).sum(axis=-1)}
        columns = {
            "states": states[:, :-1][mask],
            "goals": held[mask],
            "actions": trajectories.actions[mask],
            **self._returns(trajectories, states, ends, taken, config.n_step),
        }
        if self.one_step_relabels:
            single = self._returns(trajectories, states, ends, taken, 1)
            columns |= {f"{ONE_STEP}{name}": values for name, values in single.items()}
        if config.normalize_reward:
            columns["features"], columns["bonus"] = np.zeros_like(columns["features"]), self._standardize(reward)
        return columns, float(reward.mean())

    def _returns(
        self, trajectories: Trajectories, states: NDArray[np.float32], ends: NDArray[np.bool_], taken: Columns, n: int
    ) -> Columns:
        """The sums of what is `taken` in n steps, or in as many as the episode still has, and the state after them."""
        mask, discount = trajectories.mask, self.config.discount
        rows, steps = np.arange(len(states))[:, None], np.arange(mask.shape[1])
        count = np.clip(trajectories.lengths[:, None] - steps, 1, n)
        after = steps + count
        return {
            "next_states": states[rows, after][mask],
            "dones": (1 - discount ** (count - 1) * ~ends[rows, after - 1])[mask].astype(np.float32),
            **{name: discounted_sums(values, mask, n, discount)[mask] for name, values in taken.items()},
        }

    def _standardize(self, reward: NDArray[np.float32]) -> NDArray[np.float32]:
        now = np.array([reward.mean(dtype=np.float64), reward.var(dtype=np.float64)])
        before = self.reward_moments
        self.reward_moments = (1 - _REWARD_RATE) * before + _REWARD_RATE * now if before[1] else now
        mean, var = self.reward_moments
        return ((reward - mean) / np.sqrt(var)).astype(np.float32)

    def _compose(self, columns: Columns, rng: np.random.Generator, action_cost: float = 0.0) -> sac.Transitions:
        """Minibatches with fresh goals for a part of the transitions; columns are (steps, batch, ...)."""
        goals = columns["goals"]
        shape = goals.shape[:-1]
        if self.config.relabel:
            relabelled = rng.random(shape) < self.config.relabel
            fresh = self._goals(rng, int(np.prod(shape))).reshape(goals.shape)
            goals = np.where(relabelled[..., None], fresh, goals)
            columns = self._one_step_where(columns, relabelled)
            if self.augmentation is not None:
                columns = self.augmentation(columns, rng.integers(len(self.augmentation), size=shape) * relabelled)
        seen = seen_transitions(self.frame, columns, goals)
        scale = self.config.reward_scale
        features = scale * seen.features
        bonus = scale * (columns["bonus"] - action_cost * columns["effort"])[..., None]
        next_maps = None
        if self.config.critic == "vector":
            next_maps = _with_bonus(seen.next_maps, len(bonus)) if seen.next_maps else None
            rewards = jnp.concatenate([features, bonus], axis=-1)
            weights = jnp.concatenate([seen.goals, jnp.ones_like(bonus)], axis=-1)
        else:
            rewards = jnp.sum(features * seen.goals, axis=-1, keepdims=True) + bonus
            weights = jnp.ones_like(rewards)
        return sac.Transitions(
            inputs=seen.inputs,
            actions=seen.actions,
            rewards=rewards,
            next_inputs=seen.next_inputs,
            dones=jnp.asarray(columns["dones"]),
            weights=weights,
            next_maps=next_maps,
        )

    def _one_step_where(self, columns: Columns, relabelled: NDArray[np.bool_]) -> Columns:
        """One-step returns where the goal is fresh, if asked for: the later actions were chosen for another goal."""
        chosen = dict(columns)
        for name in [name for name in columns if name.startswith(ONE_STEP)]:
            single, several = chosen.pop(name), columns[name.removeprefix(ONE_STEP)]
            where = relabelled.reshape(*relabelled.shape, *[1] * (single.ndim - relabelled.ndim))
            chosen[name.removeprefix(ONE_STEP)] = np.where(where, single, several)
        return chosen

    def describe(self) -> dict[str, Any]:
        """What kind of linearizer it is."""
        return {"linearizer": dataclasses.asdict(self.description)}

    def learned(self) -> Arrays:
        """Networks, optimisers, replay buffer and all else that is followed."""
        return {
            **checkpoint.flatten(self._kept_policy(), POLICY_PREFIX),
            **self.learner.state(),
            **({**self.rhythms.state(), **checkpoint.flatten(self.imitation, "imitation/")} if self.rhythms else {}),
            "best_reach": self.best_reach,
            "reward_moments": self.reward_moments,
        }

    def restore_learned(self, arrays: Arrays) -> None:
        """Undo `learned`."""
        self.learner.restore(arrays)
        self.best_policy = checkpoint.unflatten(self.best_policy, arrays, POLICY_PREFIX)
        self.best_reach = arrays["best_reach"]
        self.reward_moments = arrays["reward_moments"]
        if self.rhythms:
            self.rhythms.restore(arrays)
            self.imitation = checkpoint.unflatten(self.imitation, arrays, "imitation/")

    def growth(self) -> int:
        """That of the replay buffer."""
        return self.learner.growth()


@jax.jit
def _sample(
    policy: sac.Policy, frame: Frame, states: jax.Array, goals: jax.Array, randomness: jax.Array, step: int
) -> Any:
    """Random actions at a step, from a key or from the noise of all steps (T, N, m)."""
    inputs, to_action = frame.observe(states, goals)
    drawn = jnp.issubdtype(randomness.dtype, jnp.floating)
    distribution: sac.ActionDistribution = policy(inputs)
    return to_action(distribution.sample(randomness[step] if drawn else jax.random.fold_in(randomness, step)))


def _with_bonus(maps: sac.FeatureMaps, steps: int) -> sac.FeatureMaps:
    """Maps that leave the last feature, the bonus, as it is; once for each gradient step."""
    matrices = jnp.pad(maps.matrices, ((0, 0), (0, 1), (0, 1))).at[:, -1, -1].set(1.0)
    return sac.FeatureMaps(maps.which, jnp.broadcast_to(matrices, (steps, *matrices.shape)))


def _goal_dim(env: str, batch: Env, state_dim: int, config: LinearizerConfig) -> int:
    """All state dimensions, or the positions: the part of a robot's state before its velocities."""
    if config.reward == "euclidean":
        return len(_goal_ranges(env))
    if not config.position_goals:
        return state_dim
    if not isinstance(batch, RobotEnv):
        raise IbolError(f"position_goals needs one of our robots, and {env} is not one")
    return int(batch.model.nq)


def _goal_ranges(env: str) -> tuple[float, ...]:
    """What the euclidean reward needs to know of a robot."""
    known = [name for name, robot in ROBOTS.items() if robot.goal_ranges]
    if env not in known:
        raise IbolError(f"the euclidean reward has goal ranges of {', '.join(known)} only, not of {env}")
    return ROBOTS[env].goal_ranges


METHOD = Method("linearizer", LinearizerConfig, LinearizerTrainer, lambda run: load_linearizer(run.path))
