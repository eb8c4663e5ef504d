"""The command line, a file for each group of commands: it parses, calls and prints; the work is done elsewhere."""

import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise

import ibol
from ibol.errors import IbolError, unknown

HELP = """usage: ibol COMMAND [OPTIONS]

Unsupervised skill discovery in continuous control (IBOL, ICML 2021).

start with skills that come with ibol
  zoo [NAME]             bundled skills, and the card of one
  page RUN...            an HTML page in which the robot moves and you choose the skill
  video RUN              film skills, linearizers or policies
train
  discover ENV           learn skills without a reward, by IBOL or another method
  linearize ENV          phase 1 of IBOL: a policy that moves the state in any given direction
  downstream TASK        solve a task with skills, or without
  sac ENV                plain SAC on an environment's own reward
  resume RUN             continue an interrupted run exactly where it stood
measure and draw
  evaluate RUN...        measure what runs have learned
  plot RUN...            draw where skills or linearizers go, or another figure of the paper
  report RUN...          an HTML page with settings, curves, numbers and skills of runs
use skills elsewhere
  export RUN             write ONNX graphs or NumPy arrays, for use without ibol
  imitation-set RUN...   write paths of skills for the task half_cheetah_imitation
reproduce the paper, or run your own experiment
  paper [NAME...]        train what is missing, measure, draw, and check the paper's claims
  experiment FILE        the same for an experiment of your own
look up and set up
  envs                   environments and tasks, and their sizes
  presets [COMMAND]      the settings of the presets, side by side
  normalize ENV          statistics of observations under random actions
  doctor                 check this installation: versions, hardware, rendering, extras
  completion SHELL       completion of commands and options for bash, zsh or fish

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
            _run(args)
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


def _run(args: list[str]) -> None:
    import ibol.gl  # noqa: F401 (before anything else imports MuJoCo)
    from ibol.cli.parsing import HelpAsked

    try:
        COMMANDS[args[0]](args[1:])
    except HelpAsked as asked:
        print(asked.help.text(everything=asked.everything))
        sys.exit(0)


def _flag_of(path: str, args: Sequence[str]) -> str:
    """The path, after the flag that it came from."""
    flags = [flag for flag, value in pairwise(args) if flag.startswith("--") and value in path]
    return " ".join([*flags[:1], _shortened(path)])


def _shortened(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


def _from(module: str, function: str) -> Callable[[list[str]], None]:
    """A command whose module is imported when it is called: the list of commands needs none of them."""

    def command(argv: list[str]) -> None:
        getattr(importlib.import_module(f"ibol.cli.{module}"), function)(argv)

    return command


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "linearize": _from("train", "linearize"),
    "discover": _from("train", "discover"),
    "sac": _from("train", "sac"),
    "downstream": _from("train", "downstream"),
    "resume": _from("train", "resume"),
    "paper": _from("experiments", "paper"),
    "experiment": _from("experiments", "experiment"),
    "evaluate": _from("use", "evaluate"),
    "plot": _from("use", "plot"),
    "video": _from("use", "video"),
    "page": _from("use", "page"),
    "report": _from("use", "report"),
    "export": _from("use", "export"),
    "imitation-set": _from("use", "imitation_set"),
    "zoo": _from("inspect", "show_zoo"),
    "envs": _from("inspect", "envs"),
    "presets": _from("inspect", "show_presets"),
    "normalize": _from("inspect", "normalize"),
    "doctor": _from("setup", "doctor"),
    "completion": _from("setup", "completion"),
}
