"""The tuning of the `fast` presets of skill discovery, by the protocol in docs/background/protocol.md.

    python benchmarks/tune.py train ant ibol --dir DIR        # every try of a method on a robot that has no row yet
    python benchmarks/tune.py choose                          # all rows, and what the criterion chooses from them
    python benchmarks/tune.py ablate half_cheetah --dir DIR   # objective and optimiser apart

`tuning/candidates.toml` has the settings; `ant_raw` is Ant without a linearizer, `ant_second` a second round. A try
is a run of 'ibol discover' in DIR, resumed where it stopped, then measured; its row goes to `tuning/ENV.json`, that of
an ablation to `results/ablations.json`. Several of these commands can run side by side.
"""

import argparse
import dataclasses
import fcntl
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ibol import presets
from ibol.evaluation.skills import evaluate_skills
from ibol.linearizer.evaluation import evaluate_linearizer
from ibol.linearizer.policy import load_linearizer
from ibol.runs.directory import RunDirectory
from ibol.training.launch import find

TUNING = Path(__file__).parent / "tuning"
ABLATIONS = Path(__file__).parent / "results" / "ablations.json"
SCORES = (
    "neighbour_information", "neighbour_sepin@1", "accuracy", "spread", "distance", "coverage", "smallest_sector",
    "unit_coverage", "lowest", "highest",
)  # fmt: skip
METHODS = ("ibol", "diayn", "valor", "dads", "edl", "sectar", "metra", "lsd", "csd", "csf")
Row = dict[str, Any]


class Try:
    """One setting of a method on a robot: one of the candidates, or the first of them with what an ablation changes.

    `table` is the robot's in `candidates.toml`; one that is not called as its robot names it by `env`.
    """

    def __init__(self, table: str, method: str, number: int | str) -> None:
        self.table, self.method, self.number = table, method, number
        self.protocol, own = candidates()["protocol"], candidates()[table]
        self.env, self.seed = own.get("env", table), own.get("seed", self.protocol["seed"])
        self.trajectories = own["trajectories"]
        base = presets.values(method, "fast", "all", alone=True)  # the robots' own parts are the outcome of the tries
        ablated = isinstance(number, str)
        self.changed = {**own[method][0], **ablations()[method][number]} if ablated else own[method][number]
        settings = {**base, "linearizer": self.protocol["linearizer"], **own["common"], **self.changed}
        tuples = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
        self.settings = dataclasses.asdict(find(method).config(**tuples))

    @property
    def name(self) -> str:
        """What its run is called; an ablation that changes nothing is the first candidate."""
        same = isinstance(self.number, str) and not ablations()[self.method][self.number]
        words = "-".join(re.findall(r"\w+", "0" if same else str(self.number)))
        return f"{self.table}-{self.method}-{words}"

    def command(self) -> list[str]:
        """Every setting by its flag: presets may change later, and this stays what it is."""
        flags = [word for name, value in sorted(self.settings.items()) for word in _flag(name, value)]
        start = ["ibol", "discover", self.env, "--method", self.method, "--preset", "fast"]
        return [*start, "--seed", str(self.seed), *flags]

    def train(self, folder: Path) -> RunDirectory:
        """Its run, trained to its end."""
        path = folder / self.name
        words = ["resume", str(path)] if path.exists() else [*self.command()[1:], "--run-dir", str(path)]
        subprocess.run([sys.executable, "-m", "ibol", *words], check=True)
        return RunDirectory.open(path)

    def row(self, run: RunDirectory) -> Row:
        """What it was and what came out."""
        logged = list(run.metrics())
        return {
            "env": self.env,
            "method": self.method,
            "try": self.number,
            "command": " ".join(self.command()),
            "seed": self.seed,
            "linearizer": 0 if self.settings["linearizer"] == "bundled" else None,
            "settings": self.changed,
            "env_steps": int(logged[-1]["env_steps"]),
            "minutes": round(sum(row["time/epoch_seconds"] for row in logged) / 60, 1),
            "trajectories": self.trajectories,
            "scores": self._scores(run),
        }

    def _scores(self, run: RunDirectory) -> dict[str, float]:
        (row,) = evaluate_skills([run.path], trajectories=self.trajectories, references=False, quiet=True)
        return {name: round(float(row[name]), 4) for name in SCORES if name in row}


def train(env: str, methods: Sequence[str], numbers: Sequence[int] | None, folder: Path) -> None:
    """Make the rows that are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for method in methods or methods_of(env):
        for number in range(len(candidates()[env][method])) if numbers is None else numbers:
            if not any(row["method"] == method and row["try"] == number for row in rows_of(env)):
                one = Try(env, method, number)
                _keep(one.row(one.train(folder)), TUNING / f"{env}.json")


def ablate(env: str, methods: Sequence[str], names: Sequence[str] | None, folder: Path) -> None:
    """Make the rows of ablations that are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for method in methods or methods_of(env):
        for name in names or ablations().get(method, {}):
            known = [(row["env"], row["method"], row["try"]) for row in _rows_in(ABLATIONS)]
            if (env, method, name) not in known:
                one = Try(env, method, name)
                _keep(one.row(one.train(folder)), ABLATIONS)


def ablations() -> dict[str, dict[str, dict[str, Any]]]:
    """What each method is tried without, or with instead, by name."""
    return dict(tomllib.loads((TUNING / "ablations.toml").read_text()))


