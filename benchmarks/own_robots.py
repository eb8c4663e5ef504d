"""Robots that nobody tuned, from nothing to skills: the commands of docs/guides/own-robot.md, timed and measured.

    python benchmarks/own_robots.py Walker2d-v5 examples/robots/inchworm.toml --seeds 0 1 --dir DIR

For each robot and seed: a linearizer, then skills of each method on it, all with `fast` as it stands; the linearizer's
reach and the skills next to the initial and a random policy; pictures, a film and a page in DIR. What is in DIR
already is resumed or kept. Rows go to `results/own_robots.json`, one for each robot and seed; several of these commands
can run side by side.
"""

import argparse
import fcntl
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ibol.evaluation.loading import load_run
from ibol.evaluation.rollouts import skill_rollouts
from ibol.evaluation.skills import evaluate_skills
from ibol.linearizer.evaluation import evaluate_linearizer
from ibol.linearizer.policy import load_linearizer
from ibol.runs.directory import RunDirectory
from report import write_json

RESULTS = Path(__file__).parent / "results" / "own_robots.json"
MEASURED = (
    "neighbour_information", "accuracy", "spread", "distance", "lowest", "highest", "smallest_sector", "coverage",
)  # fmt: skip


def ibol(*words: str) -> float:
    """Run a command as a user does; the minutes that it took."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "ibol", *words], check=True)
    return round((time.perf_counter() - began) / 60, 2)


def flags(method: str) -> list[str]:
    """What asks for a method, or as `ibol-xy` for a variant of it."""
    name, _, variant = method.partition("-")
    return ["--method", name, *(["--variant", variant] if variant else [])]


def trained(words: list[str], path: Path) -> RunDirectory:
    """A run that is trained to its end."""
    ibol(*(["resume", str(path)] if path.exists() else [*words, "--run-dir", str(path)]))
    return RunDirectory.open(path)


def about(run: RunDirectory, words: list[str]) -> dict[str, Any]:
    """What a run was started with and what it took; of a resumed one, too."""
    logged = list(run.metrics())
    return {
        "command": " ".join(["ibol", *words]),
        "epochs": int(logged[-1]["epoch"]),
        "env_steps": int(logged[-1]["env_steps"]),
        "training_minutes": round(sum(row["time/epoch_seconds"] for row in logged) / 60, 1),
    }


def linearizer_row(robot: str, seed: int, path: Path) -> dict[str, Any]:
    """A linearizer, measured in fresh episodes."""
    words = ["linearize", robot, "--seed", str(seed)]
    run = trained(words, path)
    measured = evaluate_linearizer(load_linearizer(path), seed=seed + 1).scalars()
    return {**about(run, words), **{name: round(value, 3) for name, value in measured.items()}}


def skills_row(words: list[str], linearizer: Path, path: Path, trajectories: int) -> dict[str, Any]:
    """Skills of a method on that linearizer, beside the initial and a random policy."""
    run = trained([*words, "--linearizer", str(linearizer)], path)
    words = [*words, "--linearizer", linearizer.name]
    rows = {
        row["policy"]: {name: round(float(row[name]), 3) for name in MEASURED if name in row}
        for row in evaluate_skills([path], trajectories=trajectories, quiet=True)
    }
    loaded = load_run(path)
    for policy, row in rows.items():
        found = skill_rollouts(loaded, policy=policy, trajectories=trajectories, seed=0)  # kept by the measurement
        row["ended_early"] = round(float((found.lengths < found.locations.shape[1] - 1).mean()), 3)
    return {**about(run, words), "trajectories": trajectories, "scores": rows}


def pictures(path: Path) -> dict[str, float]:
    """A figure, a film and a page of a run, drawn again where they are, and the minutes that each took."""
    minutes, drawn = {}, ("--trajectories", "300")
    for command, ending, more in (("plot", "png", drawn), ("video", "mp4", ()), ("page", "html", ())):
        output = Path(f"{path}.{ending}")
        output.unlink(missing_ok=True)
        minutes[f"{command}_minutes"] = ibol(command, str(path), *more, "--output", str(output))
    return minutes


def keep(robot: str, seed: int, **parts: dict[str, Any]) -> None:
    """Put parts into the row of a robot and a seed."""
    with open(RESULTS.parent / ".own_robots.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = json.loads(RESULTS.read_text())["results"] if RESULTS.exists() else []
        rows = {(row["robot"], row["seed"]): row for row in known}
        rows[robot, seed] = {"robot": robot, "seed": seed, **rows.get((robot, seed), {}), **parts}
        write_json(
            str(RESULTS), {"preset": "fast"}, ("ibol", "mujoco", "jax", "numpy"), [rows[key] for key in sorted(rows)]
        )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robots", nargs="+", help="TOML files of own robots, or ids of Gymnasium's")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument(
        "--methods", nargs="*", default=["ibol", "diayn"], help="such as ibol, or ibol-xy for a variant"
    )
    parser.add_argument("--horizon", help="steps in an episode of skills (default: the linearizer's)")
    parser.add_argument("--trajectories", type=int, default=1000)
    parser.add_argument("--dir", type=Path, required=True, help="where the runs are kept")
    given = parser.parse_args()
    given.dir.mkdir(parents=True, exist_ok=True)
    horizon = ["--horizon", given.horizon] if given.horizon else []
    for robot in given.robots:
        for seed in given.seeds:
            name, linearizer = Path(robot).stem, given.dir / f"{Path(robot).stem}-linearizer-{seed}"
            keep(name, seed, linearizer=linearizer_row(robot, seed, linearizer))
            for method in given.methods:
                path = given.dir / f"{name}-{method}-{seed}"
                words = ["discover", robot, *flags(method), *horizon, "--seed", str(seed)]
                row = skills_row(words, linearizer, path, given.trajectories)
                keep(name, seed, **{method: row})
                keep(name, seed, **{method: row | pictures(path)})


if __name__ == "__main__":
    main()
