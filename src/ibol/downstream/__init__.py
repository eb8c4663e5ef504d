"""Downstream tasks: skills put to work, by a meta-controller that learns to choose them or by a planner."""

from pathlib import Path

from ibol.downstream.hierarchy import DownstreamConfig, Hierarchy, use_copies
from ibol.downstream.meta import MetaController, MetaTrainer, controller_of
from ibol.downstream.planner import Plans, PlanTrainer, plans_of
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.runs.directory import RunDirectory
from ibol.training.method import Method


def create_trainer(
    task: str, env_settings: EnvSettings, config: DownstreamConfig, seed: int
) -> MetaTrainer | PlanTrainer:
    """A trainer at epoch 0."""
    kind = MetaTrainer if config.controller == "sac" else PlanTrainer
    made = kind(task, env_settings, config, seed)
    hold, horizon = made.hierarchy.hold, made.hierarchy.horizon
    if hold > horizon:
        raise IbolError(
            f"l_m is {config.l_m}, which holds a latent for {hold} steps, but an episode has {horizon}: choose a "
            "smaller --l-m or a longer --horizon"
        )
    return made


def load_controller(run: RunDirectory) -> MetaController | Plans:
    """The controller of the run's newest good checkpoint."""
    config = use_copies(run.settings(DownstreamConfig), run.path)
    hierarchy = Hierarchy(run.config["env"], run.settings(EnvSettings, "env_settings"), config)
    assemble = controller_of if config.controller == "sac" else plans_of
    wanted = lambda name: name.startswith(("learner/policy/", "normalizer/", "plans/"))  # noqa: E731
    return run.use_checkpoint(lambda arrays: assemble(hierarchy, arrays), wanted)[0]


def _labels(config: DownstreamConfig) -> tuple[str, ...]:
    return (Path(config.skills).name, *(["planner"] if config.controller == "planner" else []))


METHOD = Method(
    "controller",
    DownstreamConfig,
    create_trainer,
    load_controller,
    sources=("skills", "imitation_set"),
    use_copies=use_copies,
    labels=_labels,
    length=lambda config: "iterations" if config.controller == "planner" else "epochs",
)
