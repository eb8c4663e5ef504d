"""Measures of skills against closed forms and published anchors."""

import numpy as np
import pytest

from ibol.errors import IbolError
from ibol.metrics.coverage import state_coverage, unit_coverage
from ibol.metrics.directions import principal_directions
from ibol.metrics.information import corrected_information, entropy, mutual_information, quantize
from ibol.metrics.locations import location_spread, mean_distance, nearest_centroid_accuracy, smallest_sector

RANGE = np.array([[-4.2, -4.2], [4.2, 4.2]])


def test_bins_are_equal_and_closed_at_the_top() -> None:
    values = np.array([[0.0], [0.24], [0.26], [1.0]])
    assert quantize(values, 4)[:, 0].tolist() == [0, 0, 1, 3]
    assert quantize(values, 4, np.array([[-1.0], [1.0]]))[:, 0].tolist() == [2, 2, 2, 3]
    assert quantize(np.ones((3, 2)), 4).tolist() == [[0, 0]] * 3, "a constant fills one bin"


def test_entropies_of_known_distributions() -> None:
    assert entropy(np.repeat(np.arange(8), 5)[:, None]) == pytest.approx(np.log(8))
    assert entropy(np.zeros((9, 2), int)) == 0


def test_information_of_a_permutation_is_its_entropy() -> None:
    a = np.repeat(np.arange(8.0), 25)[:, None]
    b = (5 * a) % 8
    assert mutual_information(a, b, bins=8) == pytest.approx(np.log(8))
    assert mutual_information(a, 0 * b, bins=8) == pytest.approx(0)


def test_information_of_a_gaussian_channel() -> None:
    """I = -log(1 - rho^2) / 2; fine bins and many samples come near it."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((400_000, 1))
    for rho in (0.3, 0.8):
        b = rho * a + np.sqrt(1 - rho**2) * rng.standard_normal(a.shape)
        exact = -0.5 * np.log(1 - rho**2)
        assert corrected_information(a, b, bins=64, shuffles=3) == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda z, rng: z, 5.39),
        (lambda z, rng: z @ np.array([[1, 1], [-1, 1]]) / np.sqrt(2), 4.62),
        (lambda z, rng: z + 0.3 * rng.standard_normal(z.shape), 3.55),
        (lambda z, rng: rng.standard_normal(z.shape), 3.23),
        (lambda z, rng: z / 10, 1.47),
    ],
)
def test_the_published_estimator_with_2000_samples(made: object, expected: float) -> None:
    rng = np.random.default_rng(1)
    z = rng.standard_normal((2000, 2))
    assert mutual_information(z, made(z, rng), limits=(RANGE, RANGE)) == pytest.approx(expected, abs=0.1)


def test_the_correction_leaves_nothing_of_independence() -> None:
    rng = np.random.default_rng(2)
    z, s = rng.standard_normal((2, 2000, 2))
    assert abs(corrected_information(z, s)) < 0.05
    assert corrected_information(z[:, :1], z[:, :1]) > 2


def test_samples_must_be_rows() -> None:
    with pytest.raises(IbolError, match=r"shape \(5,\)"):
        mutual_information(np.zeros(5), np.zeros((5, 1)))


def test_skills_that_can_be_told_apart() -> None:
    rng = np.random.default_rng(0)
    centres = rng.uniform(-10, 10, (8, 1, 2))
    assert nearest_centroid_accuracy(centres + 0.01 * rng.standard_normal((8, 50, 2))) == 1
    assert nearest_centroid_accuracy(rng.standard_normal((8, 50, 2))) < 0.25
    assert nearest_centroid_accuracy(rng.standard_normal((8, 2, 2))) < 0.5, "an end does not vote for itself"


def test_sectors_and_distances() -> None:
    angle = np.arange(120) * 2 * np.pi / 120 + 0.01
    around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert smallest_sector(around) == pytest.approx(1 / 12)
    assert smallest_sector(np.abs(around)) == 0
    assert mean_distance(np.zeros((120, 2)), 3 * around) == pytest.approx(3)
    assert location_spread(3 * around + 5) == pytest.approx(3)


def test_coverage_counts_cells() -> None:
    line = np.linspace(0, 1, 33)[None, :, None]
    assert state_coverage(line) == 32
    assert state_coverage(line, np.array([[-1.0], [1.0]])) == 16


def test_cells_of_a_metre_are_counted_by_hand() -> None:
    paths = np.array([[[0.5, 0.5], [0.9, 0.1], [1.0, 0.5]], [[-0.1, 0.5], [-0.0, 0.99], [-0.9, -1.0]]], np.float32)
    # (0, 0) three times, once as -0.0; (1, 0), (-1, 0) and (-1, -1) once each.
    assert unit_coverage(paths) == 4
    assert unit_coverage(paths[:, :, :1]) == 3, "x alone: 0, 1 and -1"
    assert unit_coverage(10 * paths) == 6


def test_principal_directions_are_those_of_normalised_final_states() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 4000))
    # In units of a thousandth and of a thousand, and a dimension that never changes.
    ends = np.stack([1e-3 * first + 5, 1e3 * first, 7 * second, np.full(4000, 3.0), -first], axis=1)
    found = principal_directions(ends)
    assert found.explained == pytest.approx(1.0)
    seen = found(ends)
    assert abs(np.corrcoef(seen[:, 0], first)[0, 1]) > 0.999, "three of four dimensions are the first variable"
    assert abs(np.corrcoef(seen[:, 1], second)[0, 1]) > 0.999
    np.testing.assert_allclose(seen.std(axis=0), [np.sqrt(3), 1], rtol=0.02)
    moved = principal_directions(ends * [1e6, 1, 1, 1, 1] + 9)
    np.testing.assert_allclose(moved(ends * [1e6, 1, 1, 1, 1] + 9), seen, atol=1e-3)
    assert found(ends.reshape(40, 100, 5)).shape == (40, 100, 2)


def test_directions_of_few_or_of_the_same_states() -> None:
    assert principal_directions(np.arange(5.0)[:, None])(np.zeros((3, 1))).shape == (3, 1)
    still = principal_directions(np.full((6, 3), 2.0))
    assert still.explained == 0.0
    np.testing.assert_array_equal(still(np.full((6, 3), 2.0)), np.zeros((6, 2)))
