"""Which numbers settings may have. A setting means the same in every command and method, so one table holds for all.

What needs more than its own number to be judged is judged where it is used.
"""

import dataclasses
from typing import Any

from ibol.errors import IbolError

_COUNTS = """
    bins candidates episodes episodes_per_epoch evaluation_episodes evaluation_trajectories hidden
    iterations jobs keep_checkpoints latent_dim latent_samples macro_length marginal_samples mixture
    normalizer_trajectories prior_samples sepin_k steps trajectories
"""
_NOT_NEGATIVE = """
    action_cost batch_size checkpoint_minutes clip concentration decoded_states discount discrete_latents epochs
    evaluate_every final_learning_rate gradient_steps imitation_steps location_goals marginal_steps model_steps relabel
    replay_size rhythms seed sparse_goals temperature
"""
_POSITIVE = "goal_beta latent_range learning_rate reward_scale statistics_rate tau"
_FRACTIONS = "discount final_learning_rate location_goals relabel rhythms sparse_goals statistics_rate tau"

_LEAST = dict.fromkeys(_COUNTS.split(), 1) | dict.fromkeys(_NOT_NEGATIVE.split(), 0)
_ABOVE = dict.fromkeys(_POSITIVE.split(), 0)
_MOST = dict.fromkeys(_FRACTIONS.split(), 1)


def check(settings: Any) -> None:
    """Refuse settings (a dataclass, which may hold others) with a number that makes no sense."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            check(value)
            continue
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float):
                _check_number(field.name, number)


def _check_number(name: str, value: float) -> None:
    # In this direction of the comparisons a NaN is refused, too.
    if name in _LEAST and not value >= _LEAST[name]:
        allowed = f"at least {_LEAST[name]} is needed"
    elif name in _ABOVE and not value > _ABOVE[name]:
        allowed = f"more than {_ABOVE[name]} is needed"
    elif name in _MOST and not value <= _MOST[name]:
        allowed = f"at most {_MOST[name]} is allowed"
    else:
        return
    raise IbolError(f"{name} is {value}, but {allowed}")
