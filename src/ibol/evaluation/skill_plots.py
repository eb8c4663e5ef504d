"""Figures of what skills do: where they go, what they earn, where they turn."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ibol.envs import ROBOTS
from ibol.errors import IbolError
from ibol.evaluation.groups import envs_of, group_runs
from ibol.evaluation.plotting import PlotOptions, count_of, is_skills, setting_of, skill_runs
from ibol.evaluation.rollouts import LINE, skill_rollouts
from ibol.figures.linearizer import plot_traces
from ibol.figures.orientation import OrientationPanel, plot_orientations
from ibol.figures.returns import ReturnsPanel, plot_returns
from ibol.figures.skills import SkillPicture, plot_skills
from ibol.linearizer.policy import load_linearizer
from ibol.runs.directory import RunDirectory
from ibol.runs.progress import WorkProgress
from ibol.seeding import derive
from ibol.skills.latents import SHOWN
from ibol.skills.policy import load_skills

ROTATION = {"quaternion": (3, 4, 5, 6), "angles": (3, 4, 5)}  # in a state; the last value is the heading's
EPISODES = 6  # of each of the 8 latents, as the paper's


def plot_trajectories(names: Sequence[str], output: Path, options: PlotOptions) -> None:
    """Skills as the paper draws them, or the traces of linearizers; a column for each run."""
    skilled = [name for name in names if is_skills(name)]
    if not skilled:
        plot_traces([load_linearizer(name) for name in names], names, output, seed=options.seed)
        return
    if len(skilled) < len(names):
        other = next(name for name in names if name not in skilled)
        raise IbolError(f"{other} holds no skills: draw skills and linearizers in pictures of their own")
    runs, count = [Path(name) for name in names], count_of(options, 500)
    eight = SHOWN * EPISODES
    top, bottom = [], []
    groups = {run.path: group for group in group_runs(runs) for run in group.runs}
    if len({len(RunDirectory.open(run).config["skills"]["location_dims"]) for run in runs}) > 1:
        raise IbolError("these skills move in spaces of different dimensions: draw them in pictures of their own")
    with WorkProgress(len(runs) * (eight + count), "episodes", options.quiet) as progress:
        for run in runs:
            directory, group = RunDirectory.open(run), groups[run]
            found = skill_rollouts(run, which="eight", trajectories=eight, seed=options.seed, progress=progress)
            title = f"{group.label} on {group.env}\npreset {group.preset}, seed {directory.config['seed']}"
            shown = f"{found.distinct} latents, {EPISODES} episodes each"
            top.append(SkillPicture(f"{title}\n{shown}", found.latents, found.locations, found.prior, False))
            bottom.append(random_skills(run, trajectories=count, seed=options.seed, progress=progress))
    plot_skills([*top, *bottom], output, columns=len(runs))


def random_skills(
    run: Path, title: str = "", *, trajectories: int = 500, seed: int = 0, progress: WorkProgress | None = None
) -> SkillPicture:
    """A panel with random skills."""
    found = skill_rollouts(run, trajectories=trajectories, seed=seed, progress=progress)
    if found.locations.shape[2] not in (1, 2):
        raise IbolError(f"the skills of {run} have no location of 1 or 2 dimensions to draw")
    return SkillPicture(title or f"{trajectories} random latents", found.latents, found.locations, found.prior)


def plot_return_bars(names: Sequence[str], output: Path, options: PlotOptions) -> None:
    """External returns of random skills, one bar for each run."""
    groups, count = group_runs(skill_runs(names)), count_of(options, 2000)
    with WorkProgress(len(names) * count, "episodes", options.quiet) as progress:
        rows = [
            [
                ReturnsPanel(
                    f"{group.label} on {env}",
                    [
                        skill_rollouts(run.path, trajectories=count, seed=options.seed, progress=progress).returns
                        for run in group.runs
                    ],
                )
                for group in groups
                if group.env == env
            ]
            for env in envs_of(groups)
        ]
    plot_returns(rows, output, title=f"External returns of {count} skills of each run\n{setting_of(groups)}")


def plot_orientation(names: Sequence[str], output: Path, options: PlotOptions) -> None:
    """Where the torso points for latents from -4 to 4, and for the linearizer's goals alone from -1 to 1."""
    runs, count = skill_runs(names), count_of(options, 32)
    panels, compared = [], set()
    groups = group_runs(runs)
    labels = {run.path: group.label for group in groups for run in group.runs}
    for run in runs:
        skills = load_skills(run)
        robot = ROBOTS.get(skills.env)
        if robot is None or robot.rotation not in ROTATION:
            floating = ", ".join(name for name, other in ROBOTS.items() if other.rotation in ROTATION)
            raise IbolError(f"{run} is of {skills.env}, but only free robots turn: {floating}")
        dims = ROTATION[robot.rotation]
        found = skill_rollouts(run, which="line", trajectories=count, seed=options.seed, state_dims=dims)
        directory = RunDirectory.open(run)
        title = f"{labels[run]}, seed {directory.config['seed']}, {count} latents"
        panels.append(OrientationPanel(title, "latent z₁", found.latents[:, 0], found.locations))
        source = skills.env, directory.config["settings"]["linearizer"]
        if skills.linearizer is not None and source not in compared:
            compared.add(source)
            goals = np.zeros((count, skills.linearizer.goal_dim), np.float32)
            goals[:, dims[-1]] = np.linspace(-1, 1, count)
            states = skills.linearizer.rollout(goals, seed=derive(options.seed, "orientation")).states
            title = f"linearizer alone, {count} goals"
            varied = "goal of the orientation"
            panels.append(OrientationPanel(title, varied, goals[:, dims[-1]], states[:, :, list(dims)]))
    plot_orientations(
        panels, output, title=f"Torso's x-axis from above, latents from {-LINE:g} to {LINE:g}\n{setting_of(groups)}"
    )
