"""Which colour stands for which latent: the colours themselves, and a key to them for the margin of a figure."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from ibol.figures.common import NORMAL, SMALL
from ibol.skills.latents import COLOUR_RANGE, COLOUR_SCALE, RADIUS, Gaussian, OneHot, Prior

HEIGHT = 1.35
"""Inches that keys need below the panels."""
_REACH = 3.0  # of the key of Gaussian latents
_MANY = 16  # discrete skills that a key has room for


def latent_colours(latents: NDArray[np.float32], prior: Prior) -> NDArray[np.float32]:
    """The paper's colours (N, 3): red and green follow the latent's first two dimensions, blue makes up for them."""
    red_green = (COLOUR_SCALE * prior.plane(latents) + COLOUR_RANGE) / (2 * COLOUR_RANGE)
    blue = (2 - red_green.sum(axis=1, keepdims=True)) / 2
    return np.clip(np.concatenate([red_green, blue], axis=1), 0, 1)


def goal_colours(goals: NDArray[np.floating]) -> NDArray[np.float32]:
    """A linearizer's goals (N, k) along the location have the colours of the latents in their direction."""
    return latent_colours((RADIUS * goals).astype(np.float32), Gaussian(goals.shape[1]))


def draw_keys(figure: Figure, place: SubplotSpec, priors: Sequence[Prior], sign: str = "z") -> None:
    """A key for each kind of latent among these, side by side: a disc, a bar, or a list of discrete skills."""
    kinds = list(dict.fromkeys(prior for prior in priors if prior.dim > 0))
    if not kinds:
        return
    grid = place.subgridspec(1, len(kinds))
    for i, prior in enumerate(kinds):
        axes = figure.add_subplot(grid[0, i], label="key")
        reach = 1.0 if sign == "g" else _REACH
        if isinstance(prior, OneHot):
            _list(axes, prior)
        elif prior.dim == 1:
            _bar(axes, prior, sign, reach)
        else:
            _disc(axes, prior, sign, reach)


def _disc(axes: Axes, prior: Prior, sign: str, reach: float) -> None:
    """The plane of the first two dimensions, and on it the eight latents that figures show."""
    reach = reach if isinstance(prior, Gaussian) else 1.0
    x, y = np.meshgrid(np.linspace(-reach, reach, 121), np.linspace(-reach, reach, 121))
    inside = np.hypot(x, y) <= reach
    latents = np.zeros((x.size, prior.dim), np.float32)
    latents[:, 0], latents[:, 1] = x.ravel(), y.ravel()
    colours = _colours(latents, prior, sign).reshape(*x.shape, 3)
    picture = np.concatenate([colours, inside[..., None]], axis=-1)
    axes.imshow(picture, origin="lower", extent=(-reach, reach, -reach, reach))
    if sign == "z":
        shown = prior.shown()
        axes.scatter(
            shown[:, 0],
            shown[:, 1],
            14,
            _colours(shown, prior, sign),
            edgecolors="black",
            linewidths=0.7,
            clip_on=False,
        )
    reach *= 1.08
    ticks = [-round(reach), 0, round(reach)]
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=ticks, yticks=ticks, aspect="equal", anchor="C")
    names = ("g along x", "g along y") if sign == "g" else ("z₁", "z₂")
    axes.set_xlabel(names[0], fontsize=SMALL, labelpad=1)
    axes.set_ylabel(names[1], fontsize=SMALL, labelpad=1)
    more = f"\n(first 2 of {prior.dim} dimensions)" if prior.dim > 2 else ""
    axes.set_title(f"colour: {_what(sign)}{more}", fontsize=NORMAL)
    axes.spines[:].set_visible(False)
    axes.tick_params(labelsize=SMALL, length=2)


def _bar(axes: Axes, prior: Prior, sign: str, reach: float) -> None:
    reach = reach if isinstance(prior, Gaussian) else 1.0
    values = np.linspace(-reach, reach, 241, dtype=np.float32)[:, None]
    axes.imshow(_colours(values, prior, sign)[None], extent=(-reach, reach, 0, 1), aspect="auto")
    axes.set_box_aspect(0.06)
    axes.set(yticks=[], xlim=(-reach, reach), anchor="C")
    axes.set_xlabel(sign, fontsize=SMALL)
    axes.set_title(f"colour: {_what(sign)}", fontsize=NORMAL)
    axes.tick_params(labelsize=SMALL, length=2)


def _list(axes: Axes, prior: OneHot) -> None:
    vectors = prior.shown() if prior.dim > _MANY else prior.vectors(np.arange(prior.dim))
    colours = latent_colours(vectors, prior)
    handles = [
        Line2D([], [], color=colour, linewidth=3, label=str(int(vector.argmax())))
        for vector, colour in zip(vectors, colours, strict=True)
    ]
    some = f" ({len(vectors)} of {prior.dim})" if len(vectors) < prior.dim else ""
    axes.legend(
        handles=handles, title=f"colour: skill{some}", ncols=8, loc="center", fontsize=SMALL, title_fontsize=NORMAL,
        frameon=False, handlelength=1.5, columnspacing=1.2,
    )  # fmt: skip
    axes.set_axis_off()


def _colours(latents: NDArray[np.float32], prior: Prior, sign: str) -> NDArray[np.float32]:
    return goal_colours(latents) if sign == "g" else latent_colours(latents, prior)


def _what(sign: str) -> str:
    return "goal g" if sign == "g" else "latent z"
