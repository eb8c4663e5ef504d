"""Puts trained linearizers into the package: `python tools/bundle_linearizer.py RUN...`

Writes `src/ibol/linearizer/bundled/ENV-SEED.safetensors` (policy and normaliser only) and next to it `ENV-SEED.json`,
which says how it came to be and how well it does.
"""

import dataclasses
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from ibol.evaluation.runs import evaluate_runs
from ibol.linearizer.policy import BUNDLED, load_linearizer
from ibol.linearizer.training import LinearizerConfig
from ibol.presets import build
from ibol.runs.directory import RunDirectory


def bundle(path: Path) -> Path:
    """Write the linearizer of a run and its provenance; returns the file."""
    run = RunDirectory.open(path)
    linearizer = load_linearizer(path)
    rows = list(run.metrics())
    scores = {name: value for name, value in evaluate_runs([path])[0].items() if name not in ("run", "env")}
    provenance = {
        "command": command({**run.config, "settings": {**run.config["settings"], "epochs": rows[-1]["epoch"]}}),
        "seed": run.config["seed"],
        "epochs": rows[-1]["epoch"],
        "env_steps": rows[-1]["env_steps"],
        "minutes": round(minutes(rows), 1),
        "versions": run.config["versions"],
        "scores": scores,
    }
    file = BUNDLED / f"{linearizer.env}-{run.config['seed']}.safetensors"
    BUNDLED.mkdir(exist_ok=True)
    linearizer.save(file, provenance)
    file.with_suffix(".json").write_text(json.dumps(provenance, indent=2) + "\n")
    return file


def minutes(rows: list[dict[str, Any]]) -> float:
    """Training time; an epoch during which the machine was suspended counts as a typical one."""
    seconds = [row["time/epoch_seconds"] for row in rows]
    typical = statistics.median(seconds)
    return sum(s if s < 20 * typical else typical for s in seconds) / 60


def command(config: dict[str, Any]) -> str:
    """The shortest command line that makes such a run."""
    defaults = dataclasses.asdict(build(LinearizerConfig, "linearize", config["preset"], config["env"]))
    words = ["ibol", "linearize", config["env"], "--preset", config["preset"], "--seed", str(config["seed"])]
    for name, value in config["settings"].items():
        if value != (list(defaults[name]) if isinstance(value, list) else defaults[name]):
            flag = name.replace("_", "-")
            listed = value if isinstance(value, list) else [value]
            words += [f"--{flag}" if value is not False else f"--no-{flag}"]
            words += [] if isinstance(value, bool) else [str(v) for v in listed]
    return " ".join(words)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(bundle(Path(argument)))
