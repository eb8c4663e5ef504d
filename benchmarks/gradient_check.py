"""IBOL's gradient through states (`--pathwise states`) next to the policy gradient from many episodes.

    ibol discover ant --seed 100 --epochs 20 --final-steps 0 --run-dir DIR/ant-20
    python benchmarks/gradient_check.py DIR/ant-20 --episodes 8192 --json benchmarks/results/gradient_check.json

Both are gradients of the objective with respect to the sampling policy, with encoder and skill policy as they stand.
The policy gradient (REINFORCE, with a baseline of u) is right on average but noisy: two halves of the episodes give two
estimates of it, and their cosine says how much of them is signal. `corrected` is the cosine of the pathwise gradient
with the policy gradient divided by what this noise alone takes from it; it is left out where the halves hardly agree.

Parts of the objective: `goals` is imitation and marginal, which the pathwise gradient reaches through the goals and
which also depend on states that it holds fixed; `states` is lambda log p(u | s) - beta KL, which it reaches through the
linear model.
"""

import argparse
import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ibol.methods.ibol import (
    Batch,
    IBOLConfig,
    IBOLTrainer,
    Networks,
    columns_of,
    marginal,
    objective,
    pathwise_gains,
    sampling_distribution,
)  # fmt: skip
from ibol.methods.pathwise import LinearDynamics, fit_dynamics
from ibol.methods.policy_gradient import quadratic_fit, time_sum
from ibol.nn.networks import BetaPolicy
from ibol.seeding import derive, generator
from ibol.training.launch import create_trainer, open_run
from report import write_json

PARTS = ("goals", "states")
FITTED = 6  # batches that the linear model is fitted to, as in a training with 6 recent epochs
LEAST_AGREEMENT = 0.02  # of two halves, for a correction to mean something
Gradients = dict[str, dict[str, NDArray[np.float64]]]  # part -> group of parameters -> flat gradient


@partial(jax.jit, static_argnames="config")
def measure(networks: Networks, batch: Batch, key: jax.Array, config: IBOLConfig) -> tuple[jax.Array, jax.Array]:
    """Both parts of the objective for each trajectory, (2, B), and the latents that they were taken at."""
    term_key, marginal_key = jax.random.split(key)
    terms, latents = objective(networks, batch, term_key, config)
    goals = terms.imitation - config.alpha * marginal(networks.sampling, batch, marginal_key, config)
    return jnp.stack([goals, config.lambda_ * terms.auxiliary - config.beta * terms.compression]), latents


@jax.jit
def policy_gradient(sampling: BetaPolicy, networks: Networks, batch: Batch, advantage: jax.Array) -> BetaPolicy:
    """E[A sum_t grad log pi]."""

    def gain(policy: BetaPolicy) -> jax.Array:
        chosen = sampling_distribution(policy, batch).log_prob(batch.goals)
        return jnp.mean(advantage * time_sum(chosen, batch.lengths))

    return jax.grad(gain)(sampling)


@partial(jax.jit, static_argnames=("config", "part"))
def pathwise_gradient(
    sampling: BetaPolicy, networks: Networks, batch: Batch, latents: jax.Array, dynamics: LinearDynamics,
    key: jax.Array, config: IBOLConfig, part: int,
) -> BetaPolicy:  # fmt: skip
    """That of one part of the objective, as in the first gradient step of an epoch."""
    old = sampling_distribution(sampling, batch)

    def gain(policy: BetaPolicy) -> jax.Array:
        moved = Networks(policy, networks.encoder, networks.skill)
        return jnp.mean(pathwise_gains(moved, batch, old, latents, dynamics, key, config)[part])

    return jax.grad(gain)(sampling)


def by_group(gradient: BetaPolicy, states: int, location: tuple[int, ...]) -> dict[str, NDArray[np.float64]]:
    """A gradient as flat arrays: by what the first layer's weights see, other layers, and what the heads are for."""
    first, *rest = gradient.network.trunk.layers
    heads = gradient.network.heads
    posture = [i for i in range(heads[0].bias.shape[0]) if i not in location]
    groups = {
        "weights of the state": [first.weight[:states]],
        "weights of u": [first.weight[states:]],
        "other hidden": [first.bias, *(array for layer in rest for array in (layer.weight, layer.bias))],
    }
    for name, columns in (("heads of location goals", list(location)), ("heads of posture goals", posture)):
        groups[name] = [array[..., np.array(columns)] for head in heads for array in (head.weight, head.bias)]
    flat = {name: np.concatenate([np.asarray(a, np.float64).ravel() for a in group]) for name, group in groups.items()}
    return {"all": np.concatenate(list(flat.values())), **flat}


