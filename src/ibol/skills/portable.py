"""Skills and linearizers as plain numbers, for programs that have neither JAX nor this package.

`portable(agent)` gives nested dictionaries of JSON values and float32 arrays: what the page in a browser, the ONNX
graphs and the `.npz` files are made from. `goal_of` and `action_of` say in NumPy what such a program has to compute.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibol.errors import IbolError
from ibol.linearizer.frame import Frame, GoalFrame, turning_pairs
from ibol.linearizer.policy import Linearizer
from ibol.nn.networks import BetaPolicy, Dense, TanhGaussianPolicy
from ibol.skills.policy import Skills

FORMAT = 1
Numbers = NDArray[np.float32]


def portable(agent: Skills | Linearizer) -> dict[str, Any]:
    """All that acting by the mode needs: sizes, normalisation and weights of the skill policy and the linearizer."""
    if isinstance(agent, Linearizer):
        return {**_common(agent, agent), "latent": None, "skill_policy": None, "linearizer": _linearizer(agent)}
    if not isinstance(agent, Skills):
        raise IbolError("only skills and linearizers can be exported, and this is neither")
    return {
        **_common(agent, agent.linearizer),
        "latent": {"dim": agent.latent_dim, "prior": agent.prior.name},
        "skill_policy": _skill_policy(agent),
        "linearizer": None if agent.linearizer is None else _linearizer(agent.linearizer),
    }


def _common(agent: Skills | Linearizer, linearizer: Linearizer | None) -> dict[str, Any]:
    description = agent.description
    return {
        "format": FORMAT,
        "kind": agent.kind,
        "env": agent.env,
        "state_dim": description.state_dim,
        "action_dim": description.action_dim if linearizer is None else linearizer.description.action_dim,
        "location_dims": list(description.location_dims),
        "macro_length": agent.macro_length,
    }


def _skill_policy(skills: Skills) -> dict[str, Any]:
    """The skill policy: the network sees ((state - mean) / std) * keep, then the latent."""
    description, normalizer = skills.description, skills.normalizer
    keep = np.ones(description.state_dim, np.float32)
    keep[list(description.omitted)] = 0.0
    return {
        "mean": normalizer.mean.astype(np.float32),
        "std": (normalizer.std + 1e-8).astype(np.float32),
        "keep": keep,
        "distortion": description.distortion,
        **_network(skills.network),
    }


def _linearizer(linearizer: Linearizer) -> dict[str, Any]:
    """The linearizer: the network sees what its frame makes of the state and the goal."""
    return {
        "goal_dim": linearizer.goal_dim,
        "frame": _frame(linearizer.frame),
        **_network(linearizer.policy),
    }


def _frame(frame: Frame) -> dict[str, Any]:
    if not isinstance(frame, GoalFrame):
        return {"kind": "world", **{name: np.asarray(getattr(frame, name)) for name in ("mean", "std", "keep")}}
    inverse = np.argsort(np.asarray(frame.action_index), axis=-1)
    return {
        "kind": "goal",
        "mean": np.asarray(frame.mean),
        "std": np.asarray(frame.std),
        "keep": np.asarray(frame.world.keep),
        "goal_std": np.asarray(frame.world.std),
        "angles": np.asarray(frame.angles),
        # For each renaming and each value of a state where it comes from: counted from 1, negative if its sign changes.
        "renamings": [list(row) for row in frame.renamings],
        # Action j of the robot is the network's action `action_from[renaming][j]`, times its sign.
        "action_from": inverse.tolist(),
        "action_sign": np.take_along_axis(np.asarray(frame.action_sign), inverse, -1).astype(int).tolist(),
        # Pairs of values that a turn mixes, and whether by half of its angle.
        "pairs": [[a, b, int(half)] for a, b, half in turning_pairs(frame.num_positions, frame.has_angles)],
        "has_angles": frame.has_angles,
    }


def _network(policy: Any) -> dict[str, Any]:
    """A tanh network: hidden layers, then one head (tanh of it is the mode) or two (those of a Beta distribution)."""
    trunk, heads = policy.network.trunk, policy.network.heads
    if isinstance(policy, TanhGaussianPolicy):
        heads = heads[:1]  # the second is the deviation, which the mode does not need
    elif not isinstance(policy, BetaPolicy):
        raise IbolError(f"a {type(policy).__name__} cannot be exported")
    return {
        "layer_norm": trunk.layer_norm,
        "layers": [_dense(layer) for layer in trunk.layers],
        "heads": [_dense(head) for head in heads],
    }


def _dense(layer: Dense) -> dict[str, Any]:
    return {"weight": np.asarray(layer.weight, np.float32), "bias": np.asarray(layer.bias, np.float32)}


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
    heading = states[..., 5] if frame["has_angles"] else 2 * np.arctan2(states[..., 6], states[..., 3])
    which = np.cos((heading - direction)[..., None] - frame["angles"]).argmax(axis=-1)
    turn = -(direction + frame["angles"][which])
    sign = np.where(np.cos(turn / 2) * states[..., 3] < np.sin(turn / 2) * states[..., 6], -1, 1).astype(np.float32)
    seen = (_turned(frame, states, which, turn, sign) - frame["mean"]) / frame["std"] * frame["keep"]
    if frame["has_angles"]:  # of the heading networks see cosine and sine, in the place of the location
        seen[..., 0], seen[..., 1], seen[..., 5] = np.cos(heading + turn), np.sin(heading + turn), 0.0
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
