"""What a method says about itself. Its module ends with `METHOD`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ibol.envs.settings import EnvSettings
from ibol.learners.rollout import Agent
from ibol.runs.directory import RunDirectory
from ibol.training.trainer import Trainer


@dataclass(frozen=True)
class Method:
    """What can be trained: its settings, its trainer, and how what it learned is loaded."""

    title: str
    """Its name in figures and tables."""
    config: type[Any]
    """The frozen dataclass of its settings."""
    trainer: Callable[[str, EnvSettings, Any, int], Trainer]
    """A trainer at epoch 0, from the environment's name and settings, the method's settings and the seed."""
    load: Callable[[RunDirectory], Agent]
    """What a run has learned, ready to act."""
    sources: tuple[str, ...] = ()
    """Settings that may name a run or file, of which the run keeps a copy."""
    use_copies: Callable[[Any, Path], Any] = lambda config, directory: config
    """The settings with the copies in the run's directory in the place of the sources."""
    complete: Callable[[str, Any, EnvSettings], EnvSettings] = lambda env, config, env_settings: env_settings
    """The environment's settings of a new run, with what its sources know where the user left them open."""
    labels: Callable[[Any], tuple[str, ...]] = lambda config: ()
    """What belongs into the name of a run's directory, on top of method, environment, preset and seed."""
    length: Callable[[Any], str] = lambda config: "epochs"
    """The name of the setting that says how many epochs a run has."""
