"""Unsupervised skill discovery in continuous control: the toolkit for Bottleneck Option Learning (IBOL, ICML 2021).

import ibol
env = ibol.make("ant", num_envs=64)      # a Gymnasium VectorEnv on batched MuJoCo
policy = ibol.load_policy("runs/my-run")  # what a run has learned, ready to act
"""

from typing import Any

from ibol.envs import make
from ibol.errors import IbolError

__version__ = "0.1.0"
__all__ = ["IbolError", "__version__", "load_policy", "make"]


def load_policy(run: str) -> Any:
    """The policy that the run in directory `run` has learned: `policy.act(observations)` gives actions."""
    from ibol.methods import load_policy as load

    return load(run)
