"""DIAYN with discrete skills: its classifier by hand, and such skills wherever skills are used."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Discrete

from ibol.cli import main
from ibol.errors import IbolError
from ibol.figures.keys import latent_colours
from ibol.films.episodes import parse_latents
from ibol.methods import diayn
from ibol.methods.sac_discovery import Observed
from ibol.skills.env import SkillEnv
from ibol.skills.latents import OneHot
from ibol.skills.policy import load_skills


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five skills on the point, trained enough to be told apart."""
    made = tmp_path_factory.mktemp("discrete") / "run"
    learn = ["--epochs", "12", "--episodes-per-epoch", "32", "--gradient-steps", "48", "--batch-size", "64"]
    kept = ["--evaluate-every", "0", "--quiet", "--run-dir", str(made)]
    main(["discover", "point", "--method", "diayn", "--discrete-latents", "5", *learn, *kept])
    return made


def observed(count: int = 6, skills: int = 4) -> Observed:
    rng = np.random.default_rng(0)
    states = jnp.asarray(rng.normal(size=(2, count, 3)).astype(np.float32))
    return Observed(states[0], states[1], jnp.eye(skills)[rng.integers(skills, size=count)])


def test_the_reward_is_the_log_likelihood_ratio_of_the_skill() -> None:
    classifier, seen = diayn.Classifier(3, 4, (8, 8), jax.random.key(0)), observed()
    odds = np.exp(np.asarray(classifier.logits(seen.next_states), np.float64))
    chosen = np.asarray(seen.latents).argmax(axis=1)
    expected = np.log(odds[np.arange(6), chosen] / odds.sum(axis=1)) - np.log(1 / 4)
    np.testing.assert_allclose(diayn.reward(classifier, seen, OneHot(4)), expected, rtol=1e-4, atol=1e-5)
    ignorant = jax.tree.map(jnp.zeros_like, classifier)
    np.testing.assert_allclose(diayn.reward(ignorant, seen, OneHot(4)), 0.0, atol=1e-6)


def test_latents_are_unit_vectors_that_are_all_equally_likely(run: Path) -> None:
    latents = load_skills(run).sample_latents(5000, seed=0)
    assert latents.shape == (5000, 5)
    assert ((latents == 1).sum(axis=1) == 1).all()
    assert (latents != 0).sum() == 5000
    np.testing.assert_allclose(latents.mean(axis=0), 0.2, atol=0.03)


def test_they_are_measured_as_what_they_are(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    scores = tmp_path / "scores.json"
    main(["evaluate", str(run), "--trajectories", "400", "--bins", "8", "--json", str(scores), "--quiet"])
    skills, untrained, random = json.loads(scores.read_text())
    assert "wsepin" not in skills
    assert skills["accuracy"] > 0.6 > untrained["accuracy"]
    assert 2 * untrained["information"] < skills["information"] <= np.log(5), "no more than the skills' own entropy"
    assert abs(random["corrected"]) < 0.1
    assert "corrected I" in capsys.readouterr().out


def test_the_number_of_a_skill_is_the_action_of_its_environment(run: Path) -> None:
    env = SkillEnv(str(run), hold=50)
    assert env.action_space == Discrete(5)
    ends = []
    for skill in range(5):
        env.reset(seed=0)
        ends.append(env.step(skill)[0])
    assert np.std(ends, axis=0).max() > 0.2
    with pytest.raises(IbolError, match="0 to 4"):
        env.step(5)


def test_pictures_films_and_continuation(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["plot", str(run), "--trajectories", "40", "--output", str(tmp_path / "ways.png"), "--quiet"])
    main(["video", str(run), "--latents", "0; 3", "--output", str(tmp_path / "film.png"), "--quiet"])
    main(["report", str(run), "--no-films", "--trajectories", "40", "--output", str(tmp_path / "page.html"), "--quiet"])
    assert (tmp_path / "ways.png").stat().st_size > 10_000
    assert (tmp_path / "film.png").stat().st_size > 1_000
    with pytest.raises(SystemExit) as stopped:
        main(["plot", str(run), "--figure", "boxes", "--output", str(tmp_path / "boxes.png")])
    assert stopped.value.code == 2
    assert "discrete" in capsys.readouterr().err
    main(["resume", str(run), "--epochs", "13", "--quiet"])
    assert load_skills(run).latent_dim == 5


def test_what_is_no_number_of_a_skill_is_refused() -> None:
    np.testing.assert_array_equal(parse_latents("2; 0", OneHot(3)), [[0, 0, 1], [1, 0, 0]])
    assert len(parse_latents("grid", OneHot(50))) == 36
    for text in ("", "3", "-1", "0,1", "one"):
        with pytest.raises(IbolError, match="0 to 2"):
            parse_latents(text, OneHot(3))


def test_at_most_eight_are_chosen_and_their_colours_differ() -> None:
    assert OneHot(50).shown().shape == (8, 50)
    assert OneHot(3).shown().tolist() == np.eye(3).tolist()
    colours = latent_colours(np.eye(10, dtype=np.float32), OneHot(10))
    gaps = np.abs(colours[:, None] - colours[None]).sum(axis=2) + 9 * np.eye(10)
    assert gaps.min() > 0.1


def test_one_skill_is_too_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["discover", "point", "--method", "diayn", "--discrete-latents", "1", "--run-dir", str(tmp_path / "run")])
    assert "at least 2" in capsys.readouterr().err
