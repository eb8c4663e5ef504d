"""The stack that solves a task: decisions on top, skills below them, a linearizer below those, and the robot.

A decision is a latent in [-2, 2]^d that is held for `l_m` macro steps; without skills it is an action of the robot.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ibol.bounds import Count, Natural, Positive
from ibol.envs import TASKS, TaskEnv, find_task, sizes
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError, naming, unknown
from ibol.learners.normalizer import Normalizer, find_normalizer, load_normalizer
from ibol.learners.rollout import Act, Trajectories, collect
from ibol.learners.sac_learner import SACFields
from ibol.runs import files
from ibol.seeding import derive
from ibol.skills.latents import LATENT_RANGE
from ibol.skills.policy import Skills, copy_skills, load_skills
from ibol.training.trainer import TrainingConfig

MACRO_LENGTH = 10  # steps that l_m counts where there is no linearizer to say it
EVALUATION_SEED = derive(0, "downstream evaluation")  # the same goals for every run
_TRAJECTORIES = 100  # for the statistics of a robot that ships none
SKILLS_COPY, SET_COPY = "skills", "imitation.safetensors"

Choose = Callable[[NDArray[np.float32], int], Any]


@dataclass(frozen=True)
class DownstreamConfig(TrainingConfig, SACFields):
    """Settings of a downstream task; the preset gives the defaults."""

    skills: str = ""
    """The run of 'ibol discover' whose skills are used; none: SAC on the robot's own actions."""
    controller: Literal["sac", "planner"] = "sac"
    """What chooses latents: a policy that SAC learns, or a search in the simulator (a reference)."""
    l_m: Count = 20
    """Macro steps for which a latent is held; without a linearizer 10 environment steps each."""
    latent_range: Positive = LATENT_RANGE
    """Latents are chosen from [-latent_range, latent_range]^d."""
    goal_range: Positive | None = None
    """Goals are drawn from [-goal_range, goal_range] metres in each dimension (default: the paper's)."""
    imitation_set: str | None = None
    """The file with the paths to imitate, made by 'ibol imitation-set'."""
    normalizer: Literal["ema", "scaled"] = "ema"
    """How observations are normalised: a moving average, or the robot's fixed statistics, with locations divided by the
    goals' standard deviation."""
    relative_goals: bool = False
    """Show the controller goals relative to the robot's location."""
    reward_scale: Positive = 1.0
    """Factor of the rewards in learning; logged rewards are unscaled."""
    evaluate_every: Natural = 100
    """Epochs between evaluations of the controller's mode; 0 never evaluates."""
    evaluation_episodes: Count = 64
    """Episodes of an evaluation, with the same goals each time; a planner plans for each of them."""
    candidates: Count = 64
    """Plans that a planner tries in each iteration for each episode."""
    elites: Count = 8
    """The number of best plans that the next iteration's are drawn around."""
    iterations: Count = 6
    """Iterations of a planner."""


