"""A cell that only sleeps, with the lease that a real one holds: what `benchmarks/engines.py` gives to engines.

As a program it is a process of the local engine: tasks come as lines of JSON, outcomes go back as lines of JSON.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from ibol.experiments import leases


def perform(task: dict[str, Any], seconds: float) -> dict[str, Any]:
    with leases.held(Path(task["directory"]), task["name"]):
        time.sleep(seconds)
    return {"name": task["name"], "kind": "done"}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(perform(json.loads(line), float(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
