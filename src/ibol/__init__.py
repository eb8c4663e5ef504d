"""Unsupervised skill discovery in continuous control: the toolkit for Bottleneck Option Learning (IBOL, ICML 2021).

import ibol
env = ibol.make("ant", num_envs=64)      # a Gymnasium VectorEnv on batched MuJoCo
agent = ibol.load_agent("runs/my-run")   # what a run has learned, ready to act
"""

from ibol import interrupt

if interrupt.is_command_line():  # before the imports that take long
    interrupt.end_at_once()

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ibol.errors import IbolError

if TYPE_CHECKING or not interrupt.is_command_line():  # a command imports what it needs when it needs it
    import ibol.gl  # noqa: F401 (before anything else imports MuJoCo)
    from ibol.envs import make

__version__ = "0.2.0"
__all__ = ["IbolError", "__version__", "load_agent", "load_linearizer", "load_skills", "make"]

if TYPE_CHECKING:
    from ibol.linearizer.policy import Linearizer
    from ibol.skills.policy import Skills


def load_linearizer(source: str | Path, *, trust_env: str | Iterable[str] = ()) -> "Linearizer":
    """A bundled linearizer by name (`half_cheetah`, `half_cheetah:1`), or that of a run directory or file.

    `trust_env` names environments that it may use although they are neither ours nor Gymnasium's own.
    """
    from ibol import trust
    from ibol.linearizer.policy import load_linearizer as load

    with trust.envs(trust_env):
        return load(source)


def load_skills(run: str | Path, *, trust_env: str | Iterable[str] = ()) -> "Skills":
    """Bundled skills by name (`ant`, `ant:diayn`; 'ibol zoo' lists them), or those that a run of 'ibol discover' holds.

    `skills.rollout(skills.sample_latents(9))` shows them.

    `trust_env` is as in `load_linearizer`.
    """
    from ibol import trust
    from ibol.skills.policy import load_skills as load

    with trust.envs(trust_env):
        return load(run)


def load_agent(run: str | Path, *, trust_env: str | Iterable[str] = ()) -> Any:
    """What the run in directory `run` has learned, of any command: `agent.kind` says what it is, `rollout` shows it.

    `trust_env` is as in `load_linearizer`.
    """
    from ibol import trust
    from ibol.training.launch import load_agent as load

    with trust.envs(trust_env):
        return load(run)
