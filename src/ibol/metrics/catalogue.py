"""The catalogue of metrics: what tables, reports, figures and docs say of each number. A new metric is one entry."""

import re
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["setting", "information", "behaviour", "goals", "state", "linearizer", "policy", "task", "training"]


@dataclass(frozen=True)
class Metric:
    """One number that is measured or logged."""

    name: str
    """Its key in rows and in metrics.jsonl."""
    kind: Kind
    """How it was measured (setting), what latents say (information), what skills do (behaviour) and reach (goals), what
    can be said without a location (state), or
    what it is of."""
    explanation: str
    """What it is, in one sentence."""
    better: Literal["higher", "lower", ""] = ""
    unit: str = ""
    header: str = ""
    """Its column or axis (default: the name with spaces)."""

    @property
    def column(self) -> str:
        """The header of its column, with an arrow that points to the better side."""
        return self.header + {"higher": " ↑", "lower": " ↓", "": ""}[self.better]

    @property
    def axis(self) -> str:
        """The label of its axis: of what training logs the explanation, as its names are keys."""
        title = self.explanation if self.kind == "training" else self.header
        return f"{title} ({self.unit})" if self.unit else title


_ALL = (
    Metric("env_steps", "setting", "environment steps of the whole training"),
    Metric("bins", "setting", "bins of each dimension of latent and final location"),
    Metric("episodes", "setting", "episodes of the measurement"),
    Metric("episodes_from", "setting", "what decides these episodes: the seed of the call, or the planner's own plans"),
    # What the latent Z says of the final location S.
    Metric(
        "information", "information", "information of Z about S on histograms, as published; useless skills have some",
        "higher", "nats", "I(Z; S)",
    ),
    Metric(
        "sepin@k", "information", "mean of the k largest I(S; Z_i) given the other dimensions of Z, as published",
        "higher", "nats", "SEPIN@k",
    ),
    Metric(
        "wsepin", "information", "mean of I(S; Z_i) given the others over all i, weighted by I(S; Z_i), as published",
        "higher", "nats", "WSEPIN",
    ),
    Metric(
        "corrected", "information",
        "I(Z; S) minus its mean over 10 shuffles of the latents; too low with many bins and few episodes",
        "higher", "nats", "corrected I(Z; S)",
    ),
    Metric(
        "corrected_sepin@k", "information", "SEPIN@k minus its mean over 10 shuffles of the latents",
        "higher", "nats", "corrected SEPIN@k",
    ),
    Metric(
        "corrected_wsepin", "information", "WSEPIN minus its mean over 10 shuffles of the latents",
        "higher", "nats", "corrected WSEPIN",
    ),
    Metric(
        "neighbour_information", "information", "information of Z about S from nearest neighbours, without bins",
        "higher", "nats", "neighbour I(Z; S)",
    ),
    Metric(
        "neighbour_sepin@k", "information", "SEPIN@k from nearest neighbours, without bins",
        "higher", "nats", "neighbour SEPIN@k",
    ),
    Metric(
        "neighbour_wsepin", "information", "WSEPIN from nearest neighbours, without bins",
        "higher", "nats", "neighbour WSEPIN",
    ),
    # What skills do.
    Metric(
        "accuracy", "behaviour",
        "how often episodes of 8 latents end nearest to their own latent's centroid; chance is 1/8", "higher",
    ),
    Metric(
        "coverage", "behaviour", "visited cells of 32 (x) or 1024 (x, y) between the extremes of all compared runs",
        "higher", "cells",
    ),
    Metric(
        "distance", "behaviour", "mean distance from start to end; of a linearizer for goals of full length",
        "higher", "m",
    ),
    Metric("spread", "behaviour", "root mean square distance of the ends from their mean", "higher", "m"),
    Metric("return_std", "behaviour", "standard deviation of the environment's own return over episodes"),
    Metric("return_range", "behaviour", "range of the environment's own return over episodes"),
    Metric("smallest_sector", "behaviour", "share of ends in the emptiest of 12 directions (in the plane)", "higher"),
    Metric("lowest", "behaviour", "the furthest end backward (on a line)", "lower", "m"),
    Metric("highest", "behaviour", "the furthest end forward (on a line)", "higher", "m"),
    Metric(
        "unit_coverage", "behaviour",
        "distinct cells of 1 m that 48 random skills visit by the mode of their policy, as METRA counts", "higher",
        "cells", "1 m cells",
    ),
    # Goals that a representation chooses the skill for, at each step anew.
    *(
        Metric(f"goal_{name}_{radius}m", "goals", f"{what} {radius} m of the goal", "higher")
        for radius in (3, 1)
        for name, what in (
            ("hit", "share of episodes that come within"), ("end", "share of episodes that end within"),
            ("stay", "share of steps within"),
        )
    ),
    # Without a location: final states along their first two principal directions, those of all compared runs together.
    Metric(
        "state_information", "state",
        "information of Z about the final state along its two principal directions, from nearest neighbours", "higher",
        "nats", "I(Z; final state)",
    ),
    Metric(
        "state_corrected", "state",
        "the same on histograms with 8 bins in each dimension, minus its mean over 10 shuffles of the latents",
        "higher", "nats", "corrected I(Z; final state)",
    ),
    Metric(
        "state_accuracy", "state",
        "how often episodes of 8 latents end, along the two directions, nearest to their own latent's centroid; chance "
        "is 1/8", "higher",
    ),
    Metric(
        "state_spread", "state",
        "root mean square distance of the final states from their mean along the two directions, in units of the "
        "normalised states", "higher",
    ),
    Metric("state_explained", "state", "share of the variance of all normalised final states that the directions have"),
    Metric(
        "reach", "linearizer", "distance along the goal; on a line the geometric mean of both directions",
        "higher", "m",
    ),
    Metric("shortest_direction", "linearizer", "distance in the worst direction", "higher", "m"),
    Metric("direction_error", "linearizer", "angle between goal and movement", "lower", "degrees"),
    Metric("forward", "linearizer", "where goal +1 leads", "higher", "m"),
    Metric("backward", "linearizer", "where goal -1 leads", "lower", "m"),
    Metric("rank_correlation", "linearizer", "order of the ends against the order of the goals", "higher"),
    Metric("fallen", "linearizer", "share of robots that cannot move on at the end", "lower"),
    Metric("return_mean", "policy", "mean return of these episodes", "higher"),
    Metric("length_mean", "policy", "mean length of these episodes", "", "steps"),
    Metric("random_return_mean", "policy", "mean return of random actions"),
    Metric("random_return_std", "policy", "standard deviation of the return of random actions"),
    Metric("random_length_mean", "policy", "mean length of episodes of random actions", "", "steps"),
    Metric("goal_distance_mean", "task", "mean distance to the goal in these episodes", "lower", "m", "goal distance"),
    Metric(
        "last_return", "task",
        "mean logged return while exploring over the last tenth of the epochs, at most the paper's 100", "higher",
    ),
    Metric("final_return", "task", "return of the controller's mode in the last logged evaluation", "higher"),
    Metric("untrained_distance", "task", "distance to the goal before training", "", "m", "initial distance"),
    Metric("final_distance", "task", "distance to the goal in the last logged evaluation", "lower", "m"),
    # What training logs and shows whether it learns.
    Metric("objective", "training", "the method's own objective", "higher"),
    Metric("intrinsic_reward", "training", "the method's own reward (nats for DIAYN and DADS)", "higher"),
    Metric("phi_step", "training", "root mean square length of a step in the representation phi"),
    Metric("multiplier", "training", "the dual variable of the constraint on phi"),
    Metric("decoder", "training", "log-likelihood of the latent by VALOR's decoder", "higher", "nats"),
    Metric("explore/reward", "training", "reward of EDL's exploration", "higher"),
    Metric("learn/reward", "training", "reward of EDL's skill policy", "higher"),
    Metric("learn/distance", "training", "distance of ends from what EDL's decoder says", "lower"),
    Metric("consistency", "training", "log-likelihood of a skill's states by SeCTAR's state decoder", "higher", "nats"),
    Metric("reward", "training", "the linearizer's own reward", "higher"),
    Metric("return", "training", "return while exploring", "higher"),
    Metric("evaluation/information", "training", "corrected information of the latent about the end", "higher", "nats"),
    Metric(
        "evaluation/state_information", "training",
        "corrected information of the latent about the final state along its two principal directions", "higher",
        "nats",
    ),
    Metric("evaluation/state_spread", "training", "spread of the final states along these directions", "higher"),
    Metric("evaluation/spread", "training", "spread of the ends", "higher", "m"),
    Metric("evaluation/coverage", "training", "visited cells", "higher", "cells"),
    Metric("evaluation/unit_coverage", "training", "distinct cells of 1 m, by the mode", "higher", "cells"),
    Metric("evaluation/distance", "training", "distance for goals of full length", "higher", "m"),
    Metric("evaluation/reach", "training", "distance along the goal", "higher", "m"),
    Metric("evaluation/direction_error", "training", "angle between goal and movement", "lower", "degrees"),
    Metric("evaluation/return", "training", "return of the mode", "higher"),
    Metric("evaluation/goal_distance", "training", "distance to the goal", "lower", "m"),
)  # fmt: skip
CATALOGUE = {metric.name: replace(metric, header=metric.header or metric.name.replace("_", " ")) for metric in _ALL}
"""All metrics, in the order of their columns."""


def find_metric(name: str) -> Metric:
    """The entry of a number in rows or metrics.jsonl, where `sepin@3` is that of k = 3; any other is its own name."""
    general, k = re.sub(r"@\d+$", "@k", name), name.rpartition("@")[2]
    if general not in CATALOGUE:
        return Metric(name, "training", name, header=name)
    entry = CATALOGUE[general]
    special = {field: getattr(entry, field).replace("@k", f"@{k}") for field in ("header", "explanation")}
    return entry if general == name else replace(entry, name=name, **special)
