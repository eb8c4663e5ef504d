"""A trained linearizer: pi_lin(a | s, g), ready to act, with what it needs to know of its environment."""

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from ibol import bounds, robots, trust
from ibol.bounds import Count, Natural, array
from ibol.envs import Env
from ibol.envs.settings import EnvSettings, check_dims, env_settings_of
from ibol.errors import IbolError, unknown
from ibol.learners.normalizer import Normalizer
from ibol.learners.rollout import Act, Trajectories, collect
from ibol.learners.sac import Policy
from ibol.linearizer.frame import Frame, goal_frame, world_frame
from ibol.nn.distributions import ActionDistribution
from ibol.nn.networks import TanhGaussianPolicy
from ibol.runs import checkpoint
from ibol.runs.checkpoint import Arrays
from ibol.runs.directory import RunDirectory, settings_from_json
from ibol.seeding import derive
from ibol.training.launch import load_agent, open_run

POLICY_PREFIX = "policy/"
Distortion = Callable[[NDArray[np.float32]], NDArray[np.float32]]
BUNDLED = Path(__file__).parent / "bundled"
BUNDLED_PREFIX = "linearizer:"


@dataclass(frozen=True)
class LinearizerDescription:
    """What a linearizer was made for; kept with its weights."""

    env: str
    state_dim: Count
    action_dim: Count
    goal_dim: Count
    location_dims: tuple[Natural, ...]
    macro_length: Count
    hidden: tuple[Count, ...]
    layer_norm: bool
    env_settings: EnvSettings
    frame: Literal["world", "goal"] = "world"

    @classmethod
    def from_json(cls, values: dict[str, Any], where: str) -> "LinearizerDescription":
        """Undo `dataclasses.asdict`."""
        nested = {**values, "env_settings": env_settings_of(values, where)}
        made = settings_from_json(cls, nested, where)
        check_dims(where, made.state_dim, location_dims=made.location_dims)
        if made.goal_dim > made.state_dim or (made.frame == "goal" and made.env_settings.robot(made.env) is None):
            raise IbolError(f"{where}: a linearizer of {made.env} cannot have this goal space")
        return made

    def policy_template(self) -> TanhGaussianPolicy:
        """A policy of the right shape."""
        inputs = self.state_dim + self.goal_dim
        return TanhGaussianPolicy(inputs, self.action_dim, self.hidden, jax.random.key(0), self.layer_norm)


