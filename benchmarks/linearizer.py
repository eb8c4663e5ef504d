"""Seconds for an epoch of the linearizer's training with the paper's settings.

An epoch is 10 episodes of 200 steps and 4 gradient steps with 1024-wide networks: on the 2000 transitions of the epoch
for Ant, on batches of 2048 from a replay buffer for HalfCheetah. The first epoch, which compiles, is left out.

    python benchmarks/linearizer.py --json benchmarks/results/linearizer_epochs.json
"""

import argparse
import dataclasses
import statistics
import time

from ibol.envs.settings import EnvSettings
from ibol.linearizer.training import LinearizerConfig, LinearizerTrainer
from ibol.presets import build
from report import write_json


def epoch_seconds(env: str, epochs: int) -> list[float]:
    config = dataclasses.replace(build(LinearizerConfig, "linearize", "paper", env), evaluate_every=0)
    trainer = LinearizerTrainer(env, EnvSettings(), config, 0)
    trainer.train_epoch(0)
    seconds = []
    for epoch in range(1, epochs + 1):
        began = time.perf_counter()
        trainer.train_epoch(epoch)
        seconds.append(time.perf_counter() - began)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", default=["ant", "half_cheetah"])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    results = {}
    for env in args.envs:
        seconds = epoch_seconds(env, args.epochs)
        results[env] = {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds)}
        print(f"{env}: median {results[env]['median']:.2f} s, {min(seconds):.2f} to {max(seconds):.2f} s")
    if args.json:
        write_json(args.json, {"epochs": args.epochs}, ("ibol", "mujoco", "jax", "equinox", "optax"), results)


if __name__ == "__main__":
    main()
