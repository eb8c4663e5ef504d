"""The campaign of damaged and hostile files: a copy of a good run is changed, then a command uses it."""

import hashlib
import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from torture import forge
from torture.bases import FILES, RUN, RUNS, Bases
from torture.mutations import PLANTED, Done, Place, apply
from torture.tally import Failure, Tally, common_failures, run_cases, unclear
from torture.worker import Job, Outcome, Worker

MEASURE = ("--trajectories", "16", "--quiet")
TRAIN = ("--preset", "smoke", "--epochs", "1", "--evaluate-every", "0", "--quiet")
OUTPUTS = (
    "figure.png",
    "report.html",
    "film.mp4",
    "film.png",
    "imitation.safetensors",
    "scores.json",
    "new",
    "experiments",
)
"""What a command may leave beside the run."""
LOAD_SKILLS = """
import ibol
skills = ibol.load_skills({run!r})
skills.rollout(skills.sample_latents(2))
"""
LOAD_LINEARIZER = """
import ibol, numpy as np
linearizer = ibol.load_linearizer({run!r})
linearizer.rollout(np.zeros((2, linearizer.goal_dim)))
"""
LOAD_AGENT = """
import ibol
agent = ibol.load_agent({run!r})
if agent.kind in ("controller", "policy"):
    agent.rollout(2)
"""
LOAD_OWN = LOAD_AGENT.replace("{run!r}", "{run!r}, trust_env='torture_own:make'")
PLANTED_SOURCE = """
import pathlib
pathlib.Path({marker!r}).write_text("imported")
def make(*args, **kwargs):
    raise RuntimeError("called")
"""

Action = tuple[str, ...] | str
"""A command, or a piece of Python; RUN stands for the run or file."""

_USE: list[tuple[int, Action]] = [
    (6, ("evaluate", RUN, "--trajectories", "16", "--episodes", "4", "--quiet")),
    (6, ("resume", RUN, "--quiet")),
    (4, ("resume", RUN, "--epochs", "4", "--quiet")),
    (3, ("report", RUN, "--no-films", "--trajectories", "16", "--quiet")),
    (2, ("plot", RUN, "--figure", "curves", "--metric", "env_steps", "--quiet")),
    (2, LOAD_AGENT),
]
_SKILLS: list[tuple[int, Action]] = [
    (4, LOAD_SKILLS),
    (3, ("plot", RUN, *MEASURE)),
    (1, ("video", RUN, "--latents", "8 directions", "--steps", "3", "--size", "64", "--quiet", "--output", "film.png")),
    (2, ("imitation-set", RUN, *MEASURE)),
]
_POINT: list[tuple[int, Action]] = [
    (3, ("downstream", "point_goal", "--skills", RUN, *TRAIN, "--run-dir", "new")),
    (2, ("discover", "point", "--method", "diayn", *TRAIN, "--run-dir", RUN, "--overwrite")),
]
ACTIONS: dict[str, list[tuple[int, Action]]] = {
    "linearize": [
        *_USE,
        (3, LOAD_LINEARIZER),
        (3, ("discover", "point", "--linearizer", RUN, *TRAIN, "--run-dir", "new")),
        (2, ("plot", RUN, *MEASURE)),
        (2, ("linearize", "point", *TRAIN, "--run-dir", RUN, "--overwrite")),
    ],
    "ibol": [*_USE, *_SKILLS, *_POINT],
    "diayn": [*_USE, *_SKILLS, *_POINT],
    "valor": [*_USE, *_SKILLS],
    "sac": [*_USE, (3, ("sac", "point", *TRAIN, "--run-dir", RUN, "--overwrite"))],
    "gym": _USE,
    "downstream": [*_USE, (3, ("sac", "point", *TRAIN, "--run-dir", RUN, "--overwrite"))],
    "planner": _USE,
    "own": [
        (weight, (*action, "--trust-env", "torture_own:make"))
        for weight, action in _USE
        if isinstance(action, tuple) and action[0] != "plot"
    ]
    + [(2, LOAD_OWN)],
    "linearizer": [
        (3, LOAD_LINEARIZER),
        (3, ("discover", "point", "--linearizer", FILES["linearizer"], *TRAIN, "--run-dir", "new")),
        (1, ("plot", FILES["linearizer"], *MEASURE)),
    ],
    "imitation": [
        (
            1,
            (
                "downstream",
                "half_cheetah_imitation",
                "--skills",
                "none",
                "--imitation-set",
                FILES["imitation"],
                *TRAIN,
                "--run-dir",
                "new",
            ),
        )
    ],
    "experiment": [(1, ("experiment", FILES["experiment"], "--preset", "smoke", "--jobs", "1", "--quiet"))],
}
WEIGHTS = {
    "linearize": 10, "ibol": 22, "diayn": 12, "valor": 6, "sac": 12, "gym": 5, "downstream": 14, "planner": 4, "own": 4,
    "linearizer": 9, "imitation": 3, "experiment": 4,
}  # fmt: skip


