"""Signals: a command that starts up ends at once, one that writes cleans up first, a training saves its state.

Whoever started this process with a signal ignored (nohup, a shell's background job) finds it ignored here, too.
"""

import atexit  # nothing that takes long to import: until `end_at_once`, Ctrl-C shows a traceback
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

COMMAND_LINE = os.path.basename(sys.argv[0]) == "ibol" or (sys.argv[0] == "-m" and "ibol" in sys.orig_argv[1:])
"""Whether this process is the command `ibol`, and not a program that imports it."""
GRACE = 5.0  # seconds that an epoch has to end after a SIGTERM, which is often followed by a SIGKILL
_AGAIN = 0.5  # seconds after which an exception that somebody swallowed is raised again

_ASKED = b"\nibol: stopping after this epoch; Ctrl-C again gives it up\n"

Handler = Callable[[int, FrameType | None], None]


class CutShort(BaseException):
    """The epoch has to be given up now."""


def end_at_once() -> None:
    """Have Ctrl-C end the process with one line, wherever it is: imports and compilers may swallow an exception."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
        # While Python takes itself down there is nothing left to stop, and Ctrl-C would kill it without a word.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


@contextmanager
def raised() -> Iterator[None]:
    """Have Ctrl-C raise `KeyboardInterrupt`, for work that cleans up after itself."""
    with _handled({signal.SIGINT: signal.default_int_handler}):
        yield


@contextmanager
def held() -> Iterator[None]:
    """Have Ctrl-C wait until the end of this; processes that are started in here never see one."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Interruption:
    """Whether a training is to stop; `cut_short` is entered around what may be given up in the middle."""

    def __init__(self) -> None:
        self.requested = False
        self._inside, self._grace = False, 0.0

    @contextmanager
    def cut_short(self, grace: float) -> Iterator[None]:
        """Raise `CutShort` in here at the second Ctrl-C, or `grace` seconds after a SIGTERM or SIGHUP."""
        self._inside, self._grace = True, grace
        try:
            yield
        finally:
            self._inside = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def ask(self, number: int, frame: FrameType | None) -> None:
        """A signal to stop has come."""
        again, self.requested = self.requested, True
        if number == signal.SIGINT and not again:
            os.write(2, _ASKED)
        if number != signal.SIGINT or again:
            signal.setitimer(signal.ITIMER_REAL, 1e-3 if again else max(self._grace, 1e-3), _AGAIN)

    def alarm(self, number: int, frame: FrameType | None) -> None:
        """The time is over."""
        if self._inside:
            raise CutShort


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Have Ctrl-C, SIGTERM and SIGHUP ask the training to stop; not in other threads, where signals are not caught."""
    interruption = Interruption()
    asked = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    with _handled({**dict.fromkeys(asked, interruption.ask), signal.SIGALRM: interruption.alarm}):
        yield interruption


@contextmanager
def _handled(handlers: Mapping[int, Handler]) -> Iterator[None]:
    before = {}
    try:
        for number, handler in handlers.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    except ValueError:  # not in the main thread
        pass
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"ibol: stopped\n")
    os._exit(130)
