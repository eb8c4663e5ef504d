"""Where the torso points over time, for latents (or goals) from one end to the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ibol.figures.common import save

_COLOURS = colormaps["cool"]  # from cyan to magenta


@dataclass(frozen=True)
class OrientationPanel:
    """Episodes and the value that made them differ."""

    title: str
    varied: str
    """What the values are."""
    values: NDArray[np.float32]  # (N,)
    rotations: NDArray[np.float32]  # (N, T + 1, 4), quaternions with w first, or (N, T + 1, 3), angles about x, y, z


def torso_axis(rotations: NDArray[np.float32]) -> NDArray[np.float32]:
    """The torso's x-axis seen from above, (..., 2), from quaternions (..., 4), angles (..., 3) or headings (..., 1)."""
    if rotations.shape[-1] == 1:
        return np.concatenate([np.cos(rotations), np.sin(rotations)], axis=-1)
    if rotations.shape[-1] == 3:
        x, y, z = np.moveaxis(rotations, -1, 0)
        return np.stack([np.cos(y) * np.cos(z), np.cos(x) * np.sin(z) + np.sin(x) * np.sin(y) * np.cos(z)], axis=-1)
    w, x, y, z = np.moveaxis(rotations / np.linalg.norm(rotations, axis=-1, keepdims=True), -1, 0)
    return np.stack([1 - 2 * (y**2 + z**2), 2 * (x * y + w * z)], axis=-1)


def plot_orientations(panels: Sequence[OrientationPanel], output: Path, *, title: str) -> None:
    """A trace starts in the middle; after a part t of the episode it stands at t times the torso's axis."""
    figure = Figure(figsize=(4.4 * len(panels), 4.6), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        axis = torso_axis(panel.rotations)
        traces = axis * np.linspace(0, 1, axis.shape[1])[:, None]
        scale = Normalize(float(panel.values.min()), float(panel.values.max()))
        axes.add_collection(LineCollection(list(traces), colors=_COLOURS(scale(panel.values)), linewidths=1.0))
        angle = np.linspace(0, 2 * np.pi, 200)
        for part in (0.5, 1.0):
            axes.plot(part * np.cos(angle), part * np.sin(angle), color="grey", linewidth=0.5)
        axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal", xticks=[], yticks=[])
        axes.set_xlabel("middle: start, outer circle: end of the episode", fontsize=8)
        axes.set_title(panel.title, fontsize=9)
        bar = figure.colorbar(ScalarMappable(scale, _COLOURS), ax=axes, fraction=0.045)
        bar.set_label(panel.varied, fontsize=8)
    figure.suptitle(title, fontsize=10)
    save(figure, output)
