"""SAC update throughput, side by side in one run: ours, SBX (JAX) and Stable-Baselines3 (PyTorch), all on the CPU.

Every contestant does the same work in a call: it samples all of the call's batches from a replay buffer of the same
content and takes that many gradient steps (critics, policy, temperature, target networks) with networks of the same
sizes; for the rest, SBX and Stable-Baselines3 keep their defaults. No environment is stepped. Each contestant has a
process of its own; they take turns (the others sleep), several rounds, so that a noisy machine hits all alike. The
rates are medians over the rounds and the ratios medians of the rounds' ratios. All want all cores: on a machine that is
busy otherwise, Stable-Baselines3 suffers most.

    pip install 'ibol[benchmarks]'
    python benchmarks/sac.py --json benchmarks/results/sac.json
"""

import argparse
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import gymnasium
import jax
import numpy as np

from ibol.learners import sac
from ibol.learners.replay import Replay
from report import write_json
from turns import compared

Run = Callable[[int], None]
"""Take this many gradient steps."""


class Spaces(gymnasium.Env):
    """Only the sizes of a robot: what SBX and Stable-Baselines3 build their networks and buffers from."""

    def __init__(self, observation: int, action: int) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (observation,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (action,), np.float32)


def transitions(args: argparse.Namespace) -> dict[str, np.ndarray]:
    rng, rows = np.random.default_rng(0), args.transitions
    columns = {
        "inputs": rng.normal(size=(rows, args.observation)),
        "actions": rng.uniform(-1, 1, size=(rows, args.action)),
        "rewards": rng.normal(size=rows),
        "next_inputs": rng.normal(size=(rows, args.observation)),
        "dones": rng.uniform(size=rows) < 0.01,
    }
    return {name: values.astype(np.float32) for name, values in columns.items()}


def ours(args: argparse.Namespace, batch: int, data: dict[str, np.ndarray]) -> Run:
    settings = sac.SACSettings(
        learning_rate=3e-4,
        discount=0.99,
        tau=0.005,
        target_entropy=-float(args.action),
        learn_temperature=True,
        target_every_step=True,
    )
    state = sac.create(
        args.observation, args.action, args.hidden, temperature=1.0, settings=settings, key=jax.random.key(0)
    )
    replay = Replay(args.transitions, {name: values.shape[1:] for name, values in data.items()})
    replay.add(data)
    rng, calls = np.random.default_rng(0), 0

    def run(steps: int) -> None:
        nonlocal state, calls
        columns = replay.sample(rng, (steps, batch))
        rewards = columns.pop("rewards")[..., None]
        batches = sac.Transitions(rewards=rewards, weights=np.ones_like(rewards), **columns)
        calls += 1
        state, _ = jax.block_until_ready(sac.update_many(state, batches, jax.random.key(calls), settings))

    return run


def sbx(args: argparse.Namespace, batch: int, data: dict[str, np.ndarray]) -> Run:
    from sbx import SAC

    model = fill(SAC("MlpPolicy", Spaces(args.observation, args.action), **settings_of_theirs(args, batch)), data)

    def run(steps: int) -> None:
        model.train(steps, batch)
        jax.block_until_ready((model.policy.actor_state.params, model.policy.qf_state.params))

    return run


def sb3(args: argparse.Namespace, batch: int, data: dict[str, np.ndarray]) -> Run:
    from stable_baselines3 import SAC

    env = Spaces(args.observation, args.action)
    model = fill(SAC("MlpPolicy", env, device="cpu", **settings_of_theirs(args, batch)), data)
    return lambda steps: model.train(steps, batch)


def settings_of_theirs(args: argparse.Namespace, batch: int) -> dict[str, Any]:
    policy = {"net_arch": list(args.hidden)}
    return {"policy_kwargs": policy, "batch_size": batch, "buffer_size": args.transitions, "seed": 0}


def fill(model: Any, data: dict[str, np.ndarray]) -> Any:
    """Put the transitions into a model's replay buffer."""
    from stable_baselines3.common.logger import Logger

    model.set_logger(Logger(folder=None, output_formats=[]))
    columns = (data[name] for name in ("inputs", "next_inputs", "actions", "rewards", "dones"))
    for state, next_state, action, reward, done in zip(*columns, strict=True):
        model.replay_buffer.add(state, next_state, action, reward, done, [{}])
    return model


CONTESTANTS = {"ours": ours, "sbx": sbx, "stable-baselines3": sb3}


def work(name: str, args: argparse.Namespace, batch: int, pipe: Connection) -> None:
    """One contestant's process: take as many gradient steps as told and answer with the seconds; 0 ends it."""
    warnings.simplefilter("ignore")
    run = CONTESTANTS[name](args, batch, transitions(args))
    while steps := pipe.recv():
        began = time.perf_counter()
        run(steps)
        pipe.send(time.perf_counter() - began)


def measure(args: argparse.Namespace, batch: int) -> dict[str, dict[str, float]]:
    steps = max(1, round(args.samples / batch))
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    for name in CONTESTANTS:
        pipes[name], theirs = context.Pipe()
        context.Process(target=work, args=(name, args, batch, theirs), daemon=True).start()
    rates: dict[str, list[float]] = {name: [] for name in pipes}
    for turn in range(args.rounds + 2):
        for name, pipe in pipes.items():
            pipe.send(steps)
            seconds = pipe.recv()
            if turn >= 2:  # the first two compile and warm up
                rates[name].append(steps / seconds)
    for pipe in pipes.values():
        pipe.send(0)
    return compared(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[256, 2048])
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 256], help="widths of the hidden layers")
    parser.add_argument("--observation", type=int, default=29, help="width of the observation (default: the Ant's)")
    parser.add_argument("--action", type=int, default=8, help="width of the action (default: the Ant's)")
    parser.add_argument("--transitions", type=int, default=20_000, help="in the replay buffer")
    parser.add_argument("--samples", type=int, default=25_600, help="transitions in a call: batch size times steps")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    results = {}
    for batch in args.batch_sizes:
        results[batch] = measure(args, batch)
        print(f"batches of {batch}, hidden layers {tuple(args.hidden)}")
        for name, row in results[batch].items():
            rate, ratio = row["steps_per_second"], row["ours_over_it"]
            print(f"  {name:18s} {rate:7.1f} gradient steps/s   ours is {ratio:.2f} times it", flush=True)
    if args.json:
        settings = {name: value for name, value in vars(args).items() if name != "json"}
        packages = ("ibol", "jax", "jaxlib", "sbx-rl", "stable-baselines3", "torch", "numpy")
        write_json(args.json, settings, packages, results)


if __name__ == "__main__":
    main()
