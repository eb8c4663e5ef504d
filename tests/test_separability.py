"""The paper's measures and our corrections of them, against closed forms and the anchors of 2000 samples."""

import numpy as np
import pytest

from ibol.errors import IbolError
from ibol.metrics.information import entropy, mutual_information, neighbour_information, pooled_limits
from ibol.metrics.separability import Separability, corrected_separability, neighbour_separability, separability
from ibol.metrics.spread import bootstrap_interval, return_diversity

RANGE = np.array([[-4.2, -4.2], [4.2, 4.2]])
BINS = (8, 16, 32, 64, 128)
TURN = np.array([[1, 1], [-1, 1]]) / np.sqrt(2)
# I, SEPIN@1 and WSEPIN of 2000 samples with 8, 16, 32, 64 and 128 bins; they hold to 0.1 for one draw.
ANCHORS = {
    "same": "2.80/1.40/1.40 4.12/2.05/2.04 5.39/2.64/2.63 6.50/3.06/3.06 7.21/3.10/3.09",
    "turned": "1.89/.95/.95 3.20/1.60/1.59 4.62/2.27/2.27 5.98/2.83/2.83 7.00/3.00/3.00",
    "noisy": "1.60/.82/.81 2.36/1.23/1.22 3.55/1.98/1.97 5.47/2.89/2.89 6.83/3.07/3.06",
    "independent": ".20/.16/.15 1.09/.86/.85 3.23/2.25/2.24 5.39/3.00/2.99 6.79/3.09/3.08",
    "small": "1.39/.69/.69 1.39/.69/.69 1.47/.73/.72 2.40/1.16/1.16 3.68/1.69/1.68",
}
LINE_ANCHORS = {"first": (2.75, 2.63, 2.52), "sum": (2.34, 1.92, 1.91), "independent": (0.98, 0.87, 0.86)}


