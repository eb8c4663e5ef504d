"""The campaign of kills: runs that are killed again and again, and resumed, end in the bytes of undisturbed ones."""

import json
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from torture.bases import RUN, Bases
from torture.tally import Failure, Tally, common_failures, run_cases
from torture.worker import Job, Outcome, Worker

KEPT = ("--preset", "smoke", "--checkpoint-minutes", "0", "--keep-checkpoints", "3", "--num-threads", "1", "--quiet")
"""A checkpoint after every epoch, so that kills hit the writing of them."""
RUNS: dict[str, tuple[str, ...]] = {
    "linearize": ("linearize", "point", *KEPT, "--epochs", "100"),
    "ibol": (
        "discover", "point", "--linearizer", "{linearize}", *KEPT, "--epochs", "30", "--evaluate-every", "10",
        "--evaluation-trajectories", "8",
    ),
    "diayn": ("discover", "point", "--method", "diayn", *KEPT, "--epochs", "60", "--evaluate-every", "30"),
    "sac": ("sac", "half_cheetah", "--horizon", "20", *KEPT, "--epochs", "80"),
    "downstream": ("downstream", "point_goal", "--skills", "{ibol}", *KEPT, "--epochs", "60"),
    "experiment": ("experiment", "{grid}", "--preset", "smoke", "--jobs", "2", "--quiet"),
}  # fmt: skip
KILLS_PER_RUN = 7
SIGNALS = (signal.SIGKILL,) * 12 + (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
IMPORTS = 2.5  # seconds that a new process imports
_BOOT = 0.15  # seconds in which the interpreter itself starts, and no word of ours is heard yet


class Kills:
    """A campaign; a case is one run that is killed several times. `kinds` are those of `RUNS` that it uses.

    A `short` one has shorter runs, and fewer new processes for the signals that a process answers.
    """

    def __init__(
        self, bases: Bases, scratch: Path, seed: int = 0, kinds: tuple[str, ...] = tuple(RUNS), short: bool = False
    ) -> None:
        self.bases, self.scratch, self.seed, self.kinds, self.short = bases, scratch, seed, kinds, short
        self.tally = Tally("kills")
        self.told: dict[int, str] = {}
        self.kills = 0
        self.seconds: dict[str, float] = {}

    def run(self, numbers: range, workers: Sequence[Worker]) -> Tally:
        """Run after run from the first number on, until there were so many kills."""
        needed = {"ibol": "linearize", "downstream": "ibol", "experiment": "experiment"}
        self.bases.make(tuple(needed[kind] for kind in self.kinds if kind in needed), workers[0])
        for kind in self.kinds:
            self._make_reference(kind, workers[0])
        first = numbers.start
        while self.kills < len(numbers):
            more = -(-(len(numbers) - self.kills) // KILLS_PER_RUN)
            run_cases(self.tally, range(first, first + more), workers, self.case)
            first += more
        self.tally.cases = self.kills
        return self.tally

    def case(self, number: int, worker: Worker) -> Iterator[Failure]:
        """Start a run, kill it several times, let it end, and compare."""
        rng = random.Random(f"kills {self.seed} {number}")
        kind = self.kinds[number % len(self.kinds)]
        place = Path(tempfile.mkdtemp(prefix=f"kill{number}-", dir=self.scratch))
        (place / "work").mkdir()
        story: list[str] = [kind]
        try:
            for failure, why, said in self._story(kind, rng, place, worker, story):
                yield Failure(failure, "kills", number, f"{'; '.join(story)}: {why}", said)
        finally:
            self.told[number] = "\n".join(story)
            shutil.rmtree(place, ignore_errors=True)

    def _story(
        self, kind: str, rng: random.Random, place: Path, worker: Worker, story: list[str]
    ) -> Iterator[tuple[str, str, str]]:
        for attempt in range(KILLS_PER_RUN + 1):
            argv = self._argv(kind, place / "work" / RUN)
            job = self._job(kind, argv, rng, place, last=attempt == KILLS_PER_RUN)
            outcome = worker.run(job)
            self.tally.note(outcome)
            said = outcome.err[-3000:]
            if outcome.signalled:
                self.kills += 1
                by = signal.Signals(job.signal).name
                story.append(f"{argv[0]}{' (new process)' if job.fresh else ''} {by} after {job.after:.2f} s")
            for failure, why in _wrong(job, outcome):
                yield failure, why, said
            if outcome.code == 0:
                break
            if outcome.code == 2:
                yield "lost runs", f"'ibol {argv[0]}' was refused after a kill", said
                return
        else:
            yield "lost runs", "it did not end", said
            return
        yield from ((failure, why, "") for failure, why in self._compare(kind, place, worker))

    def _job(self, kind: str, argv: tuple[str, ...], rng: random.Random, place: Path, *, last: bool) -> Job:
        """The next process, and when and how it ends; the last one is left alone."""
        by = rng.choice(SIGNALS)
        polite = by != signal.SIGKILL
        fresh = polite or rng.random() < (0.1 if self.short else 0.4)
        startup = IMPORTS if fresh else 0.0
        after = rng.uniform(0, startup + 0.6 * self.seconds[kind])
        if polite and rng.random() < 0.5:
            after = rng.uniform(0, startup + 1.0)
        whole_group = rng.random() < 0.5
        work = str(place / "work")
        if last:
            return Job(work, str(place), argv)
        return Job(work, str(place), argv, fresh=fresh, signal=by, after=after, whole_group=whole_group)

    def _argv(self, kind: str, run: Path) -> tuple[str, ...]:
        """The command that starts it, or goes on with it."""
        if kind == "experiment":
            return (*self._start(kind), "--dir", RUN)
        if (run / "config.json").exists():
            return ("resume", RUN, "--quiet")
        return (*self._start(kind), "--run-dir", RUN)

    def _start(self, kind: str) -> tuple[str, ...]:
        places = {name: str(self.bases.path / name / RUN) for name in ("linearize", "ibol")}
        places["grid"] = str(self.bases.path / "experiment" / "grid.toml")
        line = tuple(word.format(**places) for word in RUNS[kind])
        return (*line, "--epochs", "8") if self.short and kind != "experiment" else line

    def _reference(self, kind: str) -> Path:
        return self.bases.path / f"whole-{kind}{'-short' if self.short else ''}"

    def _make_reference(self, kind: str, worker: Worker) -> None:
        """An undisturbed run, and how long it takes."""
        place = self._reference(kind)
        if not (place / "seconds.json").exists():
            shutil.rmtree(place, ignore_errors=True)
            (place / "work").mkdir(parents=True)
            for _ in range(2):  # the first one compiles
                shutil.rmtree(place / "work" / RUN, ignore_errors=True)
                job = Job(str(place / "work"), str(place), self._argv(kind, place / "work" / RUN))
                outcome = worker.run(job)
                if outcome.code != 0:
                    raise RuntimeError(f"the reference of {kind} failed: {outcome.err}")
            self._evaluate(kind, place, worker)
            (place / "seconds.json").write_text(json.dumps(outcome.wall))
        self.seconds[kind] = json.loads((place / "seconds.json").read_text())

    def _evaluate(self, kind: str, place: Path, worker: Worker) -> str:
        """What 'ibol evaluate' finds, apart from names of places; an experiment has its own evaluation."""
        if kind == "experiment":
            return ""
        numbers = place / "numbers.json"
        argv = ("evaluate", RUN, "--trajectories", "16", "--episodes", "4", "--quiet", "--json", str(numbers))
        outcome = worker.run(Job(str(place / "work"), str(place), (*argv, "--overwrite")))
        return numbers.read_text() if outcome.code == 0 else outcome.err

    def _compare(self, kind: str, place: Path, worker: Worker) -> Iterator[tuple[str, str]]:
        """What differs from the undisturbed run."""
        reference = self._reference(kind)
        if kind != "experiment" and self._evaluate(kind, place, worker) != (reference / "numbers.json").read_text():
            yield "differences", "'ibol evaluate' finds other numbers"
        several = kind == "experiment"  # its page says how long runs took
        run = f"{RUN}/runs" if several else RUN
        whole, killed = (contents(one / "work" / run, last=several) for one in (reference, place))
        for name in sorted({*whole, *killed}):
            if whole.get(name) != killed.get(name):
                words = "is missing" if name not in killed else "is new" if name not in whole else "differs"
                yield "differences", f"{name} {words}"


def _wrong(job: Job, outcome: Outcome) -> Iterator[tuple[str, str]]:
    """What a process did wrong that was sent a signal, or none."""
    by = job.signal
    startup = job.fresh and job.after < _BOOT
    for failure, why in common_failures(outcome):
        if not (startup and failure == "tracebacks"):
            yield failure, why
    if outcome.signalled and by == signal.SIGKILL:
        return
    polite = {130, 0, *((-by,) if by != signal.SIGINT or startup else ())}
    allowed = polite if outcome.signalled else {0}
    if outcome.code not in {*allowed, 2} and not startup:
        yield "unclear", f"exit code {outcome.code}"
    elif outcome.code == 130 and len(outcome.err.strip().splitlines()) + len(outcome.out.strip().splitlines()) > 3:
        yield "unclear", "more than a line was said at the end"


def contents(run: Path, *, last: bool) -> dict[str, Any]:
    """All that must not depend on interruptions: the bytes of all files, the rows of metrics without their times.

    `last` leaves out the checkpoints before the last one, which a signal adds where they are not kept for every epoch.
    """
    found: dict[str, Any] = {}
    for root, _, files in os.walk(run):
        for file in (Path(root) / name for name in files):
            name = str(file.relative_to(run))
            if last and file.parent.name == "checkpoints" and file.name != max(files):
                continue
            if file.name == "metrics.jsonl":
                rows = [json.loads(line) for line in file.read_text().splitlines()]
                found[name] = [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]
            elif file.name != ".lock":
                found[name] = file.read_bytes()
    return found
