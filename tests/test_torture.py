"""The short form of the campaigns in tools/torture: kills, damaged files, wrong command lines and wrong calls."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from torture.bases import Bases
from torture.calls import Calls
from torture.commands import Commands
from torture.files import Files
from torture.kills import Kills
from torture.tally import Tally, groups
from torture.worker import Worker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(Path(os.environ["IBOL_CACHE"])) as one:
        yield one


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Bases:
    return Bases(tmp_path_factory.mktemp("torture"))


def passed(tally: Tally, least: int) -> None:
    assert not tally.failures, groups([tally])
    assert tally.cases >= least


def test_killed_runs_end_in_the_same_bytes(bases: Bases, worker: Worker, tmp_path: Path) -> None:
    campaign = Kills(bases, tmp_path, kinds=("linearize", "sac"), short=True)
    passed(campaign.run(range(6), [worker]), 6)


def test_damaged_and_hostile_files_do_no_harm(bases: Bases, worker: Worker, tmp_path: Path) -> None:
    campaign = Files(bases, tmp_path, kinds=("linearize", "ibol", "linearizer"))
    passed(campaign.run(range(60), [worker]), 60)


def test_wrong_command_lines_are_one_sentence(bases: Bases, worker: Worker, tmp_path: Path) -> None:
    passed(Commands(bases, tmp_path).run(range(60), [worker]), 60)


def test_wrong_calls_are_errors_of_ibol(bases: Bases, worker: Worker, tmp_path: Path) -> None:
    passed(Calls(bases, tmp_path).run(range(60), [worker]), 60)
