"""How skills and a linearizer act by their mode, in NumPy alone.

`made` is what `ibol.skills.portable.portable` gives, or what `load` reads from an exported directory. This file stands
alone: `ibol export --format npz` puts a copy of it beside the numbers.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float32]


def load(directory: str | Path) -> dict[str, Any]:
    """The skills that `ibol export --format npz` wrote into a directory."""
    described = json.loads((Path(directory) / "skills.json").read_text())
    made: dict[str, Any] = {name: described["networks"][name] for name in ("skill_policy", "linearizer")}
    with np.load(Path(directory) / "skills.npz", allow_pickle=False) as arrays:
        for name in sorted(arrays.files):
            *path, last = name.split("/")
            place = made
            for part in path:  # lists come as dictionaries of their numbers
                place = place.setdefault(part, {})
            place[last] = arrays[name]
    for network in filter(None, made.values()):
        for part in ("layers", "heads"):
            network[part] = [network[part][str(number)] for number in range(len(network[part]))]
    return made


def goal_of(made: Mapping[str, Any], obs: ArrayLike, latent: ArrayLike) -> Numbers:
    """The mode of a portable skill policy for raw states (..., n) and latents (..., d): a goal, or an action."""
    policy = made["skill_policy"]
    states = (np.asarray(obs, np.float32) - policy["mean"]) / policy["std"] * policy["keep"]
    answer = _mode(policy, np.concatenate([states, np.asarray(latent, np.float32)], axis=-1))
    return _squeezed(answer) if policy["distortion"] == "squeeze_y" else answer


def action_of(made: Mapping[str, Any], obs: ArrayLike, goal: ArrayLike) -> Numbers:
    """The mode of a portable linearizer for raw states (..., n) and goals (..., k)."""
    linearizer, states, goals = made["linearizer"], np.asarray(obs, np.float32), np.asarray(goal, np.float32)
    frame = linearizer["frame"]
    if frame["kind"] == "world":
        seen = (states - frame["mean"]) / frame["std"] * frame["keep"]
        return _mode(linearizer, np.concatenate([seen, goals], axis=-1))
    return _in_goal_frame(linearizer, states, goals)


def _mode(network: Mapping[str, Any], inputs: Numbers) -> Numbers:
    x = inputs
    for layer in network["layers"]:
        x = x @ layer["weight"] + layer["bias"]
        if network["layer_norm"]:
            deviation = x - x.mean(axis=-1, keepdims=True)
            x = deviation / np.sqrt((deviation**2).mean(axis=-1, keepdims=True) + np.float32(1e-5))
        x = np.tanh(x)
    raw = [x @ head["weight"] + head["bias"] for head in network["heads"]]
    if len(raw) == 1:
        return np.tanh(raw[0])
    # The mode of a Beta distribution on [-1, 1] whose parameters are softplus(raw) + 1.05.
    above, below = (np.logaddexp(value, np.float32(0)) + np.float32(0.05) for value in raw)
    return (above - below) / (above + below)


def _in_goal_frame(linearizer: Mapping[str, Any], states: Numbers, goals: Numbers) -> Numbers:
    """The world is turned until the goal points along x, and the legs renamed so that the robot heads that way."""
    frame, k = linearizer["frame"], goals.shape[-1]
    asked = goals / frame["goal_std"][:k]
    direction = np.arctan2(asked[..., 1], asked[..., 0])
    place = frame.get("heading", 5)  # of its angle, if it is not in a quaternion
    heading = states[..., place] if frame["has_angles"] else 2 * np.arctan2(states[..., 6], states[..., 3])
    which = np.cos((heading - direction)[..., None] - frame["angles"]).argmax(axis=-1)
    turn = -(direction + frame["angles"][which])
    sign = np.ones_like(turn, np.float32)
    if not frame["has_angles"]:
        negative = np.cos(turn / 2) * states[..., 3] < np.sin(turn / 2) * states[..., 6]
        sign = np.where(negative, -1, 1).astype(np.float32)
    seen = (_turned(frame, states, which, turn, sign) - frame["mean"]) / frame["std"] * frame["keep"]
    if frame["has_angles"]:  # of the heading networks see cosine and sine, in the place of the location
        seen[..., 0], seen[..., 1], seen[..., place] = np.cos(heading + turn), np.sin(heading + turn), 0.0
    turned = _turned(frame, asked, which, turn, sign) * frame["std"][:k]
    answer = _mode(linearizer, np.concatenate([seen, turned], axis=-1))
    moved = np.take_along_axis(answer, np.asarray(frame["action_from"])[which], -1)
    return moved * np.asarray(frame["action_sign"], np.float32)[which]


def _turned(
    frame: Mapping[str, Any], values: Numbers, which: NDArray[np.intp], turn: Numbers, sign: Numbers
) -> Numbers:
    """Raw values (..., k), the first of a state, renamed and turned."""
    k = values.shape[-1]
    source = np.asarray(frame["renamings"])[which][..., :k]  # (..., k)
    moved = np.take_along_axis(values, np.abs(source) - 1, -1) * np.sign(source).astype(np.float32)
    for a, b, half in frame["pairs"]:
        if b < k:
            cos, sin = (sign * np.cos(turn / 2), sign * np.sin(turn / 2)) if half else (np.cos(turn), np.sin(turn))
            first, second = moved[..., a].copy(), moved[..., b].copy()
            moved[..., a], moved[..., b] = cos * first - sin * second, sin * first + cos * second
    return moved


def _squeezed(goals: Numbers) -> Numbers:
    """The distortion `squeeze_y`: the length of the goal's x-y part stays, its direction nears the x axis."""
    squeezed = goals[..., :2] * np.array([1.0, 0.2], np.float32)
    length, radius = (np.linalg.norm(value, axis=-1, keepdims=True) for value in (squeezed, goals[..., :2]))
    return np.concatenate([squeezed * radius / np.maximum(length, np.float32(1e-12)), goals[..., 2:]], axis=-1)
