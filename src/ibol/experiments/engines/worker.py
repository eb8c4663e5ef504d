"""A process of the local engine: tasks come as lines of JSON, outcomes go back as lines of JSON.

It does one cell after the other, so that cells of the same sizes find their functions compiled. It ends when its input
does: a training that is under way then saves, as it does on SIGTERM.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from dataclasses import asdict

_TIME_TO_SAVE = 20.0  # seconds


def main() -> None:
    """Work until there is no more to do."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what anybody prints is no answer
    tasks: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read, args=(tasks,), daemon=True).start()
    from ibol.experiments.engines.work import perform, task_from

    while (line := tasks.get()) is not None:
        outcome = perform(task_from(json.loads(line)))
        answers.write(json.dumps(asdict(outcome)) + "\n")
        answers.flush()


def _read(tasks: "queue.Queue[str | None]") -> None:
    for line in sys.stdin:
        tasks.put(line)
    tasks.put(None)
    if threading.main_thread().is_alive():  # whoever gave the work is gone
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_TIME_TO_SAVE)
        os._exit(1)


if __name__ == "__main__":
    main()
