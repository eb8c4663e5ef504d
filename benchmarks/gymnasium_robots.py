"""Gymnasium's robots: ours in a batch, beside Gymnasium's own vectorisation with one process for each worker.

Random actions, rewards, terminations and resets included. Both step in turn (`turns.py`); rates are medians over the
rounds, the ratio the median of the rounds' ratios.

    python benchmarks/gymnasium_robots.py --json benchmarks/results/gymnasium_robots.json
"""

import argparse
import warnings
from functools import partial

import gymnasium
import numpy as np

import ibol
from ibol.envs import GYMNASIUM
from report import write_json
from turns import Step, compared, rates_in_turn


def contestants(name: str, num_envs: int, workers: int) -> dict[str, tuple[int, Step]]:
    """How many copies each steps at once, and how."""
    batch = ibol.make(name, num_envs, workers)
    actions = np.random.default_rng(0).uniform(-1, 1, (1000, num_envs, batch.action_dim))
    batch.reset(seed=0)
    theirs = gymnasium.vector.AsyncVectorEnv([partial(gymnasium.make, name)] * workers)
    theirs.reset(seed=0)
    scale = theirs.single_action_space.high
    return {
        "ours": (num_envs, lambda t: batch.step(actions[t])),
        "gymnasium": (workers, lambda t: theirs.step(actions[t, :workers].astype(np.float32) * scale)),
    }


def measure(name: str, num_envs: int, workers: int, rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """Steps of single environments in a second."""
    return compared(rates_in_turn(contestants(name, num_envs, workers), rounds, seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=["Walker2d-v5", "Swimmer-v5", "Ant-v5"], choices=list(GYMNASIUM))
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2, help="threads, or processes for Gymnasium")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--seconds", type=float, default=0.2, help="for each contestant in each round")
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    results = {}
    for name in args.robots:
        results[name] = measure(name, args.num_envs, args.workers, args.rounds, args.seconds)
        ours, theirs = (results[name][who]["steps_per_second"] for who in ("ours", "gymnasium"))
        ratio = results[name]["gymnasium"]["ours_over_it"]
        print(f"{name}: {ours:.0f} steps/s, Gymnasium {theirs:.0f}: {ratio:.1f} times it")
    if args.json:
        settings = {name: value for name, value in vars(args).items() if name != "json"}
        write_json(args.json, settings, ("ibol", "mujoco", "gymnasium", "numpy"), results)


if __name__ == "__main__":
    main()