def outcome(case: str, z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return {
        "same": z,
        "turned": z @ TURN,
        "noisy": z + 0.3 * rng.standard_normal(z.shape),
        "independent": rng.standard_normal(z.shape),
        "small": z / 10,
    }[case]


def values(found: Separability) -> tuple[float, float, float]:
    return found.information, found.sepin, found.wsepin


@pytest.mark.parametrize("case", list(ANCHORS))
@pytest.mark.parametrize("seed", [0, 1])
def test_the_published_measures_with_2000_samples(case: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((2000, 2))
    s = outcome(case, z, rng)
    for bins, expected in zip(BINS, ANCHORS[case].split(), strict=True):
        found = separability(z, s, bins=bins, limits=(RANGE, RANGE))
        assert values(found) == pytest.approx([float(number) for number in expected.split("/")], abs=0.1), bins


@pytest.mark.parametrize("case", list(LINE_ANCHORS))
def test_the_published_measures_on_a_line(case: str) -> None:
    rng = np.random.default_rng(3)
    z = rng.standard_normal((2000, 2))
    s = {"first": z[:, :1], "sum": z @ TURN[:, :1] * [[1]], "independent": rng.standard_normal((2000, 1))}[case]
    found = separability(z, s, limits=(RANGE, RANGE[:, :1]))
    assert values(found) == pytest.approx(LINE_ANCHORS[case], abs=0.1)


def test_skills_that_do_not_heed_the_latent_are_worth_nothing_after_correction() -> None:
    rng = np.random.default_rng(2)
    z, s = rng.standard_normal((2, 2000, 2))
    for bins in BINS:
        assert values(corrected_separability(z, s, bins=bins)) == pytest.approx((0, 0, 0), abs=0.06)


def test_gaussian_channels_have_their_closed_forms() -> None:
    """S = a Z_1 + b Z_2 + noise: everything follows from variances."""
    rng = np.random.default_rng(0)
    z, (a, b) = rng.standard_normal((400_000, 2)), (1.0, 0.5)
    s = z @ [[a], [b]] + rng.standard_normal((len(z), 1))
    variance = a**2 + b**2 + 1
    information = np.log(variance) / 2
    separate = np.log([1 + a**2, 1 + b**2]) / 2
    alone = -np.log(1 - np.array([a**2, b**2]) / variance) / 2
    expected = (information, separate.max(), (alone * separate).sum() / alone.sum())
    found = corrected_separability(z, s, bins=40, shuffles=1)
    assert values(found) == pytest.approx(expected, abs=0.02)
    mean = separability(z, s, bins=40, k=2).sepin
    assert mean == pytest.approx(separate.mean(), abs=0.1)
    assert mean < separability(z, s, bins=40, k=1).sepin


def test_neighbours_see_what_each_dimension_says() -> None:
    rng = np.random.default_rng(4)
    z = rng.standard_normal((20_000, 2))
    s = z @ [[1.0], [0.5]] + rng.standard_normal((len(z), 1))
    separate, alone = np.log([2.0, 1.25]) / 2, -np.log(1 - np.array([1.0, 0.25]) / 2.25) / 2
    expected = (np.log(2.25) / 2, separate[0], (alone * separate).sum() / alone.sum())
    assert values(neighbour_separability(z, s)) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("noise", [1.0, 2.0])
def test_neighbours_see_the_information_of_gaussian_channels(dims: int, noise: float) -> None:
    rng = np.random.default_rng(dims)
    z = rng.standard_normal((10_000, dims))
    e = noise * rng.standard_normal(z.shape)
    exact = dims * np.log(1 + noise**-2) / 2
    # The mean of the log-density ratio has the luck of these very samples in it.
    luck = ((z + e) ** 2 / (1 + noise**2) - (e / noise) ** 2).sum(axis=1).mean() / 2
    assert abs(luck) < 0.05
    assert neighbour_information(z, 100 * (z + e)) == pytest.approx(exact + luck, abs=0.02)


def test_neighbours_see_nothing_in_independence() -> None:
    rng = np.random.default_rng(5)
    z, s = rng.standard_normal((2, 10_000, 2))
    assert neighbour_information(z, s) == pytest.approx(0, abs=0.02)
    assert neighbour_information(z, np.zeros((10_000, 1))) == pytest.approx(0, abs=0.02), "a constant says nothing"


def test_a_permutation_of_cells_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(0, 4, (4000, 2))
    relabel = np.array([2, 0, 3, 1])
    both = separability(z, relabel[z], bins=4)
    assert values(both) == pytest.approx(values(separability(z, z, bins=4)))
    assert both.information == pytest.approx(entropy(z))
    order = rng.permutation(len(z))
    assert values(separability(z[order], relabel[z][order], bins=4)) == pytest.approx(values(both))
    turned = separability(z[:, ::-1], relabel[z], bins=4)
    assert values(turned) == pytest.approx(values(both)), "neither does the order of the dimensions"


def test_one_latent_dimension_separates_all_that_it_says() -> None:
    z = np.repeat(np.arange(8.0), 25)[:, None]
    assert values(separability(z, -z, bins=8)) == pytest.approx([np.log(8)] * 3)
    assert values(separability(z, 0 * z, bins=8)) == (0, 0, 0)


def test_many_dimensions_do_not_overflow() -> None:
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((500, 12))
    assert mutual_information(wide, wide, bins=128) == pytest.approx(np.log(500))


def test_limits_are_pooled_over_all_runs() -> None:
    runs = [np.array([[0.0, 5.0], [1.0, 2.0]]), np.array([[[-3.0, 4.0]], [[0.5, 9.0]]])]
    assert pooled_limits(runs).tolist() == [[-3.0, 2.0], [1.0, 9.0]]


def test_what_cannot_be_measured_is_refused() -> None:
    z = np.zeros((10, 2))
    for wrong, match in (
        (lambda: separability(z, z, k=3), "1 to 2"),
        (lambda: separability(z, z[:5]), "pairs"),
        (lambda: separability(z, z * np.nan), "finite"),
        (lambda: separability(z, z, bins=0), "at least 2"),
        (lambda: neighbour_information(z, z, neighbours=10), "1 to 9"),
        (lambda: bootstrap_interval([]), "at least one"),
    ):
        with pytest.raises(IbolError, match=match):
            wrong()


def test_intervals_and_spreads() -> None:
    assert bootstrap_interval([2.0, 2.0, 2.0]) == (2.0, 2.0)
    rng = np.random.default_rng(0)
    low, high = bootstrap_interval(rng.standard_normal(400))
    # The mean of 400 standard normal numbers has a standard deviation of 1 / 20.
    assert high - low == pytest.approx(2 * 1.96 / 20, rel=0.1)
    assert return_diversity(np.array([1.0, 3.0, 5.0])) == pytest.approx((np.sqrt(8 / 3), 4.0))
