"""The scores of reporting runs, for the record (rules: docs/background/protocol.md).

    ibol experiment benchmarks/later_methods.toml --dir DIR     # or ibol paper; trains, with seeds 10 to 13
    python benchmarks/reporting.py DIR/runs/*-ant-* --json benchmarks/results/reporting_ant.json

measures the finished runs of one environment together, both sampled and by mode, and on each linearizer the first run's
initial policy and random goals, too. Each row has the command that repeats its run. `--sampled` leaves out the mode.
"""

import argparse
from pathlib import Path
from typing import Any

from ibol.errors import IbolError
from ibol.evaluation.skills import evaluate_skills
from ibol.linearizer.evaluation import evaluate_linearizer
from ibol.linearizer.policy import Linearizer, load_linearizer
from ibol.report.tables import command_line
from ibol.runs.directory import RunDirectory
from report import write_json

Row = dict[str, Any]


def linearizers(paths: list[Path]) -> dict[Path, str]:
    """Which linearizer each run has: the bundled one's seed, or nothing."""
    return {path: _linearizer(RunDirectory.open(path)) for path in paths}


def _linearizer(run: RunDirectory) -> str:
    source = run.config["settings"]["linearizer"]
    return {"none": "", "bundled": "0"}.get(source, source.removeprefix("bundled:"))


def measure(paths: list[Path], trajectories: int, *, by_mode: bool) -> list[Row]:
    """Rows of all runs, sampled and by mode, and of the policies that have learned nothing."""
    rows: list[Row] = []
    for mode in (False, True) if by_mode else (False,):
        found = evaluate_skills(paths, trajectories=trajectories, deterministic=mode, references=False)
        rows += [{**row, "policy": "mode" if mode else "sampled"} for row in found if "intervals" not in row]
    known = linearizers(paths)
    for first in {seed: path for path, seed in reversed(known.items())}.values():
        rows += [row for row in evaluate_skills([first], trajectories=trajectories) if row["policy"] != "skills"]
    return [_rounded({**row, **about(Path(row["run"]), known)}) for row in rows]


def _rounded(row: Row) -> Row:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}


def about(path: Path, known: dict[Path, str]) -> Row:
    """What is known of a run."""
    run = RunDirectory.open(path)
    logged = list(run.metrics())
    return {
        "run": path.name,
        "name": run.method,
        "seed": run.config["seed"],
        "linearizer": known[path],
        "command": command_line(run),
        "env_steps": int(logged[-1]["env_steps"]),
        "minutes": round(sum(one["time/epoch_seconds"] for one in logged) / 60, 1),
    }


def distances(env: str, seeds: set[str]) -> dict[str, float]:
    """How far each linearizer goes, in metres."""

    def distance(linearizer: Linearizer) -> float:
        return round(float(evaluate_linearizer(linearizer).scalars()["distance"]), 2)

    return {seed: distance(load_linearizer(f"{env}:{seed}")) for seed in sorted(seeds) if seed}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="finished runs of one environment")
    parser.add_argument("--trajectories", type=int, default=1000, help="random latents (default: 1000)")
    parser.add_argument("--sampled", action="store_true", help="skills as samples of their policy alone")
    parser.add_argument("--json", required=True, help="where the rows go")
    given = parser.parse_args()
    envs = {RunDirectory.open(path).config["env"] for path in given.runs}
    if len(envs) > 1:
        raise SystemExit(f"the runs are of {', '.join(sorted(envs))}: measure one environment at a time")
    try:
        rows = measure(given.runs, given.trajectories, by_mode=not given.sampled)
        reach = distances(envs.pop(), set(linearizers(given.runs).values()))
    except IbolError as error:
        raise SystemExit(str(error)) from None
    settings = {"trajectories": given.trajectories, "linearizer_distance": reach}
    write_json(given.json, settings, ("ibol", "mujoco", "jax", "numpy"), rows)


if __name__ == "__main__":
    main()
