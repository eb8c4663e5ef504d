"""Writes numbers.json: small policies of every kind with what ours answer, for the page's own tests.

python web/test/make_numbers.py
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ibol import make
from ibol.envs.settings import EnvSettings
from ibol.learners.normalizer import Normalizer
from ibol.linearizer.policy import Linearizer, LinearizerDescription
from ibol.page.data import Table
from ibol.skills.policy import DISTORTIONS, SkillDescription, Skills
from ibol.skills.portable import portable

CASES = 6


def numbers() -> dict[str, Any]:
    """Policies with first weights, states, choices and the actions that they answer."""
    rng, table = np.random.default_rng(0), Table()
    cases = []
    for env, frame in (("half_cheetah", "world"), ("ant", "goal"), ("dkitty", "goal")):
        linearizer = _linearizer(env, frame, rng)
        cases.append(_case(f"{env}, {frame} frame", linearizer, rng, table))
    ant = _linearizer("ant", "goal", rng)
    for policy, distortion in (("beta", "none"), ("tanh_gaussian", "squeeze_y")):
        cases.append(_case(f"{policy}, {distortion}", _skills(ant, policy, distortion, rng), rng, table))
    return {"arrays": table.texts, "cases": cases}


def _linearizer(env: str, frame: Any, rng: np.random.Generator) -> Linearizer:
    made = make(env, 1, 1)
    n = made.single_observation_space.shape[0]
    description = LinearizerDescription(
        env=env, state_dim=n, action_dim=made.action_dim, goal_dim=n, location_dims=made.location_dims,
        macro_length=5, hidden=(6, 5), layer_norm=frame == "goal", env_settings=EnvSettings(), frame=frame,
    )  # fmt: skip
    return Linearizer(description, description.policy_template(), _normalizer(n, rng))


def _skills(linearizer: Linearizer, policy: Any, distortion: Any, rng: np.random.Generator) -> Skills:
    n = linearizer.description.state_dim
    description = SkillDescription(
        env=linearizer.env, env_settings=EnvSettings(), state_dim=n, action_dim=linearizer.goal_dim, latent_dim=2,
        location_dims=linearizer.description.location_dims, omitted=(0, 1), hidden=(6, 5), policy=policy,
        distortion=distortion,
    )  # fmt: skip
    return Skills(description, description.policy_template(), _normalizer(n, rng), linearizer)


def _normalizer(n: int, rng: np.random.Generator) -> Normalizer:
    return Normalizer.of(0.1 * rng.standard_normal(n), rng.uniform(0.5, 2, n))


def _case(name: str, agent: Any, rng: np.random.Generator, table: Table) -> dict[str, Any]:
    states = rng.standard_normal((CASES, agent.description.state_dim)).astype(np.float32)
    if isinstance(agent, Skills):
        chosen = agent.sample_latents(CASES, seed=0)
        distort = DISTORTIONS[agent.description.distortion]
        goals = agent.act(states, chosen, deterministic=True)
        assert agent.linearizer is not None
        actions = agent.linearizer.act(states, goals if distort is None else distort(goals))
    else:
        chosen = rng.uniform(-1, 1, (CASES, agent.goal_dim)).astype(np.float32)
        actions = agent.act(states, chosen)
    arrays = {"states": states, "chosen": chosen, "actions": actions}
    return {"name": name, "agent": table.stored(portable(agent)), **{key: one.tolist() for key, one in arrays.items()}}


if __name__ == "__main__":
    Path(__file__).with_name("numbers.json").write_text(json.dumps(numbers(), separators=(",", ":")) + "\n")