def check(path: Path, episodes: int, seed: int) -> list[dict[str, Any]]:
    """Rows of cosines: for each part of the objective and each group of parameters."""
    run = open_run(path)
    trainer = create_trainer(run)
    assert isinstance(trainer, IBOLTrainer)
    _, epochs = run.use_checkpoint(trainer.restore)
    networks, world = trainer.training.networks, trainer.world
    config = dataclasses.replace(trainer.config, marginal_steps=0, pathwise="states")
    count = trainer.config.episodes_per_epoch
    batches, returns, latents = [], [], []
    for number in range(episodes // count):
        u = trainer.prior.draw(generator(seed, "latents", number), count)
        batch = trainer.batch(columns_of(trainer.explore(u, 1_000_000 + number), u), np.random.default_rng(number))
        values, drawn = measure(networks, batch, jax.random.key(derive(seed, "terms", number)), config)
        batches.append(batch), returns.append(values), latents.append(drawn)
    some = jax.tree.map(lambda *arrays: jnp.concatenate(arrays), *batches[:FITTED])
    dynamics = fit_dynamics(some.encoded, some.goals, some.lengths)
    every_u, every_return = jnp.concatenate([b.u for b in batches]), jnp.concatenate(returns, axis=1)
    advantage = {part: every_return[i] - quadratic_fit(every_return[i], every_u) for i, part in enumerate(PARTS)}
    group = partial(by_group, states=world.state_dim, location=world.location_dims)
    scores: dict[str, list[Any]] = {part: [] for part in PARTS}
    paths: dict[str, list[Any]] = {part: [] for part in PARTS}
    for number, batch in enumerate(batches):
        here, key = slice(number * count, (number + 1) * count), jax.random.key(derive(seed, "paths", number))
        for i, part in enumerate(PARTS):
            scores[part].append(group(policy_gradient(networks.sampling, networks, batch, advantage[part][here])))
            found = pathwise_gradient(networks.sampling, networks, batch, latents[number], dynamics, key, config, i)
            paths[part].append(group(found))
    for kept in (scores, paths):
        kept["both"] = [{name: a[name] + b[name] for name in a} for a, b in zip(*map(kept.get, PARTS), strict=True)]
    about = {"run": path.name, "env": world.name, "epochs": epochs, "episodes": len(batches) * count}
    return [about | row for part in (*PARTS, "both") for row in _rows(part, scores[part], paths[part])]


def _rows(part: str, scores: list[Any], paths: list[Any]) -> list[dict[str, Any]]:
    rows = []
    for name in scores[0]:
        score, path = (np.stack([one[name] for one in kept]) for kept in (scores, paths))  # (batches, parameters)
        halves = [score[::2].mean(axis=0), score[1::2].mean(axis=0)]
        agreement, cosine = _cosine(*halves), _cosine(score.mean(axis=0), path.mean(axis=0))
        # Of the mean of both halves a fraction 2 c / (1 + c) is signal, where c is their cosine.
        signal = np.sqrt(2 * agreement / (1 + agreement)) if agreement > LEAST_AGREEMENT else None
        rows.append(
            {
                "part": part,
                "parameters": name,
                "cosine": cosine,
                "halves": agreement,
                "corrected": None if signal is None else cosine / signal,
                "one_epoch_pathwise": float(np.mean([_cosine(one, path.mean(axis=0)) for one in path])),
                "one_epoch_policy_gradient": float(np.mean([_cosine(one, score.mean(axis=0)) for one in score])),
                "length_ratio": float(np.linalg.norm(path.mean(axis=0)) / np.linalg.norm(score.mean(axis=0))),
            }
        )
    return rows


def _cosine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b) + 1e-300))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="runs of 'ibol discover' with IBOL")
    parser.add_argument("--episodes", type=int, default=8192)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json")
    given = parser.parse_args()
    rows = [row for path in given.runs for row in check(path, given.episodes, given.seed)]
    for row in rows:
        corrected = "" if row["corrected"] is None else f", corrected {row['corrected']:.2f}"
        print(
            f"{row['run']} {row['part']:6} {row['parameters']:24} cosine {row['cosine']:.2f} "
            f"(halves {row['halves']:.2f}{corrected})"
        )
    if given.json:
        write_json(given.json, {"seed": given.seed, "fitted_batches": FITTED}, ("ibol", "jax", "mujoco"), rows)


if __name__ == "__main__":
    main()