def choose(env: str) -> Iterator[tuple[Row, bool]]:
    """The rows of a robot, each with whether the criterion chooses it: the most information from neighbours of sampled
    skills among those whose ends spread far enough, in a second round also into all directions; ties, to a hundredth
    of a nat, by accuracy. Without a linearizer the most cells by METRA's coverage. Where a second round has replaced a
    choice, none."""
    rows, later = rows_of(env), replaced(env)
    smallest = {"spread": smallest_spread(env), "smallest_sector": _smallest_sector(env)}
    for method in dict.fromkeys(row["method"] for row in rows):
        tries = [row for row in rows if row["method"] == method]
        eligible = [
            row for row in tries if all(row["scores"].get(name, 0) >= least for name, least in smallest.items())
        ]
        best = None if method in later else max(eligible, key=_merit, default=None)
        yield from ((row, row is best) for row in tries)


def complete(env: str) -> bool:
    """Whether all candidates of a robot have been tried: only then a preset may be what is chosen."""
    tried = {(row["method"], row["try"]) for row in rows_of(env)}
    return tried == {(method, number) for method in methods_of(env) for number in range(len(candidates()[env][method]))}


def replaced(env: str) -> list[str]:
    """The methods whose choice a second round has replaced."""
    second = f"{env}_second"
    return methods_of(second) if second in candidates() and complete(second) else []


def methods_of(env: str) -> list[str]:
    """The methods that have candidates for a robot."""
    return [method for method in METHODS if method in candidates()[env]]


def smallest_spread(env: str) -> float:
    """How far ends must spread for a try to be eligible, in metres."""
    if _is_raw(env):
        return 0.0
    (reach,) = json.loads((TUNING / f"{env}.json").read_text())["linearizer_distance"].values()
    return float(candidates()["protocol"]["smallest_spread"] * reach)


def _smallest_sector(env: str) -> float:
    """The share of skills that the emptiest of 12 directions must have for a try to be eligible."""
    return float(candidates()[env].get("smallest_sector", 0.0))


def rows_of(env: str) -> list[Row]:
    """The tries of a robot that are there."""
    return _rows_in(TUNING / f"{env}.json")


def _rows_in(file: Path) -> list[Row]:
    return json.loads(file.read_text())["rows"] if file.exists() else []


def _is_raw(table: str) -> bool:
    return bool(candidates()[table]["common"].get("linearizer") == "none")


def _merit(row: Row) -> tuple[float, float]:
    if row["linearizer"] is None:
        return row["scores"]["unit_coverage"], row["scores"]["accuracy"]
    return round(row["scores"]["neighbour_information"], 2), row["scores"]["accuracy"]


def _keep(row: Row, file: Path) -> None:
    """Add a row to a file; a lock keeps tries that end together from losing one another's."""
    with open(file.with_suffix(".lock"), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        known = json.loads(file.read_text()) if file.exists() else {"linearizer_distance": {}, "rows": []}
        rows = sorted([*known["rows"], row], key=lambda one: (one["env"], METHODS.index(one["method"]), one["try"]))
        distances = known["linearizer_distance"]
        if row["linearizer"] is not None and row["env"] not in distances:
            distances[row["env"]] = _linearizer_distance(row["env"])
        file.write_text(json.dumps({"linearizer_distance": distances, "rows": rows}, indent=2) + "\n")


def _linearizer_distance(env: str) -> float:
    """Mean metres for goals of full length over four evaluations, 256 episodes in the plane."""
    linearizer = load_linearizer(env)
    distances = [evaluate_linearizer(linearizer, seed=seed).scalars()["distance"] for seed in range(4)]
    return round(sum(distances) / len(distances), 2)


def candidates() -> dict[str, Any]:
    """The settings to try, by robot and method."""
    return tomllib.loads((TUNING / "candidates.toml").read_text())


def _flag(name: str, value: Any) -> list[str]:
    flag = "--" + name.rstrip("_").replace("_", "-")
    if isinstance(value, bool):
        return [flag if value else flag.replace("--", "--no-", 1)]
    return [flag, *map(str, value)] if isinstance(value, list | tuple) else [flag, str(value)]


def show(env: str) -> None:
    """The rows of a robot as a table, the chosen ones marked."""
    state = "" if complete(env) else "; some candidates have not been tried yet"
    print(f"{env}: ends must spread {smallest_spread(env):.1f} m{state}")
    for row, chosen in choose(env):
        scores = row["scores"]
        print(
            f"  {'*' if chosen else ' '} {row['method']:6} {row['try']}"
            f"  information {scores['neighbour_information']:.2f}  accuracy {scores['accuracy']:.3f}"
            f"  spread {scores['spread']:.1f} m  cells {scores.get('unit_coverage', '-')}"
            f"  {row['minutes']:.1f} min  {row['settings']}"
        )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    for name, kind, what in (("train", int, "tries"), ("ablate", str, "ablations")):
        command = commands.add_parser(name, help=f"make the rows of {what} that are missing")
        command.add_argument("env", choices=[env for env in candidates() if env != "protocol"])
        command.add_argument("methods", nargs="*", help="default: all that have candidates there")
        command.add_argument("--only", type=kind, nargs="+", help=f"numbers or names of the {what} (default: all)")
        command.add_argument("--dir", type=Path, required=True, help="where the runs are kept")
    commands.add_parser("choose", help="show all rows and what is chosen")
    given = parser.parse_args()
    if given.command == "choose":
        for file in sorted(TUNING.glob("*.json")):
            show(file.stem)
    else:
        work = train if given.command == "train" else ablate
        work(given.env, given.methods, given.only, given.dir)


if __name__ == "__main__":
    main()
