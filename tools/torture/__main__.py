"""`python tools/torture CAMPAIGN`: see the package's own words."""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torture
from torture.bases import Bases
from torture.calls import Calls
from torture.commands import Commands
from torture.files import Files
from torture.kills import Kills
from torture.tally import Tally, groups, table, write_json
from torture.worker import Worker

CAMPAIGNS = {"kills": Kills, "files": Files, "commands": Commands, "calls": Calls}
COUNTS = {"kills": 300, "files": 2000, "commands": 300, "calls": 300}


def main() -> None:
    """Run campaigns; exits with 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        "torture", description=torture.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campaign", choices=[*COUNTS, "all"])
    parser.add_argument("--count", type=int, help="cases, or kills (default: those of the bars)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--only", type=int, metavar="CASE", help="repeat one case and show what it said")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()) / "torture", help="where it works")
    parser.add_argument("--json", type=Path, help="keep all failures in this file")
    given = parser.parse_args()
    tallies = []
    for name in COUNTS if given.campaign == "all" else [given.campaign]:
        numbers = range(given.count or COUNTS[name]) if given.only is None else range(given.only, given.only + 1)
        tallies.append(campaign(name, numbers, given))
    print(groups(tallies))
    print(table(tallies))
    if given.json is not None:
        write_json(tallies, given.json)
    sys.exit(any(tally.failures for tally in tallies))


def campaign(name: str, numbers: range, given: argparse.Namespace) -> Tally:
    """Run one of them."""
    directory = given.dir.absolute()
    cache, scratch = directory / "cache", directory / "scratch"
    cache.mkdir(parents=True, mode=0o700, exist_ok=True)
    scratch.mkdir(exist_ok=True)
    made = CAMPAIGNS[name](Bases(directory), scratch, given.seed)
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(cache)) for _ in range(1 if given.only is not None else given.jobs)]
        tally = made.run(numbers, workers)
    if given.only is not None:
        print(made.told[given.only])
    return tally


if __name__ == "__main__":
    main()
