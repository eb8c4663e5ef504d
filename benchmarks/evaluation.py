"""Roll-outs of skills for their evaluation, against a bare loop of the same policies and physics, side by side.

Both simulate the same latents of one run through skill policy, linearizer and physics; the bare loop keeps nothing of
it. They take turns batch by batch, so that a noisy machine hits both alike; the ratio is the median of the rounds'.
Without a run, an untrained policy on the bundled linearizer stands in: it costs the same.

    python benchmarks/evaluation.py --json benchmarks/results/evaluation.json
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from ibol.cli import main as ibol
from ibol.evaluation import rollouts
from ibol.skills.policy import Skills, load_skills
from report import write_json


def bare(skills: Skills, latents: np.ndarray, seed: int) -> None:
    """One episode for each latent, and nothing else."""
    env = skills.make_env(len(latents))
    act = skills.controller(latents, deterministic=False, seed=seed)
    obs, _ = env.reset(seed=seed)
    for step in range(env.horizon):
        obs = env.step(act(obs.astype(np.float32), step))[0]


def kept(run: Path, trajectories: int, seed: int) -> None:
    """The same as `ibol evaluate` does it, from the run directory to the cached file."""
    rollouts.skill_rollouts(run, trajectories=trajectories, seed=seed)


def measure(run: Path, trajectories: int, rounds: int) -> dict[str, float]:
    skills = load_skills(run)
    steps = skills.make_env(1).horizon * trajectories
    latents = skills.sample_latents(trajectories)
    pieces = [latents[i : i + rollouts.BATCH] for i in range(0, trajectories, rollouts.BATCH)]
    for piece in {len(piece): piece for piece in pieces}.values():  # compile for every size of a batch
        skills.controller(piece, deterministic=False)(np.zeros((len(piece), skills.description.state_dim)), 0)
    rates: dict[str, list[float]] = {"evaluation": [], "bare": []}
    for number in range(rounds):
        began = time.perf_counter()
        kept(run, trajectories, seed=1 + number)
        rates["evaluation"].append(steps / (time.perf_counter() - began))
        began = time.perf_counter()
        for piece in pieces:
            bare(skills, piece, seed=1 + number)
        rates["bare"].append(steps / (time.perf_counter() - began))
    ratios = [mine / other for mine, other in zip(*rates.values(), strict=True)]
    medians = {f"{name}_steps_per_second": statistics.median(values) for name, values in rates.items()}
    return {**medians, "ratio": statistics.median(ratios), "trajectories": trajectories}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="ant")
    parser.add_argument("--run", type=Path, help="a run of 'ibol discover' instead of an untrained policy")
    parser.add_argument("--trajectories", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        if args.run is None:
            # The networks of the preset `fast`; one short epoch makes a run of them.
            short = ["--epochs", "1", "--episodes-per-epoch", "2", "--evaluate-every", "0"]
            ibol(["discover", args.env, *short, "--quiet", "--run-dir", str(run)])
        else:
            run.symlink_to(args.run.absolute())
        results = measure(run, args.trajectories, args.rounds)
    print(", ".join(f"{name} {value:.4g}" for name, value in results.items()))
    if args.json:
        settings = {name: str(value) for name, value in vars(args).items() if name != "json"}
        write_json(args.json, settings, ("ibol", "mujoco", "jax", "numpy"), results)


if __name__ == "__main__":
    main()
