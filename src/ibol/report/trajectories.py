"""Trajectories for the page: few points, as whole numbers on a scale of their own."""

from collections.abc import Sequence
from typing import Any

import matplotlib.colors
import numpy as np
from numpy.typing import NDArray

from ibol.evaluation.directions import seen
from ibol.evaluation.loading import LoadedRun
from ibol.evaluation.rollouts import skill_rollouts
from ibol.evaluation.skills import accuracy_trajectories
from ibol.figures.keys import latent_colours
from ibol.figures.skills import LOCATION_AXES
from ibol.linearizer.evaluation import evaluate_linearizer
from ibol.metrics.directions import AXES, Directions
from ibol.seeding import derive
from ibol.skills.latents import RADIUS, Gaussian, Prior

Picture = dict[str, Any]
_POINTS, _PATHS = 51, 250  # at most, of a trajectory and in a picture
_FINE = 2000  # whole numbers from the middle to the furthest place


def pictures_of(run: LoadedRun, *, trajectories: int, seed: int, along: Directions | None = None) -> list[Picture]:
    """Pictures of where an agent goes: of skills random and chosen latents, and the policies to compare with.

    Skills without a location are seen `along` principal directions.
    """
    if run.kind == "linearizer":
        shown = evaluate_linearizer(run.agent, seed=derive(seed, "evaluation"))
        paths = shown.trajectories.states[:, :, list(shown.location_dims)]
        prior = Gaussian(len(shown.location_dims))
        title = "goals along the location"
        return [_picture(title, "g", shown.goals, paths, shown.trajectories.returns, prior, RADIUS)]
    if run.kind == "skills":
        eight = accuracy_trajectories(trajectories)
        choices: tuple[tuple[str, Any], ...] = (
            ("random skills", {"trajectories": trajectories}),
            ("8 skills", {"which": "eight", "trajectories": eight}),
            ("initial policy", {"policy": "untrained", "trajectories": trajectories}),
            ("random policy", {"policy": "random", "trajectories": trajectories}),
        )
        pairs = [(title, seen(skill_rollouts(run, seed=seed, **options), along)) for title, options in choices]
        if along is not None:
            return [_picture(title, "z", r.latents, r.locations, r.returns, r.prior, axes=AXES) for title, r in pairs]
        return [_picture(title, "z", r.latents, r.locations, r.returns, r.prior) for title, r in pairs]
    dims = list(run.agent.make_env(1).location_dims)
    episodes = run.agent.rollout(16, seed=derive(seed, "evaluation"))
    nothing = np.zeros((len(episodes.states), 0), np.float32)
    return [_picture("episodes", "", nothing, episodes.states[:, :, dims], episodes.returns, Gaussian(0))]


def drawable(run: LoadedRun) -> bool:
    """Whether the location has one or two dimensions, or there are skills to be seen along principal directions."""
    dims = len(run.agent.make_env(1).location_dims)
    return dims in (1, 2) or (dims == 0 and run.kind == "skills")


def _picture(
    title: str,
    sign: str,
    latents: NDArray[np.floating],
    paths: NDArray[np.floating],
    returns: NDArray[np.floating],
    prior: Prior,
    stretch: float = 1.0,
    axes: Sequence[str] = LOCATION_AXES,
) -> Picture:
    """A picture as data; `stretch` makes latents of what is not drawn from N(0, I), for their colours."""
    some = np.linspace(0, len(paths) - 1, min(_PATHS, len(paths))).round().astype(int)
    steps = np.linspace(0, paths.shape[1] - 1, min(_POINTS, paths.shape[1])).round().astype(int)
    chosen = paths[some][:, steps]
    scale = max(float(np.abs(chosen).max()), 1e-6) / _FINE
    colours = latent_colours(np.asarray(stretch * latents[some], np.float32), prior)
    shown = latents[some].argmax(axis=1)[:, None] if prior.discrete else latents[some]
    return {
        "title": title,
        "sign": sign,
        "dims": chosen.shape[2],
        "axes": list(axes),
        "steps": steps.tolist(),
        "scale": float(f"{scale:.6g}"),
        "latents": shown.astype(float).round(2).tolist(),
        "colours": [matplotlib.colors.to_hex(colour) for colour in colours],
        "returns": returns[some].astype(float).round(2).tolist(),
        "paths": np.round(chosen / scale).astype(int).reshape(len(some), -1).tolist(),
    }
