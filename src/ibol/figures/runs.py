"""`ibol plot`: which picture belongs to which runs."""

from collections.abc import Sequence
from pathlib import Path

from ibol.errors import IbolError
from ibol.figures.linearizer import plot_traces
from ibol.figures.skills import SkillPicture, plot_skills
from ibol.linearizer.policy import load_linearizer
from ibol.runs.directory import RunDirectory
from ibol.skills.policy import Skills, skills_of


def plot_runs(names: Sequence[str], output: Path, *, trajectories: int = 500, seed: int = 0) -> None:
    """Skills as the paper draws them, or the traces of linearizers; one panel for each run."""
    if not names:
        raise IbolError("name at least one run to draw")
    found = [_skills(name) for name in names]
    if not any(found):
        plot_traces([load_linearizer(name) for name in names], names, output, seed=seed)
        return
    panels = []
    for name, skills in zip(names, found, strict=True):
        if skills is None:
            raise IbolError(f"{name} holds no skills: draw skills and linearizers in pictures of their own")
        title = f"{skills.env} ({name}), {trajectories} random skills"
        panels.append(random_skills(skills, title, trajectories=trajectories, seed=seed))
    if len({panel.paths.shape[2] for panel in panels}) > 1:
        raise IbolError("these skills move in spaces of different dimensions: draw them in pictures of their own")
    plot_skills(panels, output)


def random_skills(skills: Skills, title: str, *, trajectories: int = 500, seed: int = 0) -> SkillPicture:
    """A panel with random skills."""
    if len(skills.location_dims) not in (1, 2):
        raise IbolError(f"the skills of {title} have no location of 1 or 2 dimensions to draw")
    latents = skills.sample_latents(trajectories, seed=seed)
    paths = skills.rollout(latents, seed=seed).states[:, :, list(skills.location_dims)]
    return SkillPicture(title, latents, paths)


def _skills(name: str) -> Skills | None:
    if not (Path(name) / "config.json").exists():
        return None
    run = RunDirectory.open(Path(name))
    return skills_of(run) if "skills" in run.config else None
