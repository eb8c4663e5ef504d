"""The command line, a file for each group of commands: it parses, calls and prints; the work is done elsewhere."""

import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise

import ibol
from ibol.cli import experiments, inspect, train, use
from ibol.errors import IbolError, unknown

HELP = """usage: ibol COMMAND [OPTIONS]

Unsupervised skill discovery in continuous control (IBOL, ICML 2021).

train
  linearize ENV     phase 1: a policy that moves the state in any asked direction
  discover ENV      phase 2: skills, on top of a linearizer
  downstream TASK   a controller that solves a task with skills, or without
  sac ENV           plain SAC on an environment's own reward
  resume RUN        continue an interrupted run exactly where it stood
experiment
  paper [NAME...]   the paper's figures: train what is missing, measure, draw, judge its claims
  experiment FILE   the same for an experiment of your own
use
  evaluate RUN...   measure what runs have learned
  plot RUN...       draw where skills or linearizers go, or another figure of the paper
  video RUN         film skills, linearizers or policies
  page RUN...       one HTML page in which the robot moves and you choose the skill
  report RUN...     one HTML page with all about runs
  export RUN        skills as ONNX graphs or NumPy arrays, for use without ibol
  imitation-set RUN...
                    paths of skills for half_cheetah_imitation to follow
look up
  zoo [NAME]        bundled skills, and the card of one
  envs              environments and tasks, and their sizes
  presets [COMMAND] settings of the presets, side by side
  normalize ENV     observation statistics under random actions

'ibol COMMAND --help' explains a command; 'ibol --version' prints the version."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command; exits with 2 and one sentence if something is wrong."""
    args = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        warnings.showwarning = lambda message, *_, **__: print(f"ibol: {message}", file=sys.stderr)
    try:
        if not args or args[0] in ("-h", "--help", "help"):
            print(HELP)
        elif args[0] == "--version":
            print(f"ibol {ibol.__version__}")
        elif args[0] in COMMANDS:
            COMMANDS[args[0]](args[1:])
        else:
            raise unknown("command", args[0], COMMANDS)
    except IbolError as error:
        print(f"ibol: {_shortened(str(error), 1000)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("ibol: stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:
        where = f"{_flag_of(str(error.filename), args)}: " if error.filename is not None else ""
        print(f"ibol: {where}{error.strerror or error}", file=sys.stderr)
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "RESOURCE_EXHAUSTED" not in str(error):  # how JAX says it
            raise
        print(f"ibol: there is not enough memory ({error}): choose smaller sizes", file=sys.stderr)
        sys.exit(2)


def _flag_of(path: str, args: Sequence[str]) -> str:
    """The path, after the flag that it came from."""
    flags = [flag for flag, value in pairwise(args) if flag.startswith("--") and value in path]
    return " ".join([*flags[:1], _shortened(path)])


def _shortened(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "linearize": train.train_command(
        "linearize", "Train a linearizer: a policy that moves the state in any asked direction."
    ),
    "discover": train.train_command("discover", "Discover skills without any reward.", default_method="ibol"),
    "sac": train.train_command("sac", "Train plain SAC on an environment's own reward."),
    "downstream": train.train_command(
        "downstream", "Solve a task with skills, or with plain SAC: the goal's distance goes down."
    ),
    "resume": train.resume,
    "paper": experiments.paper,
    "experiment": experiments.experiment,
    "evaluate": use.evaluate,
    "plot": use.plot,
    "video": use.video,
    "page": use.page,
    "report": use.report,
    "export": use.export,
    "imitation-set": use.imitation_set,
    "zoo": inspect.show_zoo,
    "envs": inspect.envs,
    "presets": inspect.show_presets,
    "normalize": inspect.normalize,
}
