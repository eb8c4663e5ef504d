"""What the page shows, as JSON: runs, each with its agent, its body and the latents that can be chosen."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ibol.errors import IbolError
from ibol.linearizer.policy import BUNDLED, BUNDLED_PREFIX, Linearizer, load_linearizer
from ibol.page.body import body_of
from ibol.robots import known_as
from ibol.runs import checkpoint
from ibol.skills.latents import COLOUR_RANGE, COLOUR_SCALE, LATENT_RANGE, RADIUS
from ibol.skills.policy import Skills
from ibol.skills.portable import portable
from ibol.training.launch import agent_of, method_of, open_run
from ibol.zoo import locate

MOST = 6
"""Runs on one page: each has a picture of its own, and a browser has only so many."""
_KINDS = ("skills", "linearizer")


def page_data(names: Sequence[str]) -> dict[str, Any]:
    """The data of a page about these runs, bundled skills (`ant:diayn`) and linearizers (`linearizer:ant`)."""
    if not names:
        raise IbolError("name at least one run, or bundled skills such as 'ant', to make a page of")
    chosen = list(dict.fromkeys(names))
    if len(chosen) > MOST:
        raise IbolError(f"{len(chosen)} runs are too many for one page: give at most {MOST}")
    return collected([describe(shown, *load(name)) for name, shown in zip(chosen, _shown(chosen), strict=True)])


def collected(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The data of a page about described runs."""
    table = Table()
    colours = {"scale": COLOUR_SCALE, "range": COLOUR_RANGE, "radius": RADIUS}
    return {"colours": colours, "runs": [table.stored(run) for run in runs], "arrays": table.texts}


class Table:
    """Arrays as base64 text, each different one once: runs may share a linearizer."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._places: dict[bytes, int] = {}

    def stored(self, value: Any) -> Any:
        """`value` with a reference in the place of each array."""
        if isinstance(value, np.ndarray):
            wide = value.dtype == np.float64
            data = np.ascontiguousarray(value, "<f8" if wide else "<f4").tobytes()
            if data not in self._places:
                self._places[data] = len(self.texts)
                self.texts.append(base64.b64encode(data).decode())
            return {"array": self._places[data], "type": "float64" if wide else "float32"}
        if isinstance(value, Mapping):
            return {key: self.stored(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.stored(one) for one in value]
        return value


def describe(name: str, agent: Skills | Linearizer, title: str, trained_with: str) -> dict[str, Any]:
    """A run as the page has it: what acts, what is simulated and what can be chosen."""
    env = agent.make_env(1)
    body, notes = body_of(env)
    if agent.kind == "skills":
        notes.append("The skill policy acts by its mode, without samples.")
    return {
        "name": name,
        "title": title,
        "env": known_as(agent.env),
        "trained_with": trained_with,
        "agent": portable(agent),
        "space": _space(agent),
        "body": body,
        "notes": notes,
    }


def load(name: str) -> tuple[Skills | Linearizer, str, str]:
    """What acts, what it is called, and the version of MuJoCo that it was trained with."""
    if name.startswith(BUNDLED_PREFIX):
        agent = load_linearizer(name)
        env, _, seed = name.removeprefix(BUNDLED_PREFIX).partition(":")
        made = checkpoint.load(BUNDLED / f"{env}-{seed or 0}.safetensors", lambda _: False)[1].get("provenance", {})
        return agent, "linearizer", str(made.get("versions", {}).get("mujoco", ""))
    run = open_run(locate(name))
    if "skills" not in run.config and run.command != "linearize":
        raise IbolError(
            f"{name} is a run of 'ibol {run.command}', without latents to choose: "
            "give runs of 'ibol discover' or 'ibol linearize', bundled skills such as 'ant', or linearizer:NAME"
        )
    agent = agent_of(run)
    assert agent.kind in _KINDS
    title = "linearizer" if agent.kind == "linearizer" else method_of(run).title
    return agent, title, str(run.config["versions"].get("mujoco", ""))


def _shown(names: Sequence[str]) -> list[str]:
    """What runs are called: bundled ones by name, others by the last part of their path where that is enough."""
    short = [name if name.startswith(BUNDLED_PREFIX) else Path(name).name or name for name in names]
    return short if len(set(short)) == len(short) else list(names)


def _space(agent: Skills | Linearizer) -> dict[str, Any]:
    """What the user chooses: a latent, or for a linearizer the goal."""
    if isinstance(agent, Linearizer):
        pad = [dim for dim in agent.description.location_dims if dim < agent.goal_dim][:2]
        return {"kind": "goal", "dim": agent.goal_dim, "pad": pad or [0], "limit": 1.0, "sign": "g"}
    dim, prior = agent.latent_dim, agent.prior.name
    limit = LATENT_RANGE if prior == "gaussian" else 1.0
    return {"kind": prior, "dim": dim, "pad": list(range(min(2, dim))), "limit": limit, "sign": "z"}