def _check_forging(bases: Bases, scratch: Path) -> None:
    """A forged file with the right content must be taken for good: otherwise the forger is out of date."""
    good, copy = bases.newest(), scratch / "forged.safetensors"
    forge.write(copy, *forge.read(good))
    forge.read(copy)
    copy.unlink()


class Files:
    """A campaign; `kinds` are those of `WEIGHTS` that it uses."""

    def __init__(self, bases: Bases, scratch: Path, seed: int = 0, kinds: tuple[str, ...] = tuple(WEIGHTS)) -> None:
        self.bases, self.scratch, self.seed, self.kinds = bases, scratch, seed, kinds
        self.tally = Tally("files")
        self.told: dict[int, str] = {}

    def run(self, numbers: range, workers: Sequence[Worker]) -> Tally:
        """All cases."""
        self.bases.make(self.kinds, workers[0])
        _check_forging(self.bases, self.scratch)
        run_cases(self.tally, numbers, workers, self.case)
        return self.tally

    def case(self, number: int, worker: Worker) -> Iterator[Failure]:
        """Change a copy, use it, and see what happened."""
        rng = random.Random(f"files {self.seed} {number}")
        place = Path(tempfile.mkdtemp(prefix=f"case{number}-", dir=self.scratch))
        try:
            yield from self._case(number, rng, place, worker)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _case(self, number: int, rng: random.Random, place: Path, worker: Worker) -> Iterator[Failure]:
        untouched = number < len(self.kinds)  # the first cases must simply work
        kind = rng.choices(self.kinds, [WEIGHTS[kind] for kind in self.kinds])[0]
        kind = self.kinds[number] if untouched else kind
        actions = ACTIONS[kind]
        action = rng.choices([a for _, a in actions], [w for w, _ in actions])[0]
        work, outside, marker = place / "work", place / "outside", place / "executed"
        path = self.bases.copy(kind, work)
        make_canaries(outside)
        changed = Place(rng, kind, path, outside)
        count = 0 if untouched else rng.choices([1, 2, 4], [8, 2, 1])[0]
        done = apply(changed, count)
        inside = kind in RUNS and kind != "own" and path.is_dir() and rng.random() < 0.3
        _plant(work, path, marker)
        job = _job(action, work, inside)
        before = {"outside": snapshot(outside), "work": set(os.listdir(work))}
        destroyed = snapshot(path) if path.is_dir() else {}
        outcome = worker.run(job)
        self.tally.note(outcome)
        what = f"{kind}: {'; '.join(d.text for d in done) or 'nothing changed'} → {_name(action)}"
        said = outcome.out[-300:] + outcome.err[-3000:]
        self.told[number] = f"{what}\nexit code {outcome.code}\n{said}"
        found = list(common_failures(outcome))
        if marker.exists():
            found.append(("code executed", "the planted module was imported"))
        if snapshot(outside) != before["outside"]:
            found.append(("writes outside", _difference(before["outside"], snapshot(outside))))
        strange = set(os.listdir(work)) - before["work"] - set(OUTPUTS)
        if strange:
            found.append(("writes outside", f"new beside the run: {sorted(strange)}"))
        if not found and (wrong := unclear(outcome)):
            found.append(("unclear", wrong))
        if not found:
            found += _expectations(self.bases, kind, path, action, done, outcome, destroyed)
        for failure, why in found:
            yield Failure(failure, "files", number, f"{what}: {why}", said)


