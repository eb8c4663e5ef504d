"""Figures of what skills do: where they go, what they earn, where they turn."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ibol.envs import ROBOTS
from ibol.errors import IbolError
from ibol.evaluation.directions import is_located, seen, shared_directions
from ibol.evaluation.groups import envs_of, group_runs
from ibol.evaluation.loading import Run, load_run, load_runs
from ibol.evaluation.plots.common import PlotOptions, is_skills, said_once, setting_of, skill_runs
from ibol.evaluation.rollouts import LINE, skill_rollouts
from ibol.figures.common import in_rows
from ibol.figures.linearizer import TracesPanel, plot_traces
from ibol.figures.orientation import OrientationPanel, plot_orientations
from ibol.figures.returns import ReturnsPanel, plot_returns
from ibol.figures.skills import LOCATION_AXES, SkillPicture, plot_skill_rows
from ibol.linearizer.evaluation import evaluate_linearizer
from ibol.linearizer.policy import load_linearizer, load_named
from ibol.metrics.directions import AXES, Directions
from ibol.robots import known_as
from ibol.runs.directory import RunDirectory
from ibol.runs.progress import WorkProgress
from ibol.seeding import derive
from ibol.skills.latents import SHOWN
from ibol.skills.policy import describe

ROTATION = {"quaternion": (3, 4, 5, 6), "angles": (3, 4, 5), "yaw": (2,)}  # in a state; the last value is the heading's
_OWN = 500  # random skills that say along which directions a run is drawn by itself
EPISODES = 6  # of each of the 8 latents, as the paper's


def plot_trajectories(names: Sequence[str], output: Path, options: PlotOptions) -> None:
    """Skills as the paper draws them, or the traces of linearizers; a column for each run, at most four in a row."""
    with_skills = [name for name in names if is_skills(name)]
    if not with_skills:
        plot_traces([linearizer_traces(name, seed=options.seed) for name in names], output)
        return
    if len(with_skills) < len(names):
        other = next(name for name in names if name not in with_skills)
        raise IbolError(f"{other} has no skills: draw skills and linearizers in separate figures")
    paths, count = skill_runs(names), options.count(500)
    if len({len(describe(RunDirectory.open(path)).location_dims) for path in paths}) > 1:
        raise IbolError("these skills move in spaces of different dimensions: draw them in pictures of their own")
    eight = SHOWN * EPISODES
    top, bottom = [], []
    named, view = said_once(group_runs(paths))
    groups = {run.path: group for group in named for run in group.runs}
    with WorkProgress(len(paths) * (eight + count), "episodes", options.quiet) as progress:
        runs = load_runs(paths)
        along = shared_directions(runs, trajectories=count, seed=options.seed, progress=progress)
        for run in runs:
            group = groups[run.path]
            title = f"{group.label} on {known_as(group.env, envs_of(named))}, seed {run.directory.config['seed']}"
            shown: dict[str, Any] = {"seed": options.seed, "progress": progress, "along": along.get(run.path)}
            top.append(eight_skills(run, title, **shown))
            bottom.append(random_skills(run, trajectories=count, **shown))
    pairs = zip(in_rows(top), in_rows(bottom), strict=True)
    rows = [[top[0], bottom[0]]] if len(paths) == 1 else [row for pair in pairs for row in pair]
    plot_skill_rows(rows, output, title=setting_of(named, view))


def eight_skills(
    run: Run, title: str = "", *, seed: int = 0, progress: WorkProgress | None = None, along: Directions | None = None
) -> SkillPicture:
    """A panel with the paper's 8 latents, 6 episodes each; without a location `along` principal directions."""
    along, axes = _directions(run, along, seed)
    shown = skill_rollouts(run, which="eight", trajectories=SHOWN * EPISODES, seed=seed, progress=progress).by_latent()
    shown = seen(shown, along)
    title = "\n".join(filter(None, [title, f"{shown.distinct} latents, {EPISODES} times each"]))
    return SkillPicture(title, shown.latents, shown.locations, shown.prior, axes=axes)


