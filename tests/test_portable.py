"""Skills and linearizers as plain numbers act as those that they are made from."""

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ibol
from agents import LINEARIZERS, SKILLS, make_skills, random_goals, random_states
from ibol import IbolError, zoo
from ibol.skills.policy import DISTORTIONS, Skills
from ibol.skills.portable import FORMAT, action_of, goal_of, portable

COUNT = 1000


def goals_of(skills: Skills, states: NDArray[np.float32], latents: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the linearizer, or without one the environment, is given."""
    answer = skills.act(states, latents, deterministic=True)
    distortion = DISTORTIONS[skills.description.distortion]
    return answer if distortion is None or skills.linearizer is None else distortion(answer)


@pytest.mark.parametrize("name", LINEARIZERS)
def test_a_linearizer_acts_alike(name: str) -> None:
    linearizer = ibol.load_linearizer(name)
    states, goals = random_states(linearizer, COUNT), random_goals(linearizer, COUNT)
    goals[:3] = 0.0  # asks for nothing: there is no direction to turn to
    actions = linearizer.act(states, goals)
    np.testing.assert_allclose(action_of(portable(linearizer), states, goals), actions, rtol=0, atol=1e-5)
    np.testing.assert_allclose(action_of(portable(linearizer), states[5], goals[5]), actions[5], rtol=0, atol=1e-5)
    assert actions.std(axis=0).min() > 0.05


@pytest.mark.parametrize("name", SKILLS)
def test_skills_answer_alike(name: str) -> None:
    skills = make_skills(**SKILLS[name])
    states, latents = random_states(skills, COUNT), skills.sample_latents(COUNT, seed=1)
    goals = goals_of(skills, states, latents)
    np.testing.assert_allclose(goal_of(portable(skills), states, latents), goals, rtol=0, atol=1e-5)
    assert goals.std(axis=0).min() > 0.05


@pytest.mark.parametrize("name", zoo.names())
def test_bundled_skills_answer_alike(name: str) -> None:
    skills = ibol.load_skills(name)
    states, latents = random_states(skills, COUNT), skills.sample_latents(COUNT, seed=1)
    goals = goals_of(skills, states, latents)
    np.testing.assert_allclose(goal_of(portable(skills), states, latents), goals, rtol=0, atol=1e-5)


def test_what_is_said_of_skills() -> None:
    made = portable(make_skills(**SKILLS["ant, squeezed"]))
    assert (made["format"], made["kind"], made["env"], made["macro_length"]) == (FORMAT, "skills", "ant", 10)
    assert (made["state_dim"], made["action_dim"], made["location_dims"]) == (29, 8, [0, 1])
    assert made["latent"] == {"dim": 2, "prior": "gaussian"}
    assert made["skill_policy"]["keep"].tolist() == [0.0, 0.0, *[1.0] * 27]
    assert made["linearizer"]["goal_dim"] == 29
    assert len(made["linearizer"]["frame"]["renamings"]) == 4


def test_all_of_it_is_json_or_numbers() -> None:
    for agent in (ibol.load_linearizer("ant"), make_skills(**SKILLS["point, one-hot"])):
        arrays: list[Any] = []

        def kept(value: Any, arrays: list[Any] = arrays) -> str:
            arrays.append(value)
            return "array"

        json.dumps(portable(agent), default=kept, allow_nan=False)
        assert {(type(one), one.dtype) for one in arrays} == {(np.ndarray, np.dtype(np.float32))}


def test_other_policies_are_refused() -> None:
    with pytest.raises(IbolError, match="only skills and linearizers can be exported"):
        portable(object())  # type: ignore[arg-type]
