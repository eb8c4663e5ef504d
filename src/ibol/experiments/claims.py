"""The ten claims of the paper, each a small function of the results, with the rule that decides it."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ibol.evaluation.rows import Row
from ibol.experiments.cells import Cell
from ibol.experiments.results import Result
from ibol.experiments.statistics import (
    LEAST,
    RULE,
    Comparison,
    Run,
    Word,
    above,
    bootstrap,
    compare,
    decided,
    together,
)
from ibol.metrics.catalogue import find_metric

ESTIMATORS = {
    "published": ("information", "wsepin", "sepin@1"),
    "minus chance": ("corrected", "corrected_wsepin", "corrected_sepin@1"),
    "from neighbours": ("neighbour_information", "neighbour_wsepin", "neighbour_sepin@1"),
}
RIVALS = ("diayn", "valor", "dads")
_NEVER = 1e-9


@dataclass(frozen=True)
class Sample:
    """A row of a run with its cell."""

    cell: Cell
    row: Row


@dataclass(frozen=True)
class Samples:
    """The measured runs of an entry."""

    all: tuple[Sample, ...]

    def runs(self, measure: str, choose: Callable[[Cell], bool], bins: int | None = None) -> list[Run]:
        """The number of each run that is chosen."""
        return [
            Run(float(one.row[measure]), one.cell.linearizer)
            for one in self.all
            if choose(one.cell)
            and isinstance(one.row.get(measure), int | float)
            and bins in (None, one.row.get("bins"))
        ]

    @property
    def envs(self) -> list[str]:
        """Each once."""
        return list(dict.fromkeys(one.cell.env for one in self.all))

    @property
    def bins(self) -> list[int]:
        """Each once."""
        return sorted({one.row["bins"] for one in self.all if isinstance(one.row.get("bins"), int)})


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and how it is decided."""

    name: str
    statement: str
    rule: str
    judge: Callable[[Samples], dict[str, list[Comparison]]]
    """Comparisons by estimator."""


@dataclass(frozen=True)
class Verdict:
    """What the results say of a claim."""

    claim: str
    statement: str
    rule: str
    entry: str
    preset: str
    runs: int
    by: dict[str, list[Comparison]] = field(default_factory=dict)

    @property
    def words(self) -> dict[str, Word]:
        """The verdict by each estimator."""
        return {name: together([one.verdict for one in parts]) for name, parts in self.by.items()}

    @property
    def verdict(self) -> Word:
        """What all estimators agree on; where they do not, it is undecided."""
        words = set(self.words.values())
        return words.pop() if len(words) == 1 else "undecided"

    def row(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "claim": self.claim, "statement": self.statement, "verdict": self.verdict, "rule": self.rule,
            "entry": self.entry, "preset": self.preset, "runs": self.runs,
            "by_estimator": {
                name: {"verdict": self.words[name], "comparisons": [one.row() for one in parts]}
                for name, parts in self.by.items()
            },
        }  # fmt: skip


def verdicts_of(results: Sequence[Result]) -> Iterator[Verdict]:
    """A verdict for each claim of the entries that were carried out, in the order of the claims."""
    found = [(CLAIMS[name], result) for result in results for name in result.entry.about.claims]
    for claim, result in sorted(found, key=lambda pair: int(pair[0].name[1:])):
        cells = {cell.name: cell for cell in result.cells}
        rows = [row for row in result.rows if row.get("cell") in cells]
        samples = Samples(tuple(Sample(cells[row["cell"]], row) for row in rows))
        preset = result.cells[0].preset if result.cells else ""
        yield Verdict(
            claim.name, claim.statement, claim.rule, result.entry.name, preset, len(cells), claim.judge(samples)
        )


def _is(method: str, env: str, **settings: Any) -> Callable[[Cell], bool]:
    return lambda cell: (
        cell.method == method
        and cell.env == env
        and all(cell.settings.get(name) == value for name, value in settings.items())
    )


def _title(measure: str) -> str:
    return find_metric(measure).header


