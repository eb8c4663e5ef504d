"""Physics steps a second while a meta-controller is trained, against a bare loop of the same policies and physics.

Training is whole epochs of `ibol downstream` (episodes, decisions, gradient steps; no evaluation). The bare loop steps
a batch of the same size through skill policy, linearizer and physics with one latent for each episode, and keeps
nothing. They take turns, so that a noisy machine hits both alike; the ratio is the median of the rounds'. Without a
run, untrained skills on the bundled linearizer stand in: they cost the same.

    python benchmarks/downstream.py --json benchmarks/results/downstream_rate.json
"""

import argparse
import dataclasses
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from ibol.cli import main as ibol
from ibol.downstream import DownstreamConfig, MetaTrainer
from ibol.envs import TASKS
from ibol.envs.settings import EnvSettings
from ibol.presets import build
from ibol.skills.policy import Skills, load_skills
from report import write_json


def bare(skills: Skills, latents: np.ndarray, seed: int) -> None:
    """One episode for each latent, and nothing else."""
    env = skills.make_env(len(latents))
    act = skills.controller(latents)
    obs, _ = env.reset(seed=seed)
    for step in range(env.horizon):
        obs = env.step(act(obs.astype(np.float32), step))[0]


def measure(task: str, run: Path, preset: str, epochs: int, rounds: int) -> dict[str, float]:
    config = build(DownstreamConfig, "downstream", preset, task)
    config = dataclasses.replace(config, skills=str(run), epochs=epochs * rounds + 2, evaluate_every=0)
    trainer, skills = MetaTrainer(task, EnvSettings(), config, 0), load_skills(run)
    latents = skills.sample_latents(config.episodes_per_epoch)
    steps = epochs * config.episodes_per_epoch * trainer.hierarchy.horizon
    trainer.train_epoch(0)  # compiles
    bare(skills, latents, 0)
    rates: dict[str, list[float]] = {"training": [], "bare": []}
    for number in range(rounds):
        began = time.perf_counter()
        for epoch in range(epochs):
            trainer.train_epoch(1 + number * epochs + epoch)
        rates["training"].append(steps / (time.perf_counter() - began))
        began = time.perf_counter()
        for epoch in range(epochs):
            bare(skills, latents, epoch)
        rates["bare"].append(steps / (time.perf_counter() - began))
    ratios = [mine / other for mine, other in zip(*rates.values(), strict=True)]
    found = {f"{name}_steps_per_second": statistics.median(values) for name, values in rates.items()}
    return {**found, "ratio": statistics.median(ratios)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["half_cheetah_goal", "ant_goal"])
    parser.add_argument("--run", type=Path, help="a run of 'ibol discover' instead of untrained skills")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--epochs", type=int, default=3, help="in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    results = {}
    for task in args.tasks:
        with tempfile.TemporaryDirectory() as folder:
            run = args.run
            if run is None:
                run = Path(folder) / "run"
                short = ["--epochs", "1", "--episodes-per-epoch", "2", "--evaluate-every", "0"]
                ibol(["discover", TASKS[task].robot, *short, "--quiet", "--run-dir", str(run)])
            results[task] = measure(task, run, args.preset, args.epochs, args.rounds)
        print(f"{task}: " + ", ".join(f"{name} {value:.4g}" for name, value in results[task].items()))
    if args.json:
        settings = {name: str(value) for name, value in vars(args).items() if name != "json"}
        write_json(args.json, settings, ("ibol", "mujoco", "jax", "numpy"), results)


if __name__ == "__main__":
    main()
