"""Seconds for an epoch of training with the paper's settings.

The linearizer: 10 episodes of 200 steps and 4 gradient steps with 1024-wide networks, on the 2000 transitions of the
epoch for Ant, on batches of 2048 from a replay buffer for HalfCheetah. IBOL: 64 episodes of 20 macro steps through a
linearizer (an untrained one where none is bundled: it costs the same) and 4 gradient steps with 512-wide networks and
L = 100. DIAYN and DADS: the same episodes, 64 SAC steps on batches of 256, and 64 or 32 of their model; VALOR: 4 on all
of the epoch. The first epoch, which compiles, is left out.

    python benchmarks/epochs.py linearize --json benchmarks/results/linearizer_epochs.json
    python benchmarks/epochs.py ibol --json benchmarks/results/ibol_epochs.json
    python benchmarks/epochs.py diayn --json benchmarks/results/diayn_epochs.json
    python benchmarks/epochs.py dads --json benchmarks/results/dads_epochs.json
"""

import argparse
import dataclasses
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from ibol.envs.settings import EnvSettings
from ibol.linearizer.policy import bundled
from ibol.linearizer.settings import LinearizerConfig
from ibol.linearizer.training import LinearizerTrainer
from ibol.presets import build
from ibol.training import launch
from report import write_json


def epoch_seconds(method: str, env: str, epochs: int) -> list[float]:
    found = launch.find(method)
    config = dataclasses.replace(build(found.config, method, "paper", env), evaluate_every=0)
    with tempfile.TemporaryDirectory() as folder:
        if method in launch.discovery_methods() and config.linearizer != "none" and env not in bundled():
            config = dataclasses.replace(config, linearizer=str(untrained_linearizer(env, Path(folder))))
        trainer: Any = found.trainer(env, EnvSettings(), config, 0)
    trainer.train_epoch(0)
    seconds = []
    for epoch in range(1, epochs + 1):
        began = time.perf_counter()
        trainer.train_epoch(epoch)
        seconds.append(time.perf_counter() - began)
    return seconds


def untrained_linearizer(env: str, folder: Path) -> Path:
    config = build(LinearizerConfig, "linearize", "fast", env)
    LinearizerTrainer(env, EnvSettings(), config, 0).agent().save(folder / "linearizer.safetensors", {})
    return folder / "linearizer.safetensors"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", choices=["linearize", *launch.discovery_methods()])
    parser.add_argument("--envs", nargs="+", default=["ant", "half_cheetah"])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    results = {}
    for env in args.envs:
        seconds = epoch_seconds(args.method, env, args.epochs)
        results[env] = {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds)}
        print(f"{env}: median {results[env]['median']:.2f} s, {min(seconds):.2f} to {max(seconds):.2f} s")
    if args.json:
        write_json(args.json, {"epochs": args.epochs}, ("ibol", "mujoco", "jax", "equinox", "optax"), results)


if __name__ == "__main__":
    main()