class Linearizer:
    """Moves the state in the direction that a goal in [-1, 1]^n asks for, by the mode of its policy."""

    kind: Final = "linearizer"

    def __init__(self, description: LinearizerDescription, policy: Policy, normalizer: Normalizer) -> None:
        self.description, self.env_settings = description, description.env_settings
        self.policy = policy
        self.normalizer = normalizer
        self.frame = find_frame(description, normalizer)

    @property
    def env(self) -> str:
        """The environment that it was trained in."""
        return self.description.env

    @property
    def goal_dim(self) -> int:
        """Dimensions of a goal: those of the state, or only its first ones in a velocity-free goal space."""
        return self.description.goal_dim

    @property
    def macro_length(self) -> int:
        """Environment steps for which a goal is held."""
        return self.description.macro_length

    def act(self, obs: ArrayLike, goal: ArrayLike) -> NDArray[np.float32]:
        """Actions, by the mode of the policy.

        Args:
            obs: raw observations (n,) or (N, n).
            goal: a goal for each, (goal_dim,) or (N, goal_dim), in [-1, 1].

        Returns:
            Actions in [-1, 1], (m,) or (N, m).
        """
        states = array("observations", obs, ..., self.description.state_dim, dtype=np.float32)
        goals = array("goals", goal, *states.shape[:-1], self.goal_dim, dtype=np.float32)
        return self._actions(states, goals)

    def _actions(self, states: NDArray[np.float32], goals: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(_mode(self.policy, self.frame, states, goals))

    def act_on(self, choose: Act, distortion: Distortion | None = None) -> Act:
        """Actions at every step for goals that `choose(obs, step)` gives at the first step of each macro step.

        Each goal is held for `macro_length` steps. A distortion maps goals (N, goal_dim) to those that are held.
        """
        goals: NDArray[np.float32] = np.zeros(0, np.float32)

        def act(obs: NDArray[np.float32], step: int) -> NDArray[np.float32]:
            nonlocal goals
            if step % self.macro_length == 0:
                chosen = np.asarray(choose(obs, step), np.float32)
                chosen = chosen if distortion is None else distortion(chosen)
                goals = array("goals", chosen, *np.shape(obs)[:-1], self.goal_dim, dtype=np.float32)
            states = array("observations", obs, *goals.shape[:-1], self.description.state_dim, dtype=np.float32)
            return self._actions(states, goals)

        return act

    def rollout(self, goals: ArrayLike, seed: int = 0) -> Trajectories:
        """Play one episode for each goal, which is held from beginning to end.

        Args:
            goals: (N, goal_dim), in [-1, 1].
            seed: decides the initial states.

        Returns:
            The episodes, with raw `states` (N, horizon + 1, n) at every environment step.
        """
        held = array("goals", goals, "N", self.goal_dim, dtype=np.float32)
        env = self.make_env(len(held))
        return collect(env, lambda states, step: self._actions(states, held), seed=derive(seed, "episodes"))

    def make_env(self, num_envs: int) -> Env:
        """A batch of the environment that it was trained in."""
        return self.description.env_settings.make_for(self.description, num_envs)

    def arrays(self) -> Arrays:
        """Weights and normaliser by name."""
        return {**checkpoint.flatten(self.policy, POLICY_PREFIX), **self.normalizer.state()}

    def save(self, path: Path, provenance: dict[str, Any]) -> None:
        """Write it as one safetensors file; `provenance` says how it came to be."""
        meta = {"linearizer": dataclasses.asdict(self.description), "provenance": provenance}
        checkpoint.save(path, self.arrays(), meta)


def find_frame(description: LinearizerDescription, normalizer: Normalizer) -> Frame:
    """How the networks of such a linearizer see its environment."""
    if description.frame == "goal":
        return goal_frame(description.env, normalizer, description.env_settings.robot(description.env))
    return world_frame(normalizer, description.location_dims)


@jax.jit
def _mode(policy: Policy, frame: Frame, obs: Array, goal: Array) -> Array:
    inputs, to_action = frame.observe(obs, goal)
    distribution: ActionDistribution = policy(inputs)
    return to_action(distribution.mode)


def load_linearizer(source: str | Path) -> Linearizer:
    """A bundled linearizer by name, or that of a run directory or file.

    `ant` is the first seed of Ant's, `ant:1` the second; `half_cheetah:velocity_free` is a variant. Where bundled
    skills could be meant, too, it is `linearizer:ant`, which is understood here as well.
    """
    path = bounds.path("source", source)
    if os.path.isdir(path):
        return _from_run(RunDirectory.open(path))
    if path.suffix == ".safetensors" and os.path.exists(path):
        return _from_file(path)
    return _from_file(bundled_file(str(source)))


def bundled_file(source: str) -> Path:
    """The file of a bundled linearizer."""
    name, colon, seed = source.removeprefix(BUNDLED_PREFIX).partition(":")
    names = bundled()
    if name not in names:
        raise unknown("linearizer", source, names, ", or name a run directory of 'ibol linearize'")
    seed = seed if colon else "0"
    if seed not in names[name]:
        raise unknown(f"seed or variant of the bundled linearizer {name}", seed, names[name])
    return BUNDLED / f"{name}-{seed}.safetensors"


def load_named(name: str | Path) -> Any:
    """What a run has learned, bundled skills, or with `linearizer:NAME` a bundled linearizer."""
    return load_linearizer(name) if str(name).startswith(BUNDLED_PREFIX) else load_agent(name)


def bundled() -> dict[str, list[str]]:
    """The linearizers that ship with ibol: environment names and their seeds and variants."""
    names: dict[str, list[str]] = {}
    for file in sorted(BUNDLED.glob("*.safetensors")):
        name, _, seed = file.stem.rpartition("-")
        names.setdefault(name, []).append(seed)
    return names


def provenance_of(source: str | Path) -> dict[str, Any]:
    """How the linearizer that `load_linearizer` finds came to be: its run's settings, or what its file says."""
    path = Path(source)
    if path.is_dir():
        config = open_run(path).config
        return {"source": str(source), **{name: config[name] for name in ("preset", "seed", "settings")}}
    if path.is_file():
        made = checkpoint.load(path, lambda name: False)[1].get("provenance")
        return made if isinstance(made, dict) else {}
    return {"source": str(source)}


def _from_file(path: Path) -> Linearizer:
    arrays, meta = checkpoint.load(path)
    with checkpoint.fitting(arrays, path):
        return assemble(describe(meta, path), arrays)


def describe(header: dict[str, Any], path: Path) -> LinearizerDescription:
    """What the header of a linearizer's file says of it; its environment must be a known or a trusted one."""
    values = header.get("linearizer")
    if not isinstance(values, dict):
        raise IbolError(f"{path} contains no linearizer")
    trust.check_env(values.get("env"), path)
    robots.admit(path.parent, values.get("env"))
    return LinearizerDescription.from_json(values, str(path))


def _from_run(run: RunDirectory) -> Linearizer:
    if run.command != "linearize":
        raise IbolError(f"{run.path} is a run of 'ibol {run.command}', not of 'ibol linearize'")
    description = LinearizerDescription.from_json(
        run.described("linearizer"), f"linearizer in {run.path / 'config.json'}"
    )
    wanted = lambda name: name.startswith((POLICY_PREFIX, "normalizer/"))  # noqa: E731
    return run.use_checkpoint(lambda arrays: assemble(description, arrays), wanted)[0]


def assemble(description: LinearizerDescription, arrays: Arrays) -> Linearizer:
    """A linearizer from its arrays; they must fit its description."""
    policy = checkpoint.unflatten(description.policy_template(), arrays, POLICY_PREFIX)
    return Linearizer(description, policy, Normalizer.from_state(arrays, description.state_dim))
