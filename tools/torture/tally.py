"""Counting failures, showing progress, and the table at the end."""

import json
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Queue

from torture.worker import SECONDS, Outcome, Worker, WorkerDied

MEGABYTES = 2048
KINDS = (
    "differences", "lost runs", "tracebacks", "code executed", "writes outside", "hangs", "memory", "unclear",
)  # fmt: skip


@dataclass(frozen=True)
class Failure:
    """What went wrong in a case."""

    kind: str
    campaign: str
    case: int
    what: str
    """What was done, and what came of it."""
    said: str = ""
    """The end of what it printed."""


@dataclass
class Tally:
    """A campaign's result."""

    campaign: str
    cases: int = 0
    megabytes: float = 0.0
    seconds: float = 0.0
    """The longest job, in processor time."""
    failures: list[Failure] = field(default_factory=list)

    def count(self, kind: str) -> int:
        """How many cases failed in this way."""
        return sum(failure.kind == kind for failure in self.failures)

    def note(self, outcome: Outcome) -> None:
        """Keep what a job cost."""
        self.megabytes = max(self.megabytes, outcome.megabytes)
        self.seconds = max(self.seconds, outcome.seconds)


def common_failures(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """What no job may do, whatever it was: kind and explanation."""
    if outcome.executed:
        yield "code executed", ", ".join(outcome.executed)
    if outcome.hung:
        yield "hangs", f"{outcome.seconds:.0f} s of processor time, {outcome.wall:.0f} s in all"
        return
    if outcome.megabytes > MEGABYTES:
        yield "memory", f"{outcome.megabytes:.0f} MB"
    if outcome.seconds > SECONDS and outcome.code == 2:
        yield "hangs", f"{outcome.seconds:.0f} s of processor time"
    if "Traceback (most recent" in outcome.err + outcome.out:
        yield "tracebacks", last_line(outcome.err)
    elif outcome.code < 0 and not outcome.signalled:
        yield "tracebacks", f"it died of signal {-outcome.code}"


def unclear(outcome: Outcome) -> str:
    """What is wrong with an answer that should be success or one sentence; nothing if it is right."""
    if outcome.code == 0:
        return ""
    if outcome.code != 2:
        return f"exit code {outcome.code}"
    if "\x1b" in last_line(outcome.err):
        return "the answer has control characters"
    if "╭" in outcome.err:  # tyro's own
        return ""
    sentence = last_line(outcome.err)
    return "" if sentence.startswith("ibol: ") and len(sentence) > 20 else "the answer is not one sentence"


def last_line(text: str) -> str:
    """The last line that is not empty."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def run_cases(
    tally: Tally, numbers: Iterable[int], workers: Sequence[Worker], case: Callable[[int, Worker], Iterable[Failure]]
) -> None:
    """Do the cases, one at a time in each worker; shows progress."""
    todo, done = list(numbers), 0
    began, lock = time.monotonic(), threading.Lock()
    free: Queue[Worker] = Queue()
    for worker in workers:
        free.put(worker)

    def one(number: int) -> None:
        nonlocal done
        worker = free.get()
        try:
            found = list(case(number, worker))
        except WorkerDied:
            raise
        except Exception:
            found = [Failure("unclear", tally.campaign, number, "the campaign itself failed", traceback.format_exc())]
        finally:
            free.put(worker)
        with lock:
            done += 1
            tally.failures += found
            for failure in found:
                print(f"{failure.kind}, case {failure.case}: {failure.what[:300]}", file=sys.stderr)
            show_progress(tally, done, len(todo), began)

    with ThreadPoolExecutor(len(workers)) as pool:
        for future in [pool.submit(one, number) for number in todo]:
            future.result()
    tally.cases += len(todo)


_shown = 0.0


def show_progress(tally: Tally, done: int, total: int, began: float) -> None:
    """A line now and then, with the time that is left."""
    global _shown
    now = time.monotonic()
    if now - _shown < 5 and done < total:
        return
    _shown = now
    left = (now - began) / done * (total - done)
    text = f"{tally.campaign}: {done}/{total}, {len(tally.failures)} failures, {left / 60:.1f} min left"
    print(text, file=sys.stderr, flush=True)


def table(tallies: Iterable[Tally]) -> str:
    """All results side by side."""
    rows = [["campaign", "cases", *KINDS, "peak MB", "longest s"]]
    for tally in tallies:
        counts = [str(tally.count(kind)) for kind in KINDS]
        rows.append([tally.campaign, str(tally.cases), *counts, f"{tally.megabytes:.0f}", f"{tally.seconds:.1f}"])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def groups(tallies: Iterable[Tally]) -> str:
    """Failures that look alike, the most frequent first, each with an example."""
    alike: dict[tuple[str, str], list[Failure]] = {}
    for tally in tallies:
        for failure in tally.failures:
            key = re.sub(r"'[^']*'|\d+|\S*/\S*", "…", last_line(failure.said))[:100]
            alike.setdefault((f"{failure.campaign}: {failure.kind}", key), []).append(failure)
    lines = []
    for (kind, _), members in sorted(alike.items(), key=lambda item: (item[0][0], -len(item[1]))):
        first = members[0]
        lines.append(f"{len(members):4d} x {kind}, case {first.case}: {first.what[:300]}")
        lines.append(f"       {last_line(first.said)[:300]}")
    return "\n".join(lines)


def write_json(tallies: Iterable[Tally], file: Path) -> None:
    """Keep everything."""
    file.write_text(json.dumps([asdict(tally) for tally in tallies], indent=1) + "\n")
