"""Make a finished run of 'ibol linearize' the linearizer that ships with ibol: `python tools/bundle.py RUN`.

Writes ENV-SEED.safetensors, or ENV-VARIANT.safetensors for seed 0 of a variant, and beside it a JSON file: how it came
to be, and what it does in fresh episodes.
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from ibol import presets
from ibol.evaluation.runs import evaluate_runs
from ibol.linearizer.policy import BUNDLED, load_linearizer
from ibol.linearizer.settings import LinearizerConfig
from ibol.runs.directory import RunDirectory, settings_from_json

LIMIT = 2_000_000  # bytes
FRESH_SEED = 999
COVERAGE_STEPS = 400_000  # simulated for the state coverage: 2000 episodes of Ant


def bundle(path: Path) -> Path:
    """Copy the run's policy, with its provenance, into the package."""
    run, linearizer = RunDirectory.open(path), load_linearizer(path)
    config, rows = run.config, list(run.metrics())
    if len(rows) < config["settings"]["epochs"]:
        sys.exit(
            f"{path} has {len(rows)} of {config['settings']['epochs']} epochs: finish it with 'ibol resume {path}'"
        )
    variant = _variant(path, config)
    flag = f" --variant {variant}" if variant else ""
    (scores,) = evaluate_runs([path], seed=FRESH_SEED, trajectories=COVERAGE_STEPS // linearizer.make_env(1).horizon)
    provenance = {
        "command": f"ibol linearize {config['env']} --preset {config['preset']}{flag} --seed {config['seed']}",
        "seed": config["seed"],
        "epochs": len(rows),
        "env_steps": int(rows[-1]["env_steps"]),
        "minutes": round(sum(row["time/epoch_seconds"] for row in rows) / 60, 1),
        "versions": config["versions"],
        "scores": {name: value for name, value in scores.items() if name not in ("run", "env")},
    }
    if variant and config["seed"]:
        sys.exit(f"{path} has seed {config['seed']}, but of a variant only seed 0 is bundled")
    file = BUNDLED / f"{config['env']}-{variant or config['seed']}.safetensors"
    linearizer.save(file, provenance)
    if file.stat().st_size > LIMIT:
        sys.exit(f"{file} has {file.stat().st_size} bytes, but at most {LIMIT} may be bundled")
    file.with_suffix(".json").write_text(json.dumps(provenance, indent=2) + "\n")
    return file


def _variant(path: Path, config: dict[str, Any]) -> str:
    """The variant of the preset that the run is, or nothing for the preset itself."""
    settings = dataclasses.asdict(settings_from_json(LinearizerConfig, config["settings"]))
    differences = {}
    for name, chosen in {"": {}, **presets.variants("linearize")}.items():
        made = presets.build(LinearizerConfig, "linearize", config["preset"], config["env"], overrides=chosen)
        preset = dataclasses.asdict(made)
        differences[name] = {key: value for key, value in settings.items() if preset[key] != value}
        if not differences[name]:
            return name
    sys.exit(f"{path} differs from the preset in {differences['']}: only what a preset gives is bundled")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(f"written to {bundle(Path(argument))}")
