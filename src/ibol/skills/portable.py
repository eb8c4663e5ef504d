"""Skills and linearizers as plain numbers, for programs that have neither JAX nor this package.

`portable(agent)` gives nested dictionaries of JSON values and float32 arrays: what the page in a browser, the ONNX
graphs and the `.npz` files are made from. `goal_of` and `action_of` (`numpy_policy.py`) say in NumPy what such a
program has to compute.
"""

from typing import Any

import numpy as np

from ibol.errors import IbolError
from ibol.linearizer.frame import Frame, GoalFrame, turning_pairs
from ibol.linearizer.policy import Linearizer
from ibol.nn.networks import BetaPolicy, Dense, TanhGaussianPolicy
from ibol.skills.numpy_policy import action_of, goal_of
from ibol.skills.policy import Skills

__all__ = ["FORMAT", "action_of", "goal_of", "portable"]
FORMAT = 1


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
        "distortion": "none" if skills.linearizer is None else description.distortion,
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
        "pairs": [[a, b, int(half)] for a, b, half in turning_pairs(frame.num_positions, frame.heading)],
        "has_angles": frame.heading is not None,
        "heading": frame.heading,  # where its angle is, if it is not in a quaternion
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
