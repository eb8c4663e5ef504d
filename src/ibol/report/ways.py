"""Trajectories for the page: few points, as whole numbers on a scale of their own."""

from pathlib import Path
from typing import Any

import matplotlib.colors
import numpy as np
from numpy.typing import NDArray

from ibol.evaluation.rollouts import skill_rollouts
from ibol.evaluation.skills import accuracy_trajectories
from ibol.figures.skills import latent_colours
from ibol.linearizer.evaluation import evaluate_linearizer
from ibol.linearizer.policy import Linearizer
from ibol.seeding import derive
from ibol.skills.latents import RADIUS, Gaussian, Prior
from ibol.skills.policy import Skills

Ways = dict[str, Any]
_POINTS, _WAYS = 51, 250  # at most, of a trajectory and in a picture
_FINE = 2000  # whole numbers from the middle to the furthest place


def ways_of(run: Path, policy: Any, *, trajectories: int, seed: int) -> list[Ways]:
    """Pictures of where a policy goes: of skills random and chosen latents, and the policies to compare with."""
    if isinstance(policy, Linearizer):
        found = evaluate_linearizer(policy, seed=derive(seed, "evaluation"))
        paths = found.trajectories.states[:, :, list(found.location_dims)]
        prior = Gaussian(len(found.location_dims))
        return [_ways("goals along the location", "g", found.goals, paths, found.trajectories.returns, prior, RADIUS)]
    if isinstance(policy, Skills):
        eight = accuracy_trajectories(trajectories)
        pictures: tuple[tuple[str, Any], ...] = (
            ("random skills", {"trajectories": trajectories}),
            ("8 skills", {"which": "eight", "trajectories": eight}),
            ("before training", {"policy": "untrained", "trajectories": trajectories}),
            ("random policy", {"policy": "random", "trajectories": trajectories}),
        )
        pairs = [(title, skill_rollouts(run, seed=seed, **options)) for title, options in pictures]
        return [_ways(title, "z", found.latents, found.locations, found.returns, found.prior) for title, found in pairs]
    dims = list(policy.make_env(1).location_dims)
    episodes = policy.rollout(16, seed=derive(seed, "evaluation"))
    nothing = np.zeros((len(episodes.states), 0), np.float32)
    return [_ways("episodes", "", nothing, episodes.states[:, :, dims], episodes.returns, Gaussian(0))]


def drawable(policy: Any) -> bool:
    """Whether the location has one or two dimensions."""
    return len(policy.make_env(1).location_dims) in (1, 2)


def _ways(
    title: str,
    sign: str,
    latents: NDArray[np.floating],
    paths: NDArray[np.floating],
    returns: NDArray[np.floating],
    prior: Prior,
    stretch: float = 1.0,
) -> Ways:
    """A picture as data; `stretch` makes latents of what is not drawn from N(0, I), for their colours."""
    some = np.linspace(0, len(paths) - 1, min(_WAYS, len(paths))).round().astype(int)
    steps = np.linspace(0, paths.shape[1] - 1, min(_POINTS, paths.shape[1])).round().astype(int)
    chosen = paths[some][:, steps]
    scale = max(float(np.abs(chosen).max()), 1e-6) / _FINE
    colours = latent_colours(np.asarray(stretch * latents[some], np.float32), prior)
    shown = latents[some].argmax(axis=1)[:, None] if prior.discrete else latents[some]
    return {
        "title": title,
        "sign": sign,
        "dims": chosen.shape[2],
        "steps": steps.tolist(),
        "scale": float(f"{scale:.6g}"),
        "latents": shown.astype(float).round(2).tolist(),
        "colours": [matplotlib.colors.to_hex(colour) for colour in colours],
        "returns": returns[some].astype(float).round(2).tolist(),
        "paths": np.round(chosen / scale).astype(int).reshape(len(some), -1).tolist(),
    }
