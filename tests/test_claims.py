"""What results say of the claims: intervals by hand and by SciPy, and results that are made up to decide them."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ibol.experiments.cells import Cell
from ibol.experiments.claims import CLAIMS, Verdict, verdicts_of
from ibol.experiments.measures import circular_variance
from ibol.experiments.model import Entry, paper_experiment
from ibol.experiments.results import Result
from ibol.experiments.statistics import Run, above, bootstrap, compare, decided, together, welch

PAPER = {entry.name: entry for entry in paper_experiment("fast").entries}
ENTRY_OF = {claim: entry for entry in PAPER.values() for claim in entry.about.claims}


def test_the_interval_is_welchs() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 1, 8), rng.normal(0, 2, 5)
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert welch([(list(a), list(b))]) == pytest.approx((expected.low, expected.high))
    assert welch([([1.0], [1.0, 2.0])]) is None


def test_differences_between_linearizers_do_not_count_where_both_sides_stand_on_the_same_ones() -> None:
    def runs(*values: float) -> list[Run]:
        return [Run(value, "good" if i < 2 else "bad") for i, value in enumerate(values)]

    found = compare("x", runs(11.0, 11.2, 1.0, 1.2), runs(10.0, 10.2, 0.0, 0.2))
    assert found.difference == pytest.approx(1.0)
    assert found.paired
    # Each side has a variance of 0.02 / 2 on both linearizers: a standard error of 0.1, with 4 degrees of freedom.
    half = float(stats.t.ppf(0.975, 4)) * 0.1
    assert found.interval == pytest.approx((1 - half, 1 + half))
    assert found.verdict == "supported"
    mixed = [Run(run.value, str(i)) for i, run in enumerate(runs(11.0, 11.2, 1.0, 1.2))]
    unpaired = compare("x", mixed, runs(10.0, 10.2, 0.0, 0.2))
    assert (unpaired.paired, unpaired.verdict) == (False, "undecided")


def test_few_runs_decide_nothing() -> None:
    two, three = [Run(10.0), Run(10.1)], [Run(0.0), Run(0.1), Run(0.2)]
    assert compare("x", two, three).verdict == "undecided"
    assert compare("x", [*two, Run(10.2)], three).verdict == "supported"
    assert compare("x", three, [*two, Run(10.2)]).verdict == "contradicted"
    assert "missing" in compare("x", [], three).what
    assert above("x", three, 0.5).verdict == "contradicted"
    assert above("x", three, -0.5).verdict == "supported"
    assert above("x", [], 0.0).verdict == "undecided"


def test_parts_make_a_whole() -> None:
    assert decided((0.1, 0.2)) == "supported"
    assert decided((-0.2, -0.1)) == "contradicted"
    assert decided((-0.1, 0.1)) == "undecided"
    assert together(["supported", "contradicted", "undecided"]) == "contradicted"
    assert together(["supported", "undecided"]) == "undecided"
    assert together(["supported", "supported"]) == "supported"
    assert together([]) == "undecided"


def test_the_bootstrap_covers_the_mean() -> None:
    values = {"a": np.random.default_rng(1).normal(3.0, 1.0, (50, 1))}
    low, high = bootstrap(values, lambda drawn: drawn["a"].mean(axis=(1, 2)))
    assert low < values["a"].mean() < high
    assert high - low == pytest.approx(2 * 1.96 / np.sqrt(50), rel=0.3)


def test_headings_in_all_directions_vary_most() -> None:
    turns = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    assert circular_variance(np.stack([np.cos(turns), np.sin(turns)], axis=1)) == pytest.approx(1.0)
    assert circular_variance(np.array([[2.0, 0.0], [5.0, 0.0]])) == pytest.approx(0.0)
    assert circular_variance(np.array([[1.0, 0.0], [0.0, 1.0]])) == pytest.approx(1 - np.sqrt(0.5))


# Made-up results.

MEASURES = (
    "information", "wsepin", "sepin@1", "corrected", "corrected_wsepin", "corrected_sepin@1", "neighbour_information",
    "neighbour_wsepin", "neighbour_sepin@1", "coverage", "accuracy", "smallest_sector", "return_std", "return_range",
    "vertical_reach", "heading_variance", "last_return", "return_mean",
)  # fmt: skip


def judged(claim: str, favoured: Callable[[Cell], float], spread: float = 0.01) -> Verdict:
    """The verdict if all numbers of a run are as favoured, but for a little noise."""
    entry, rng = ENTRY_OF[claim], np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for cell in entry.cells:
        value = favoured(cell) + rng.normal(0, spread if cell.method == "ibol" or claim != "C10" else 10 * spread)
        for bins in entry.about.bins:
            row: dict[str, Any] = dict.fromkeys(MEASURES, value) | {"linearizer_heading_variance": 0.5}
            rows.append({**row, "env": cell.env, "bins": bins, "cell": cell.name, "run": str(cell.place)})
    (verdict,) = [one for one in verdicts_of([result_of(entry, rows)]) if one.claim == claim]
    return verdict


def result_of(entry: Entry, rows: list[dict[str, Any]]) -> Result:
    return Result(entry, entry.cells, tuple(rows))


def wins(claim: str) -> Callable[[Cell], float]:
    """What the paper says: 1 for those that shall be first, 0 for the others."""

    def value(cell: Cell) -> float:
        settings, skills = cell.settings, cell.sources.get("skills")
        if claim == "C1":
            return float((settings["reward"], settings["macro_length"]) == ("inner_product", 10))
        if claim == "C2":
            return float(cell.linearizer != "none")
        if claim == "C5":
            return float(skills is not None and skills.method == "ibol")
        if claim == "C7":
            return float(settings["beta"] == 2.25e-3) * (1.0 if settings["lambda_"] == 1.5 else 0.6)
        return float(cell.method == "ibol")

    return value


@pytest.mark.parametrize("claim", list(CLAIMS))
def test_results_as_the_paper_says_support_its_claims(claim: str) -> None:
    verdict = judged(claim, wins(claim))
    assert verdict.verdict == "supported", [one for parts in verdict.by.values() for one in parts]
    assert verdict.runs == len(ENTRY_OF[claim].cells)
    row = json.loads(json.dumps(verdict.row()))
    comparisons = [one for by in row["by_estimator"].values() for one in by["comparisons"]]
    assert comparisons
    assert all(one["interval_95"][0] <= one["difference"] <= one["interval_95"][1] for one in comparisons)
    assert row["rule"].startswith(("for every comparison", "the 95 %"))


@pytest.mark.parametrize("claim", [name for name in CLAIMS if name != "C10"])
def test_results_that_say_the_opposite_contradict_them(claim: str) -> None:
    verdict = judged(claim, lambda cell: 0.0 - wins(claim)(cell))
    assert verdict.verdict == "contradicted"


@pytest.mark.parametrize("claim", [name for name in CLAIMS if name not in ("C7", "C8", "C10")])
def test_noise_decides_nothing(claim: str) -> None:
    verdict = judged(claim, lambda cell: 0.0, spread=1.0)
    assert verdict.verdict != "supported"


def test_deviations_are_compared_by_their_ratio() -> None:
    verdict = judged("C10", wins("C10"))
    for parts in verdict.by.values():
        for one in parts:
            assert one.difference == pytest.approx(np.log(10), abs=0.8)


def test_one_robot_on_which_another_is_first_contradicts_the_claim_for_each() -> None:
    def value(cell: Cell) -> float:
        return wins("C3")(cell) if cell.env != "hopper" else float(cell.method == "dads")

    verdict = judged("C3", value)
    assert verdict.verdict == "contradicted"
    wrong = {one.what.split(" on ")[1] for one in verdict.by["published"] if one.verdict == "contradicted"}
    assert wrong == {"hopper: IBOL against DADS-L"}


def test_estimators_that_disagree_leave_it_undecided() -> None:
    verdict = judged("C3", wins("C3"))
    by = dict(verdict.by)
    by["published"] = [dataclasses.replace(one, verdict="undecided") for one in by["published"]]
    other = dataclasses.replace(verdict, by=by)
    assert other.words == {"published": "undecided", "minus chance": "supported", "from neighbours": "supported"}
    assert other.verdict == "undecided"


def test_without_runs_nothing_is_decided() -> None:
    for name, entry in ENTRY_OF.items():
        for verdict in verdicts_of([Result(entry, ())]):
            assert (verdict.verdict, verdict.runs) == ("undecided", 0), name
