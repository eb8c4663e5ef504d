"""Environment steps per second of training without a linearizer: IBOL, and DIAYN as the yardstick.

IBOL looks at some steps of each trajectory (`encoded_states`, `policy_steps`), or on Pendulum also at every step. One
process and one core; the methods take turns. The settings are those of `fast` without a linearizer (its part `raw`) for
an environment that has no settings of its own: 64 episodes in an epoch, of 1000 steps on the point and 200 on
Gymnasium's Pendulum. The first epoch, which compiles, is left out. Seconds are of the processor (`time.process_time`),
so that other work on the machine does not count; those of the clock are beside them.

    taskset -c 0 python benchmarks/raw_speed.py --json benchmarks/results/raw_speed.json
"""

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"  # before JAX is imported

import argparse
import dataclasses
import statistics
import time
from typing import Any

from ibol.envs.settings import EnvSettings
from ibol.presets import build
from ibol.training import launch
from report import write_json

EVERYTHING = {"encoded_states": 0, "policy_steps": 0}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "diayn": ("diayn", {}),
    "ibol": ("ibol", {}),
    "ibol, every step": ("ibol", EVERYTHING),
}
ENVS = {"point": 1000, "Pendulum-v1": 200}


def trainer_of(method: str, env: str, horizon: int, overrides: dict[str, Any]) -> Any:
    """A trainer with the settings of `fast` for an environment without a preset of its own."""
    found = launch.find(method)
    config = build(
        found.config,
        method,
        "fast",
        "no environment of ours",
        "raw",
        {"linearizer": "none", "policy_sees": "all", **overrides},
    )
    config = dataclasses.replace(config, evaluate_every=0)
    return found.trainer(env, EnvSettings(num_threads=1, horizon=horizon), config, 0)


def measure(env: str, horizon: int, epochs: int) -> dict[str, dict[str, float]]:
    cases = {case: made for case, made in CASES.items() if horizon <= 200 or made[1] != EVERYTHING}
    trainers = {case: trainer_of(method, env, horizon, overrides) for case, (method, overrides) in cases.items()}
    rates: dict[str, list[tuple[float, float]]] = {case: [] for case in trainers}
    for trainer in trainers.values():
        trainer.train_epoch(0)
    for epoch in range(1, 1 + epochs):
        for case, trainer in trainers.items():
            began, wall = time.process_time(), time.perf_counter()
            steps = trainer.train_epoch(epoch).env_steps
            rates[case].append((steps / (time.process_time() - began), steps / (time.perf_counter() - wall)))
    return {
        case: {
            "steps_per_cpu_second": statistics.median(cpu for cpu, _ in found),
            "steps_per_second": statistics.median(clock for _, clock in found),
            "epochs": len(found),
        }
        for case, found in rates.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    results = {}
    for env, horizon in ENVS.items():
        results[env] = measure(env, horizon, args.epochs)
        for case, found in results[env].items():
            print(f"{env}, {case}: {found['steps_per_cpu_second']:.0f} steps per CPU second")
    if args.json:
        write_json(args.json, {"epochs": args.epochs}, ("ibol", "mujoco", "jax", "equinox", "optax"), results)


if __name__ == "__main__":
    main()
