"""Skills in numbers, next to those of an untrained policy and of random goals."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibol.errors import IbolError
from ibol.figures.skills import DIRECTIONS, eight_latents
from ibol.learners.rollout import Act, collect
from ibol.metrics.coverage import state_coverage
from ibol.metrics.information import corrected_information, mutual_information
from ibol.metrics.locations import mean_distance, nearest_centroid_accuracy, smallest_sector
from ibol.seeding import derive, generator
from ibol.skills.policy import Skills

Row = dict[str, Any]
_BATCH = 500  # trajectories that are simulated at once


def evaluate_skills(skills: Skills, name: str, *, trajectories: int, bins: int, seed: int) -> list[Row]:
    """Rows for the skills, for the same policy before its training, and for random answers in its place."""
    if not skills.location_dims:
        raise IbolError(f"the skills in {name} have no location to be measured by: give --location-dims to discover")
    rows = []
    for label, policy in ((name, skills), ("  untrained", untrained(skills)), ("  random", None)):
        random = policy is None
        rows.append({"run": label, "env": skills.env, **_scores(policy or skills, trajectories, bins, seed, random)})
    return rows


def untrained(skills: Skills) -> Skills:
    """The same skills before any training."""
    return Skills(skills.description, skills.description.policy_template(), skills.normalizer, skills.linearizer)


def _scores(skills: Skills, trajectories: int, bins: int, seed: int, random: bool) -> Row:
    latents = skills.sample_latents(trajectories, derive(seed, "evaluation"))
    paths = locations(skills, latents, seed=derive(seed, "evaluation"), random=random)
    starts, ends = paths[:, 0], paths[:, -1]
    repeats = max(2, trajectories // 40)
    eight = np.repeat(eight_latents(skills.latent_dim), repeats, axis=0)
    repeated = locations(skills, eight, seed=derive(seed, "accuracy"), random=random)
    row = {
        "information": mutual_information(latents, ends, bins=bins),
        "corrected": corrected_information(latents, ends, bins=bins),
        "accuracy": nearest_centroid_accuracy(repeated[:, -1].reshape(DIRECTIONS, repeats, -1)),
        "coverage": state_coverage(paths),
        "distance": mean_distance(starts, ends),
    }
    if ends.shape[1] == 1:
        return row | {"lowest": float(ends.min()), "highest": float(ends.max())}
    return row | {"smallest_sector": smallest_sector(ends)}


def locations(skills: Skills, latents: NDArray[np.float32], *, seed: int, random: bool = False) -> NDArray[np.float32]:
    """The ways (N, horizon + 1, d) of one episode for each latent, or of random answers in the skill policy's place."""
    found = []
    for start in range(0, len(latents), _BATCH):
        some = latents[start : start + _BATCH]
        act = (
            _random(skills, len(some), seed + start)
            if random
            else skills.controller(some, deterministic=False, seed=seed + start)
        )
        states = collect(skills.make_env(len(some)), act, seed=seed + start).states
        found.append(states[:, :, list(skills.location_dims)])
    return np.concatenate(found)


def _random(skills: Skills, count: int, seed: int) -> Act:
    """Uniform random goals for the linearizer, or uniform random actions."""
    rng = generator(seed, "random policy")
    answers = np.zeros((count, skills.description.action_dim), np.float32)

    def act(obs: NDArray[np.float32], step: int) -> NDArray[np.float32]:
        nonlocal answers
        if step % skills.macro_length == 0:
            answers = rng.uniform(-1, 1, answers.shape).astype(np.float32)
        return answers if skills.linearizer is None else skills.linearizer.act(obs, answers)

    return act
