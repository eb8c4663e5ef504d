"""The reporting runs of the `fast` presets: linearizer 1, seed 10, once (rules: docs/background/protocol.md).

    python benchmarks/reporting.py ant half_cheetah --dir DIR --json benchmarks/results/reporting.json

trains every method on the given robots where a run is missing in DIR, resumes what was interrupted, and measures the
skills both sampled and by their mode, next to IBOL's policy before its training and to random goals.
"""

import argparse
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from ibol.evaluation.skills import evaluate_skills
from ibol.linearizer.evaluation import evaluate_linearizer
from ibol.linearizer.policy import load_linearizer
from ibol.runs.directory import RunDirectory
from report import write_json

SEED, LINEARIZER = 10, 1
METHODS = ("ibol", "diayn", "valor", "dads")
MEASURED = {"humanoid": 400}  # random latents, where 2000 would take hours


def command(env: str, method: str) -> list[str]:
    """What a reporting run is started with, but for its directory."""
    where = ["--linearizer", f"bundled:{LINEARIZER}", "--seed", str(SEED)]
    return ["ibol", "discover", env, "--method", method, "--preset", "fast", *where]


def train(env: str, method: str, folder: Path) -> Path:
    """The directory of a run that is trained to its end."""
    path = folder / f"{env}-{method}-linearizer{LINEARIZER}-seed{SEED}"
    words = ["resume", str(path)] if path.exists() else [*command(env, method)[1:], "--run-dir", str(path)]
    subprocess.run([sys.executable, "-m", "ibol", *words], check=True)
    return path


def measure(env: str, paths: list[Path], trajectories: int) -> list[dict[str, Any]]:
    """Rows of all runs of a robot, sampled and by mode, with what is known of each run."""
    distance = evaluate_linearizer(load_linearizer(f"{env}:{LINEARIZER}")).scalars()["distance"]
    measured = partial(evaluate_skills, trajectories=trajectories, quiet=True)
    rows = [row for mode in (False, True) for row in measured(paths, references=False, deterministic=mode)]
    rows += [row for row in measured(paths[:1]) if row["policy"] != "skills"]
    return [{**row, **about(env, Path(row["run"])), "linearizer_distance": round(distance, 2)} for row in rows]


def about(env: str, path: Path) -> dict[str, Any]:
    """What is known of a run."""
    run = RunDirectory.open(path)
    logged = list(run.metrics())
    return {
        "run": path.name,
        "command": " ".join(command(env, run.method)),
        "env_steps": int(logged[-1]["env_steps"]),
        "minutes": round(sum(one["time/epoch_seconds"] for one in logged) / 60, 1),
        "policy_sees": run.config["settings"]["policy_sees"],
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("envs", nargs="+")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--dir", type=Path, required=True, help="where the runs are kept")
    parser.add_argument("--json", help="also write the rows to this file")
    given = parser.parse_args()
    given.dir.mkdir(parents=True, exist_ok=True)
    rows = []
    for env in given.envs:
        paths = [train(env, method, given.dir) for method in given.methods]
        rows += measure(env, paths, MEASURED.get(env, 2000))
    for row in rows:
        print(
            f"{row['env']:13} {row['method']:28} {row['policy']:16} information {row['neighbour_information']:.2f}  "
            f"accuracy {row['accuracy']:.3f}  spread {row['spread']:.1f} m of {row['linearizer_distance']:.1f}"
        )
    if given.json:
        settings: dict[str, Any] = {"seed": SEED, "linearizer": LINEARIZER, "preset": "fast"}
        settings["trajectories"] = {env: MEASURED.get(env, 2000) for env in given.envs}
        write_json(given.json, settings, ("ibol", "mujoco", "jax", "numpy"), rows)


if __name__ == "__main__":
    main()
