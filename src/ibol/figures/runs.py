"""`ibol plot`: which picture belongs to which runs."""

from collections.abc import Sequence
from pathlib import Path

from ibol.errors import IbolError
from ibol.figures.linearizer import plot_traces
from ibol.figures.skills import SkillPicture, plot_skills
from ibol.linearizer.policy import load_linearizer
from ibol.runs.directory import RunDirectory
from ibol.skills.policy import Skills, load_skills, skills_of


def plot_runs(names: Sequence[str], output: Path, *, trajectories: int = 500, seed: int = 0) -> None:
    """Skills as the paper draws them, or the traces of linearizers; one panel for each run."""
    if not names:
        raise IbolError("name at least one run to draw")
    found = [_skills(name) for name in names]
    if not any(found):
        plot_traces([load_linearizer(name) for name in names], names, output, seed=seed)
        return
    if not all(found):
        stranger = names[found.index(None)]
        raise IbolError(f"{stranger} holds no skills: draw skills and linearizers in pictures of their own")
    panels = [random_skills(name, trajectories=trajectories, seed=seed) for name in names]
    if len({panel.paths.shape[2] for panel in panels}) > 1:
        raise IbolError("these skills move in spaces of different dimensions: draw them in pictures of their own")
    plot_skills(panels, output)


def random_skills(name: str, *, title: str = "", trajectories: int = 500, seed: int = 0) -> SkillPicture:
    """A panel with random skills of a run."""
    found = load_skills(name)
    if len(found.location_dims) not in (1, 2):
        raise IbolError(f"the skills in {name} have no location of 1 or 2 dimensions to draw")
    latents = found.sample_latents(trajectories, seed=seed)
    paths = found.rollout(latents, seed=seed).states[:, :, list(found.location_dims)]
    return SkillPicture(title or f"{found.env} ({name}), {trajectories} random skills", latents, paths)


def _skills(name: str) -> Skills | None:
    if not (Path(name) / "config.json").exists():
        return None
    run = RunDirectory.open(Path(name))
    return skills_of(run) if "skills" in run.config else None
