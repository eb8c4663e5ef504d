"""The priors: densities against closed forms, draws against their moments, what stands for a controller's answers."""

import jax
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from scipy.stats import norm, vonmises_fisher

from ibol.errors import IbolError
from ibol.skills.latents import PRIORS, Gaussian, OneHot, Prior, Sphere

ALL = [Gaussian(3), OneHot(5), Sphere(3), Gaussian(1), Sphere(1), Sphere(2)]


@pytest.mark.parametrize("prior", ALL, ids=repr)
def test_both_ways_of_drawing_have_the_same_moments(prior: Prior) -> None:
    drawn = prior.draw(np.random.default_rng(0), 20_000)
    sampled = np.asarray(jax.jit(lambda key: prior.sample(key, 20_000))(jax.random.key(0)))
    assert drawn.shape == sampled.shape == (20_000, prior.dim)
    np.testing.assert_allclose(drawn.mean(axis=0), sampled.mean(axis=0), atol=0.03)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(sampled.T), atol=0.03)


def test_densities() -> None:
    z = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
    np.testing.assert_allclose(Gaussian(3).log_prob(z), norm.logpdf(z).sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(OneHot(5).log_prob(np.eye(5)), np.log(1 / 5), rtol=1e-6)
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    uniform = vonmises_fisher([1.0, 0, 0], 1e-9).logpdf(unit)  # no preferred direction is left
    np.testing.assert_allclose(Sphere(3).log_prob(unit), uniform, rtol=1e-5)
    np.testing.assert_allclose(Sphere(2).log_prob(unit[:, :2]), np.log(1 / (2 * np.pi)), rtol=1e-6)
    np.testing.assert_allclose(Sphere(1).log_prob(np.ones((1, 1))), np.log(1 / 2), rtol=1e-6)


def test_answers_of_a_controller_become_latents() -> None:
    answers = np.array([[0.5, -1.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(Gaussian(3).from_box(answers, 2.0), 2 * answers)
    np.testing.assert_array_equal(OneHot(3).from_box(answers), [[1, 0, 0], [1, 0, 0]])
    np.testing.assert_allclose(np.linalg.norm(Sphere(3).from_box(answers), axis=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(Sphere(3).from_box(answers)[0], answers[0] / np.sqrt(1.25), rtol=1e-6)


def test_spaces_to_choose_latents_from() -> None:
    assert isinstance(Gaussian(2).action_space(), Box)
    np.testing.assert_allclose(Gaussian(2).from_action([3.0, -1.0]), [2.0, -1.0])
    assert OneHot(4).action_space() == Discrete(4)
    np.testing.assert_array_equal(OneHot(4).from_action(2), [0, 0, 1, 0])
    with pytest.raises(IbolError, match="0 to 3"):
        OneHot(4).from_action(4)


def test_the_shown_latents_are_the_papers() -> None:
    np.testing.assert_allclose(np.linalg.norm(Gaussian(4).shown(), axis=1), 1.5, rtol=1e-6)
    np.testing.assert_allclose(Gaussian(1).shown()[[0, -1], 0], [-1.5, 1.5])
    assert Sphere(1).shown().tolist() == [[-1.0], [1.0]]
    for prior in ALL:
        shown = prior.shown()
        assert len(np.unique(shown, axis=0)) == len(shown) <= 8


def test_priors_with_the_same_name_and_size_are_the_same() -> None:
    assert Gaussian(2) == Gaussian(2)
    assert len({Gaussian(2), Sphere(2), OneHot(2), Gaussian(2), Gaussian(3)}) == 4
    assert {name: kind(2).name for name, kind in PRIORS.items()} == {name: name for name in PRIORS}