def _job(action: Action, work: Path, inside: bool) -> Job:
    """The command; `inside` the run directory itself, where a planted module would be found, or beside it."""
    name = "." if inside else RUN
    cwd = str(work / RUN) if inside else str(work)
    if isinstance(action, str):
        return Job(cwd, str(work.parent), code=action.format(run=name if inside else next(iter(_targets(work)))))
    argv = tuple(name if word == RUN else word for word in action)
    if inside:
        argv = tuple(f"../{word}" if word in OUTPUTS else word for word in argv)
        argv += _outputs(argv)
    return Job(cwd, str(work.parent), argv)


def _outputs(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Where commands that write something beside the run do it when they are called inside of it."""
    names = {"plot": "figure.png", "report": "report.html", "imitation-set": "imitation.safetensors"}
    return ("--output", f"../{names[argv[0]]}") if argv[0] in names else ()


def _targets(work: Path) -> Iterator[str]:
    for name in (RUN, *FILES.values()):
        if os.path.lexists(work / name):
            yield name


def _name(action: Action) -> str:
    return " ".join(action) if isinstance(action, tuple) else action.strip().splitlines()[-1]


def _plant(work: Path, path: Path, marker: Path) -> None:
    """A module that tells that it was imported, wherever Python might look for it."""
    source = PLANTED_SOURCE.format(marker=str(marker))
    for folder in (work, path):
        if folder.is_dir():
            (folder / f"{PLANTED}.py").write_text(source)


def make_canaries(outside: Path) -> None:
    """Files and folders that nothing may touch."""
    for folder in ("folder", "empty", "folder/checkpoints"):
        (outside / folder).mkdir(parents=True, exist_ok=True)
    names = ("precious.txt", "folder/precious.txt", "folder/config.json", "folder/epoch-0000000009.safetensors")
    for name in (*names, "folder/.epoch-0000000009.safetensors.tmp", "folder/epoch-000002.png"):
        (outside / name).write_text(f"years of work in {name}")


def snapshot(folder: Path) -> dict[str, str]:
    """What is in a folder, so that any change shows."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            entry = Path(root) / name
            key = str(entry.relative_to(folder))
            if entry.is_symlink():
                found[key] = f"link to {os.readlink(entry)}"
            elif entry.is_file():
                found[key] = hashlib.sha256(entry.read_bytes()).hexdigest()
            else:
                found[key] = "folder or other"
    return found


def _difference(before: dict[str, str], after: dict[str, str]) -> str:
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    words = {True: "made", False: "changed"}
    return ", ".join(f"{n} {'deleted' if n not in after else words[n not in before]}" for n in changed[:5])


def _expectations(
    bases: Bases, kind: str, path: Path, action: Action, done: list[Done], outcome: Outcome, before: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """What follows from what was changed: a recovered run, a refused environment, an untouched run."""
    if not done and outcome.code != 0:
        yield "lost runs", "a good run was refused"
    command = "load" if isinstance(action, str) else "overwrite" if "--overwrite" in action else action[0]
    if command == "overwrite" and outcome.code == 2:
        kept = snapshot(path)
        if any(kept.get(name) != value for name, value in before.items() if name != ".lock"):
            yield "lost runs", "refused, but the run was changed"
    if command != "overwrite" and kind not in ("experiment", "imitation") and any(d.hostile for d in done):
        names = [d.hostile for d in done if d.hostile]
        if outcome.code == 0:
            yield "unclear", "a hostile environment was accepted"
        elif len(done) == 1 and names[0] not in outcome.err:
            yield "unclear", "the refusal does not name the environment"
    if done and all(d.recovers for d in done) and len(done) == 1 and kind in RUNS:
        metrics = done[0].text.startswith("metrics")
        if command == "resume" or (not metrics and command in ("evaluate", "load", "report", "plot")):
            if outcome.code != 0:
                yield "lost runs", "a good checkpoint was there"
            elif command == "resume" and "--epochs" not in action:
                yield from _differences(bases.path / kind / RUN, path)


def _differences(good: Path, path: Path) -> Iterator[tuple[str, str]]:
    last = max(file.name for file in (good / "checkpoints").iterdir())
    file = path / "checkpoints" / last
    if not file.is_file():
        yield "differences", f"there is no {last}"
    elif file.read_bytes() != (good / "checkpoints" / last).read_bytes():
        yield "differences", f"{last} has other bytes"
