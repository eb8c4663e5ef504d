"""What a film shows: episodes for latents of skills, for goals of a linearizer or a task, or one of a plain policy."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibol.bounds import whole_number
from ibol.envs import Robot, TaskEnv
from ibol.errors import IbolError
from ibol.figures.keys import latent_colours
from ibol.linearizer.policy import load_named
from ibol.robots import known_as
from ibol.skills.latents import RADIUS, Gaussian, OneHot, Prior, Sphere

EIGHT, GRID = "8 directions", "grid"
_MOST = 36  # latents in one film
_TASK_EPISODES = 8


@dataclass(frozen=True)
class Episodes:
    """N episodes of one environment, their names and colours."""

    env: str
    labels: tuple[str, ...]
    colours: NDArray[np.floating]  # (N, 3)
    states: NDArray[np.float32]  # (N, T + 1, n)
    location_dims: tuple[int, ...]
    seconds: float  # of one step
    directions: bool = False  # they are the eight directions of a plane, counter-clockwise from the right
    goals: NDArray[np.floating] | None = None  # (N, T + 1, k), where the robot should be
    robot: Robot | None = None
    """What is simulated, if it is a robot of ours."""

    @property
    def steps(self) -> int:
        """Steps of the longest episode."""
        return self.states.shape[1] - 1


def load_episodes(
    name: str, latents: str | None = None, *, steps: int | None = None, seed: int = 0, deterministic: bool = False
) -> Episodes:
    """Episodes of what `name` stands for.

    Args:
        name: a run of 'ibol discover', 'ibol linearize', 'ibol downstream' or 'ibol sac', the name of bundled skills,
            or `linearizer:NAME` for a bundled linearizer.
        latents: "8 directions" (the default), "grid", or values such as "0,1.5; 1.5,0"; goals for a linearizer, along
            its location. A plain policy has none, and a task has goals of its own.
        steps: the first steps of the episodes only.
        seed: decides initial states and samples.
        deterministic: the mode of the skill policy instead of samples.
    """
    agent = load_named(name)
    return episodes_of(agent, name, latents, steps=steps, seed=seed, deterministic=deterministic)


def episodes_of(
    agent: Any,
    name: str,
    latents: str | None = None,
    *,
    steps: int | None = None,
    seed: int = 0,
    deterministic: bool = False,
) -> Episodes:
    """Episodes of an agent that was loaded from `name`; see `load_episodes`."""
    steps = None if steps is None else whole_number("steps", steps)
    env = agent.make_env(1)
    dims = env.location_dims
    goals: NDArray[np.floating] | None = None
    directions, asked_for = False, EIGHT if latents is None else latents
    if agent.kind not in ("skills", "linearizer") and latents is not None:
        raise IbolError(f"{name} is a plain policy or solves a task, without latents to choose: leave --latents out")
    if agent.kind == "skills":
        chosen = parse_latents(asked_for, agent.prior)
        episodes = agent.rollout(chosen, seed=seed, deterministic=deterministic)
        labels, colours = [agent.prior.label(z) for z in chosen], latent_colours(chosen, agent.prior)
        directions = not agent.prior.discrete
    elif agent.kind == "linearizer":
        if not dims:
            raise IbolError("there is no location to choose goals along: give --location-dims to linearize")
        prior = Gaussian(len(dims))
        chosen = parse_latents(asked_for, prior, radius=1.0)
        asked = np.zeros((len(chosen), agent.goal_dim), np.float32)
        asked[:, list(dims)] = chosen
        episodes = agent.rollout(asked, seed=seed)
        labels = [prior.label(goal).replace("z", "g") for goal in chosen]
        colours = latent_colours(RADIUS * chosen, prior)
        directions = True
    elif isinstance(env, TaskEnv):
        episodes = agent.rollout(_TASK_EPISODES, seed=seed)
        chosen = np.zeros((len(episodes.states), 0), np.float32)
        goals = env.targets(episodes.states)
        labels = [f"{distance:.1f} m off" for distance in env.distance(episodes.returns)]
        colours = _shades(goals[:, -1])
    else:
        chosen = np.zeros((1, 0), np.float32)
        episodes, labels = agent.rollout(1, seed=seed), [known_as(agent.env)]
        colours = latent_colours(chosen, Gaussian(0))
    shown = min(steps or env.horizon, int(episodes.lengths.max())) + 1
    return Episodes(
        env=env.task.robot if isinstance(env, TaskEnv) else agent.env,
        labels=tuple(labels),
        colours=colours,
        states=episodes.states[:, :shown],
        location_dims=dims,
        seconds=env.dt,
        directions=directions and chosen.shape[1] > 1 and asked_for == EIGHT,
        goals=None if goals is None else goals[:, :shown],
        robot=getattr(env, "robot", None),
    )


def parse_latents(text: str, prior: Prior, radius: float = RADIUS) -> NDArray[np.float32]:
    """Latents (N, d) that `text` names; those of length `RADIUS` get length `radius`."""
    if isinstance(prior, OneHot):
        return _parse_numbers(text, prior)
    eight, dims = prior.shown() * np.float32(radius / RADIUS), prior.dim
    if text == EIGHT or (text == GRID and (dims == 1 or isinstance(prior, Sphere))):
        return eight
    if text == GRID:
        chosen = np.zeros((9, dims), np.float32)
        chosen[:, :2] = [(x * radius, y * radius) for y in (1, 0, -1) for x in (-1, 0, 1)]
        return chosen
    try:
        rows = [[float(value) for value in row.split(",")] for row in text.split(";") if row.strip()]
        if not rows or {len(row) for row in rows} != {dims} or not np.isfinite(rows).all():
            raise ValueError
    except ValueError:
        example = "; ".join(",".join(f"{value:.3g}" for value in row) for row in eight[:2])
        raise IbolError(
            f"latents {text!r} are not valid: give {EIGHT!r}, {GRID!r}, or {dims} numbers for each, such as {example!r}"
        ) from None
    if len(rows) > _MOST:
        raise IbolError(f"{len(rows)} latents are too many for one film: give at most {_MOST}")
    return np.array(rows, np.float32)


def _parse_numbers(text: str, prior: OneHot) -> NDArray[np.float32]:
    """The unit vectors of the discrete skills whose numbers `text` has, such as "0; 3; 5"."""
    count = prior.dim
    if text == EIGHT:
        return prior.shown()
    try:
        chosen = list(range(count))[:_MOST] if text == GRID else [int(number) for number in text.split(";")]
        if not chosen or len(chosen) > _MOST or not all(0 <= number < count for number in chosen):
            raise ValueError
    except ValueError:
        raise IbolError(
            f"latents {text!r} are not valid: these skills are discrete, so give numbers from 0 to {count - 1}, "
            f"at most {_MOST}, such as '0; 1', or {GRID!r} for all"
        ) from None
    return prior.vectors(chosen)


def _shades(ends: NDArray[np.floating]) -> NDArray[np.floating]:
    """A colour for each goal (N, k): those that latents in its direction would have."""
    scale = 2 * RADIUS / max(float(np.abs(ends).max()), 1e-6)
    return latent_colours((scale * ends).astype(np.float32), Gaussian(ends.shape[1]))