def _linearizer_rewards(samples: Samples) -> dict[str, list[Comparison]]:
    def of(reward: str, length: int) -> list[Run]:
        return samples.runs("coverage", _is("linearize", "ant", reward=reward, macro_length=length))

    others = [("inner_product", 1), ("inner_product", 100), ("euclidean", 1), ("euclidean", 10)]
    return {
        "coverage": [
            compare(
                f"coverage: inner product l=10 against {reward.replace('_', ' ')} l={length}",
                of("inner_product", 10),
                of(reward, length),
            )
            for reward, length in others
        ]
    }


def _lift(samples: Samples) -> dict[str, list[Comparison]]:
    def both(measure: str, method: str) -> Comparison:
        raw = lambda cell: cell.method == method and cell.linearizer == "none"  # noqa: E731
        on_it = lambda cell: cell.method == method and cell.linearizer != "none"  # noqa: E731
        what = f"{_title(measure)}: {method.upper()}-L against {method.upper()}-XY"
        return compare(what, samples.runs(measure, on_it), samples.runs(measure, raw))

    return {
        name: [both(measure, method) for method in RIVALS for measure in ("coverage", measures[0])]
        for name, measures in ESTIMATORS.items()
    }


def _first(samples: Samples, bins: int | None = None) -> dict[str, list[Comparison]]:
    """IBOL against each rival in each measure on each robot."""
    suffix = "" if bins is None else f", {bins} bins"
    return {
        name: [
            compare(
                f"{_title(measure)} on {env}{suffix}: IBOL against {rival.upper()}-L",
                samples.runs(measure, _is("ibol", env), bins),
                samples.runs(measure, _is(rival, env), bins),
            )
            for env, measure, rival in itertools.product(samples.envs, measures, RIVALS)
        ]
        for name, measures in ESTIMATORS.items()
    }


def _first_for_all_bins(samples: Samples) -> dict[str, list[Comparison]]:
    every = [_first(samples, bins) for bins in samples.bins]
    # The estimator from neighbours has no bins: C3 has what it says.
    return {name: [one for found in every for one in found[name]] for name in ("published", "minus chance")}


def _tasks(samples: Samples) -> dict[str, list[Comparison]]:
    def solved(cell: Cell) -> str:
        return cell.sources["skills"].method if "skills" in cell.sources else "sac"

    def of(measure: str, env: str, who: str) -> list[Run]:
        return samples.runs(measure, lambda cell: cell.env == env and solved(cell) == who)

    measures = {"while exploring, as published": "last_return", "of the controller's mode": "return_mean"}
    return {
        name: [
            compare(
                f"{_title(measure)} on {env}: IBOL against {rival.upper()}{'-L' if rival != 'sac' else ''}",
                of(measure, env, "ibol"),
                of(measure, env, rival),
            )
            for env in samples.envs
            for rival in (*RIVALS, "sac")
        ]
        for name, measure in measures.items()
    }


def _returns(samples: Samples) -> dict[str, list[Comparison]]:
    return {
        measure.replace("_", " "): [
            compare(
                f"{_title(measure)} on {env}: IBOL against {rival.upper()}-L",
                samples.runs(measure, _is("ibol", env)),
                samples.runs(measure, _is(rival, env)),
            )
            for env in samples.envs
            for rival in RIVALS
        ]
        for measure in ("return_std", "return_range")
    }


def _point(samples: Samples) -> dict[str, list[Comparison]]:
    def of(measure: str, **settings: Any) -> list[Run]:
        return samples.runs(measure, _is("ibol", "point", **settings))

    best = {"beta": 2.25e-3, "use_u": True}
    condensed = compare(
        "accuracy at beta 0.00225: lambda 1.5 against 0.15",
        of("accuracy", lambda_=1.5, **best),
        of("accuracy", lambda_=0.15, **best),
    )
    without_u = above("accuracy without u at beta 0.00225, minus 1/2", of("accuracy", beta=2.25e-3, use_u=False), 0.5)
    return {
        name: [
            *(
                compare(
                    f"{_title(measure)} at lambda 1.5: beta 0.00225 against {beta:g}",
                    of(measure, lambda_=1.5, **best),
                    of(measure, lambda_=1.5, beta=beta, use_u=True),
                )
                for beta in (0.225, 0.0)
                for measure in (measures[1], "smallest_sector")
            ),
            condensed,
            without_u,
        ]
        for name, measures in ESTIMATORS.items()
    }


