"""Make a finished run of 'ibol linearize' the linearizer that ships with ibol: `python tools/bundle.py RUN`.

Writes ENV-SEED.safetensors and beside it ENV-SEED.json: how it came to be, and what it does in fresh episodes.
"""

import dataclasses
import json
import sys
from pathlib import Path

from ibol import presets
from ibol.evaluation.runs import evaluate_runs
from ibol.linearizer.policy import BUNDLED, load_linearizer
from ibol.linearizer.training import LinearizerConfig
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
    preset = dataclasses.asdict(presets.build(LinearizerConfig, "linearize", config["preset"], config["env"]))
    settings = dataclasses.asdict(settings_from_json(LinearizerConfig, config["settings"]))
    own = {name: value for name, value in settings.items() if preset[name] != value}
    if own:
        sys.exit(f"{path} differs from the preset in {own}: only what a preset gives is bundled")
    (scores,) = evaluate_runs([path], seed=FRESH_SEED, trajectories=COVERAGE_STEPS // linearizer.make_env(1).horizon)
    provenance = {
        "command": f"ibol linearize {config['env']} --preset {config['preset']} --seed {config['seed']}",
        "seed": config["seed"],
        "epochs": len(rows),
        "env_steps": int(rows[-1]["env_steps"]),
        "minutes": round(sum(row["time/epoch_seconds"] for row in rows) / 60, 1),
        "versions": config["versions"],
        "scores": {name: value for name, value in scores.items() if name not in ("run", "env")},
    }
    file = BUNDLED / f"{config['env']}-{config['seed']}.safetensors"
    linearizer.save(file, provenance)
    if file.stat().st_size > LIMIT:
        sys.exit(f"{file} has {file.stat().st_size} bytes, but at most {LIMIT} may be bundled")
    file.with_suffix(".json").write_text(json.dumps(provenance, indent=2) + "\n")
    return file


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(f"written to {bundle(Path(argument))}")
