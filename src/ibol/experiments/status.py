"""Where an experiment stands: what each entry needs, what is there, and how long the rest would take here."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ibol import trust
from ibol.experiments import costs
from ibol.experiments.cells import SET, Cell
from ibol.experiments.model import About, Experiment
from ibol.experiments.states import State, state_of
from ibol.report.tables import command_line
from ibol.runs.directory import RunDirectory


@dataclass(frozen=True)
class EntryStatus:
    """One line of the list."""

    name: str
    title: str
    paper: str
    needed: int
    """Runs, with those that they stand on."""
    counts: dict[str, int]
    """Runs in each state."""
    seconds: float
    """Estimated time that is left, for this entry alone."""
    known: bool
    """Whether all of its kinds of runs were measured somewhere."""
    drawn: bool

    @property
    def state(self) -> str:
        """In one word."""
        if self.counts.get("done", 0) == self.needed:
            return "complete" if self.drawn else "trained"
        for kind in ("running", "failed"):
            if self.counts.get(kind):
                return kind
        return "begun" if self.counts.get("done") or self.counts.get("part") else "not begun"


def states_of(experiment: Experiment, directory: Path) -> dict[str, State]:
    """Where each cell stands, by name."""
    return {cell.name: state_of(cell, directory) for cell in experiment.needed}


def status_of(experiment: Experiment, directory: Path, workers: int) -> list[EntryStatus]:
    """A line for each entry and, of several, one for all of them."""
    states, estimates = states_of(experiment, directory), costs.Costs(experiment.needed, directory)

    def line(name: str, about: About, cells: Sequence[Cell], *, drawn: bool) -> EntryStatus:
        counts: dict[str, int] = {}
        for cell in cells:
            kind = states[cell.name].kind
            counts[kind] = counts.get(kind, 0) + 1
        left = [cell for cell in cells if states[cell.name].kind != "done"]
        return EntryStatus(
            name, about.title, about.paper, len(cells), counts, seconds_left(left, states, estimates, workers),
            all(estimates.known(cell) for cell in left), drawn,
        )  # fmt: skip

    drawn = [(directory / entry.name / "scores.json").is_file() for entry in experiment.entries]
    lines = [
        line(entry.name, entry.about, entry.needed, drawn=done)
        for entry, done in zip(experiment.entries, drawn, strict=True)
    ]
    if len(lines) > 1:
        lines.append(line("all", About("All of these, each run once."), experiment.needed, drawn=all(drawn)))
    return lines


def seconds_left(left: Sequence[Cell], states: dict[str, State], estimates: costs.Costs, workers: int) -> float:
    """What cells that are not done take together."""
    seconds = {cell.identity: estimates.seconds(cell, states[cell.name].epochs) for cell in left}
    longest = max(costs.chains(left, seconds).values(), default=0.0)
    return costs.wall_seconds(seconds.values(), longest, workers)


def commands(experiment: Experiment, directory: Path) -> list[str]:
    """A shell command for each run that is missing, from the directory of the experiment; what others need is first.

    Commands between two comments do not need each other.
    """
    states, levels = states_of(experiment, directory), dict[str, int]()
    waves: dict[int, list[str]] = {}
    for cell in experiment.needed:
        if states[cell.name].kind == "done":
            continue
        levels[cell.name] = 1 + max((levels.get(other.name, 0) for other in cell.needs), default=0)
        begun = states[cell.name].epochs > 0 or (directory / cell.place / "config.json").exists()
        waves.setdefault(levels[cell.name], []).append(_command(cell, begun))
    lines = []
    for level, wave in sorted(waves.items()):
        after = f", after step {level - 1} is done" if level > 1 else ""
        lines += [f"# step {level}: {len(wave)} runs{after}", *wave]
    return lines


def _command(cell: Cell, begun: bool) -> str:
    if cell.method == SET:
        members = " ".join(str(member.place) for member in cell.members)
        options = f"--trajectories {cell.settings['trajectories']} --seed {cell.seed} --quiet"
        return f"ibol imitation-set {members} --output {cell.place} {options}"
    if begun:
        return f"ibol resume {cell.place} --quiet{trust.flags(cell.env, cell.method)}"
    config = {
        "command": cell.command, "method": cell.method, "env": cell.env, "preset": cell.preset, "seed": cell.seed,
        "settings": _plain(vars(cell.config())), "env_settings": _plain(vars(cell.environment())),
    }  # fmt: skip
    return f"{command_line(RunDirectory(cell.place, config))} --run-dir {cell.place} --quiet"


def _plain(values: dict[str, object]) -> dict[str, object]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