def _orientation(samples: Samples) -> dict[str, list[Comparison]]:
    everything = lambda cell: True  # noqa: E731
    return {
        "circular variance of the final heading": [
            compare(
                "latents from -4 to 4 against the linearizer's goals alone",
                samples.runs("heading_variance", everything),
                samples.runs("linearizer_heading_variance", everything),
            )
        ]
    }


def _distortion(samples: Samples) -> dict[str, list[Comparison]]:
    def against(measure: str, name: str, rival: str) -> Comparison:
        ours = samples.runs(measure, lambda cell: cell.method == "ibol")
        theirs = samples.runs(measure, lambda cell: cell.method == rival)
        return compare(f"{name}: IBOL-XY against {rival.upper()}-L-XY", ours, theirs)

    return {
        name: [
            against(measure, said, rival)
            for rival in RIVALS
            for measure, said in (
                ("vertical_reach", "root mean square of the final y"),
                (measures[0], _title(measures[0])),
            )
        ]
        for name, measures in ESTIMATORS.items()
    }


def _deviation(samples: Samples) -> dict[str, list[Comparison]]:
    """The mean over robots and measures of log(std of the rival / std of IBOL)."""
    found: dict[str, list[Comparison]] = {}
    for (name, measures), rival in itertools.product(ESTIMATORS.items(), RIVALS):
        groups = {}
        for env, method in itertools.product(samples.envs, ("ibol", rival)):
            columns = [[run.value for run in samples.runs(measure, _is(method, env))] for measure in measures]
            groups[f"{env} {method}"] = np.array(columns).T  # (runs, measures)

        def ratio(drawn: Any, rival: str = rival) -> Any:
            logs = [
                np.log(drawn[f"{env} {rival}"].std(axis=-2) + _NEVER)
                - np.log(drawn[f"{env} ibol"].std(axis=-2) + _NEVER)
                for env in samples.envs
            ]
            return np.mean(logs, axis=(0, -1))

        what = f"mean log ratio of standard deviations over runs: {rival.upper()}-L against IBOL"
        fewest = min((len(values) for values in groups.values()), default=0)
        if fewest < LEAST:
            found.setdefault(name, []).append(Comparison(what, None, None, (fewest, fewest), False, "undecided"))
            continue
        interval = bootstrap(groups, ratio)
        counts = tuple(sum(len(v) for key, v in groups.items() if key.endswith(m)) for m in (rival, "ibol"))
        found.setdefault(name, []).append(
            Comparison(what, float(ratio(groups)), interval, (counts[0], counts[1]), False, decided(interval))
        )
    return found


_EACH = f"for every comparison {RULE}; supported if all comparisons are, contradicted if one is"
_ALL = (
    Claim("C1", "The linearizer's inner product over 10 steps covers more than the other rewards.", _EACH,
          _linearizer_rewards),
    Claim("C2", "The linearizer lifts DIAYN, VALOR and DADS over raw -XY forms in coverage and information.",
          _EACH, _lift),
    Claim("C3", "IBOL is first in I(Z; S), WSEPIN and SEPIN@1 on each of the robots.", _EACH, _first),
    Claim("C4", "IBOL is first for all numbers of bins.", _EACH, _first_for_all_bins),
    Claim("C5", "IBOL's skills are first on each of the four tasks.", _EACH, _tasks),
    Claim("C6", "The external returns of IBOL's skills are more diverse.", _EACH, _returns),
    Claim("C7", "On the point a moderate beta disentangles best, a larger lambda condenses trajectories, and it works "
          "without u.", f"{_EACH}; works without u: accuracy of 8 latents above 1/2, where chance is 1/8", _point),
    Claim("C8", "Without locomotion IBOL finds skills that turn, which the linearizer alone does not give.", _EACH,
          _orientation),
    Claim("C9", "Under the distortion IBOL finds vertical skills, and distinguishes them best of four.", _EACH,
          _distortion),
    Claim("C10", "IBOL deviates less over runs than the other methods.",
          "the 95 % percentile bootstrap interval over runs of the mean log ratio of standard deviations, over robots "
          f"and measures, lies above 0 against each rival (with at least {LEAST} runs of each)", _deviation),
)  # fmt: skip
CLAIMS = {claim.name: claim for claim in _ALL}
