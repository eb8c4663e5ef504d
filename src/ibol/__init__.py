"""Unsupervised skill discovery in continuous control: the toolkit for Bottleneck Option Learning (IBOL, ICML 2021).

import ibol
env = ibol.make("ant", num_envs=64)      # a Gymnasium VectorEnv on batched MuJoCo
agent = ibol.load_agent("runs/my-run")   # what a run has learned, ready to act
"""

from ibol import interrupt

if interrupt.COMMAND_LINE:  # before the imports that take long
    interrupt.end_at_once()

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ibol.errors import IbolError

if TYPE_CHECKING or not interrupt.COMMAND_LINE:  # a command imports what it needs when it needs it
    import ibol.gl  # noqa: F401 (before anything else imports MuJoCo)
    from ibol.envs import OwnRobot as Robot
    from ibol.envs import make

__version__ = "0.2.0"
__all__ = ["IbolError", "Robot", "__version__", "load_agent", "load_linearizer", "load_skills", "make"]

if TYPE_CHECKING:
    from ibol.linearizer.policy import Linearizer
    from ibol.skills.policy import Skills


def load_linearizer(source: str | Path, *, trust_env: str | Iterable[str] = ()) -> "Linearizer":
    """Load a linearizer: a policy that moves the state in the direction of a goal.

    Args:
        source: the name of a bundled one (`half_cheetah`; `half_cheetah:1` is its second seed), the directory of a run
            of `ibol linearize`, or a `.safetensors` file of one.
        trust_env: environments that it may use although they are neither ours nor Gymnasium's own. Making one of them
            runs its code.

    Returns:
        The linearizer, ready to act.

    Raises:
        IbolError: there is none of that name, or the file is damaged.
    """
    from ibol import trust
    from ibol.linearizer.policy import load_linearizer as load

    with trust.envs(trust_env):
        return load(source)


def load_skills(run: str | Path, *, trust_env: str | Iterable[str] = ()) -> "Skills":
    """Load skills: a policy with one behaviour for each latent z.

    Args:
        run: the name of bundled skills (`ant`, `ant:diayn`; `ibol zoo` lists them), or the directory of a run of
            `ibol discover`.
        trust_env: as in `load_linearizer`.

    Returns:
        The skills with all that they need: the normaliser of their observations and their linearizer.

    Raises:
        IbolError: there are none of that name, or no checkpoint is good.
    """
    from ibol import trust
    from ibol.skills.policy import load_skills as load

    with trust.envs(trust_env):
        return load(run)


def load_agent(run: str | Path, *, trust_env: str | Iterable[str] = (), trust_method: str | Iterable[str] = ()) -> Any:
    """Load what a run has learned, whatever command made it.

    Args:
        run: the directory of a run, or the name of bundled skills.
        trust_env: as in `load_linearizer`.
        trust_method: modules of methods from outside that may be imported for it, as the run names them.

    Returns:
        An agent. Its `kind` is "skills", "linearizer", "policy" (of `ibol sac`) or "controller" (of `ibol downstream`).
        `rollout` plays episodes: of latents (N, d), of goals (N, n), or for the last two of a number of episodes.

    Raises:
        IbolError: there is no such run, or no checkpoint is good.
    """
    from ibol import trust
    from ibol.training.launch import load_agent as load

    with trust.both(trust_env, trust_method):
        return load(run)