def random_skills(
    run: Run,
    title: str = "",
    *,
    trajectories: int = 500,
    seed: int = 0,
    progress: WorkProgress | None = None,
    along: Directions | None = None,
) -> SkillPicture:
    """A panel with random skills; without a location `along` principal directions."""
    run = load_run(run)
    along, axes = _directions(run, along, seed)
    rollouts = seen(skill_rollouts(run, trajectories=trajectories, seed=seed, progress=progress), along)
    if rollouts.locations.shape[2] not in (1, 2):
        raise IbolError(f"the skills of {run.path} have no location of 1 or 2 dimensions to draw")
    title = title or f"{trajectories} random latents"
    return SkillPicture(title, rollouts.latents, rollouts.locations, rollouts.prior, axes=axes)


def _directions(run: Run, along: Directions | None, seed: int) -> tuple[Directions | None, tuple[str, str]]:
    """What a run is drawn along, if it has no location: by itself along its own directions; and what the axes are."""
    run = load_run(run)
    if is_located(run):
        return None, LOCATION_AXES
    return along or shared_directions([run], trajectories=_OWN, seed=seed)[run.path], AXES


def linearizer_traces(name: str, *, seed: int = 0) -> TracesPanel:
    """A panel with what a linearizer does for goals along the location."""
    linearizer = load_linearizer(name) if Path(name).is_dir() else load_named(name)
    evaluation = evaluate_linearizer(linearizer, seed=seed)
    paths = evaluation.trajectories.states[:, :, list(evaluation.location_dims)]
    return TracesPanel(f"{known_as(linearizer.env)} linearizer ({name})", evaluation.goals, paths, evaluation.scalars())


def plot_return_bars(names: Sequence[str], output: Path, options: PlotOptions) -> None:
    """External returns of random skills, one bar for each run."""
    paths, count = skill_runs(names), options.count(2000)
    (groups, view), rollouts = said_once(group_runs(paths)), {}
    with WorkProgress(len(paths) * count, "episodes", options.quiet) as progress:
        for path in paths:
            rollouts[path] = skill_rollouts(path, trajectories=count, seed=options.seed, progress=progress)
    rows = [
        [
            ReturnsPanel(f"{group.label} on {env}", [rollouts[run.path].returns for run in group.runs])
            for group in groups
            if group.env == env
        ]
        for env in envs_of(groups)
    ]
    plot_returns(rows, output, title=f"External returns of {count} skills of each run\n{setting_of(groups, view)}")


def plot_orientation(names: Sequence[str], output: Path, options: PlotOptions) -> None:
    """Where the torso points for latents from -4 to 4, and for the linearizer's goals alone from -1 to 1."""
    paths, count = skill_runs(names), options.count(32)
    panels, compared = [], set()
    groups, view = said_once(group_runs(paths))
    labels = {run.path: group.label for group in groups for run in group.runs}
    for run in load_runs(paths):
        skills = run.skills
        robot = skills.env_settings.robot(skills.env)
        if robot is None or robot.rotation not in ROTATION:
            floating = ", ".join(name for name, other in ROBOTS.items() if other.rotation in ROTATION)
            raise IbolError(f"{run.path} is of {skills.env}, but only free robots turn: {floating}")
        dims = ROTATION[robot.rotation]
        line = skill_rollouts(run, which="line", trajectories=count, seed=options.seed, state_dims=dims)
        title = f"{labels[run.path]}\nseed {run.directory.config['seed']}, {count} latents"
        panels.append(OrientationPanel(title, "latent z₁", line.latents[:, 0], line.locations))
        source = skills.env, run.directory.config["settings"]["linearizer"]
        if skills.linearizer is not None and source not in compared:
            compared.add(source)
            goals = np.zeros((count, skills.linearizer.goal_dim), np.float32)
            goals[:, dims[-1]] = np.linspace(-1, 1, count)
            states = skills.linearizer.rollout(goals, seed=derive(options.seed, "orientation")).states
            title = f"linearizer alone, {count} goals"
            varied = "goal of the orientation"
            panels.append(OrientationPanel(title, varied, goals[:, dims[-1]], states[:, :, list(dims)]))
    plot_orientations(
        panels,
        output,
        title=f"Torso's x-axis from above, latents from {-LINE:g} to {LINE:g}\n{setting_of(groups, view)}",
    )
