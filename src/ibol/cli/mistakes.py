"""What is wrong with a command line that could not be parsed, in one sentence."""

import difflib
import re
from collections.abc import Callable, Sequence

from ibol.cli.options import Option
from ibol.errors import IbolError

Elsewhere = Callable[[str], str]
"""Says where an unknown flag belongs, or nothing."""


def mistake(argv: Sequence[str], command: str, options: Sequence[Option], elsewhere: Elsewhere) -> IbolError | None:
    """The error for the first thing in `argv` that is wrong, or None if nothing is found."""
    flags = {flag: option for option in options for flag in option.flags}
    free = [option for option in options if option.positional]
    rest = list(argv)
    given: list[str] = []  # values of arguments
    while rest:
        word = rest.pop(0)
        if not _is_flag(word):
            given.append(word)
            if len(given) > len(free) and not (free and free[-1].several):
                return _surplus(word, command, free, given)
            place = free[min(len(given), len(free)) - 1]
            if said := place.refusal(word):
                return IbolError(f"{place.name} is {word!r}, but {said}{_nearest(word, place.choices)}")
            continue
        name, equals, value = word.partition("=")
        option = flags.get(name.replace("_", "-"))
        if option is None:
            return _unknown(name, command, flags, elsewhere)
        values = [value] if equals else []
        if option.kind == "switch":
            if values:
                return IbolError(f"{name} takes no value: give {option.flags[0]} or {option.flags[1]}")
            continue
        while rest and not _is_flag(rest[0]) and not equals and (option.several or not values):
            values.append(rest.pop(0))
        if not values and not option.several:
            return IbolError(f"{name} needs a value: {_needed(option)}")
        for one in values:
            if said := option.refusal(one):
                return IbolError(f"{name} is {one!r}, but {said}{_nearest(one, option.choices)}")
    missing = [option for option in free if option.required][len(given) :]
    if missing:
        first = missing[0]
        return IbolError(f"'ibol {command}' needs {first.name}: {_sentence(first.help)}; see 'ibol {command} --help'")
    return None


def flattened(said: str, command: str) -> IbolError:
    """The parser's own words on one line, where nothing better is known."""
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m|[\u2500-\u257f]", " ", said).split())
    return IbolError(f"{text or 'this cannot be understood'}; see 'ibol {command} --help'")


def _is_flag(word: str) -> bool:
    return word.startswith("--") or bool(re.match(r"-[A-Za-z]", word) and not re.match(r"-(inf|nan)", word, re.I))


def _unknown(name: str, command: str, flags: dict[str, Option], elsewhere: Elsewhere) -> IbolError:
    if where := elsewhere(name.replace("_", "-")):
        return IbolError(f"unknown option {name}: {where}")
    close = difflib.get_close_matches(name.replace("_", "-"), flags, n=1, cutoff=0.5)
    guess = f"did you mean {close[0]}? " if close else ""
    every = "--help-all" if len(flags) > 30 else "--help"
    return IbolError(f"unknown option {name}: {guess}'ibol {command} {every}' lists the options")


def _surplus(word: str, command: str, free: Sequence[Option], given: Sequence[str]) -> IbolError:
    if not free:
        return IbolError(f"'ibol {command}' takes no arguments, but got {word!r}: see 'ibol {command} --help'")
    taken = " and ".join(f"{option.name} is {value!r}" for option, value in zip(free, given, strict=False))
    return IbolError(f"{word!r} is one argument too many: {taken}; options begin with --, see 'ibol {command} --help'")


def _needed(option: Option) -> str:
    return f"one of {', '.join(option.choices)}" if option.choices else f"a {option.kind}"


def _nearest(value: str, choices: Sequence[str]) -> str:
    close = difflib.get_close_matches(value, choices, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _sentence(text: str) -> str:
    text = text.rstrip(".")
    return text[:1].lower() + text[1:]