class Hierarchy:
    """A task with the skills that are used in it."""

    def __init__(self, task: str, env_settings: EnvSettings, config: DownstreamConfig) -> None:
        known = find_task(task)
        if known is None:
            hint = ", or name a robot that has a location, for the task of reaching one"
            raise unknown("task", task, TASKS, hint)
        self.task, self.env_settings, self.config = known, env_settings, config
        self.skills = _find_skills(config.skills, self.task.robot)
        env = self.make_env(1)
        self.robot_dim, self.horizon, self.location_dims = env.robot_dim, env.horizon, env.location_dims
        self.spread, self.hold = env.spread, 1
        self.state_dim, self.decision_dim = sizes(env)
        if self.skills is not None:
            linearizer = self.skills.linearizer
            self.decision_dim = self.skills.latent_dim
            self.hold = config.l_m * (MACRO_LENGTH if linearizer is None else linearizer.macro_length)
        self.decisions = -(-self.horizon // self.hold)
        """Decisions in an episode."""

    def make_env(self, num_envs: int) -> TaskEnv:
        """A batch of the task."""
        options = {"goal_range": self.config.goal_range, "imitation_set": self.config.imitation_set}
        env = self.env_settings.make(self.task.name, num_envs, **options)
        assert isinstance(env, TaskEnv)
        return env

    def controller(self, choose: Choose) -> Act:
        """Actions of the robot from `choose(observations (N, n), number of the decision)`, which answers in [-1, 1]^d.

        Skill policy and linearizer act by their modes, and see nothing of the targets.
        """
        skills, held = self.skills, self.hold
        if skills is None:
            return choose
        act: Act | None = None

        def step(observations: NDArray[np.float32], t: int) -> Any:
            nonlocal act
            if t % held == 0:
                act = skills.controller(self.latents(np.asarray(choose(observations, t // held))), deterministic=True)
            assert act is not None
            return act(observations[:, : self.robot_dim], t % held)

        return step

    def latents(self, decisions: NDArray[np.floating]) -> NDArray[np.floating]:
        """What decisions (N, d) in [-1, 1]^d mean to the skills."""
        assert self.skills is not None
        return self.skills.prior.from_box(decisions, self.config.latent_range)

    def rollout(
        self, env: TaskEnv, choose: Choose, seed: int | list[int | None]
    ) -> tuple[Trajectories, NDArray[np.float32]]:
        """Episodes step by step, and the decisions (N, decisions, d) in them."""
        chosen = np.zeros((env.num_envs, self.decisions, self.decision_dim), np.float32)

        def remember(observations: NDArray[np.float32], decision: int) -> NDArray[np.float32]:
            chosen[:, decision] = choose(observations, decision)
            return chosen[:, decision]

        return collect(env, self.controller(remember), seed=seed), chosen

    def by_decision(self, steps: Trajectories, chosen: NDArray[np.float32]) -> Trajectories:
        """The same episodes as the controller sees them: one step for each decision, with the sum of its rewards."""
        starts = np.arange(self.decisions) * self.hold
        return Trajectories(
            states=steps.states[:, np.append(starts, self.horizon)],
            actions=chosen,
            rewards=np.add.reduceat(steps.rewards, starts, axis=1),
            lengths=-(-steps.lengths // self.hold),
            terminated=steps.terminated,
        )

    def seen(self, observations: NDArray[np.floating]) -> NDArray[np.floating]:
        """Observations (..., n), with goals as seen from the robot if that was chosen."""
        if not self.config.relative_goals:
            return observations
        place = observations[..., self.location_dims]
        goals = observations[..., self.robot_dim :]
        goals = goals - np.tile(place, goals.shape[-1] // place.shape[-1])
        return np.concatenate([observations[..., : self.robot_dim], goals], axis=-1)

    def normalizer(self) -> Normalizer:
        """The normaliser at the start."""
        if self.config.normalizer == "ema":
            return Normalizer(self.state_dim)
        linearizer = None if self.skills is None else self.skills.linearizer
        robot = load_normalizer(self.task.robot) or (linearizer.normalizer if linearizer else None)
        robot = robot or find_normalizer(self.task.robot, self.env_settings, _TRAJECTORIES, 0)
        mean, std = np.zeros(self.state_dim), np.full(self.state_dim, self.spread)
        mean[: self.robot_dim], std[: self.robot_dim] = robot.mean, robot.std
        mean[list(self.location_dims)], std[list(self.location_dims)] = 0.0, self.spread
        return Normalizer.of(mean, std)

    def keep_sources(self, directory: Path) -> None:
        """Put skills and imitation set into a run's directory, so that it can be moved and used alone."""
        skills, paths = directory / SKILLS_COPY, directory / SET_COPY
        if self.skills is not None and Path(self.config.skills) != skills:
            copy_skills(Path(self.config.skills), skills)
        if self.config.imitation_set is not None and Path(self.config.imitation_set) != paths:
            files.replace_bytes(files.inside(directory, SET_COPY), Path(self.config.imitation_set).read_bytes())


def use_copies(config: DownstreamConfig, directory: Path) -> DownstreamConfig:
    """Settings that take skills and imitation set from the run itself, wherever they came from."""
    skills, paths = directory / SKILLS_COPY, directory / SET_COPY
    if (skills / "config.json").exists():  # written last, so that the copy is whole
        config = dataclasses.replace(config, skills=str(skills))
    return dataclasses.replace(config, imitation_set=str(paths)) if paths.exists() else config


def _find_skills(source: str, robot: str) -> Skills | None:
    if not source:
        raise IbolError("name the run of 'ibol discover' whose skills to use with --skills RUN, or give --skills none")
    if source == "none":
        return None
    with naming("--skills"):
        skills = load_skills(source)
    if skills.env != robot:
        raise IbolError(f"the skills in {source} are those of {skills.env}, but this task is for {robot}")
    return skills
