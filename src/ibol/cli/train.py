"""Commands that train: linearize, discover, sac, downstream and resume."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ibol.bounds import Count, NonNegative
from ibol.cli.parsing import TrustEnv, TrustMethod, look_here, parse, peek, trusting

_ENV = "A name that 'ibol envs' lists, a Gymnasium id, or module:function that makes a Gymnasium environment."


def train_command(command: str, description: str, default_method: str | None = None) -> Callable[[list[str]], None]:
    """The command that trains: the preset gives the defaults, flags override them.

    The command is itself the name of the method, unless there is a default for `--method` to choose from several.
    """

    def run_command(argv: list[str]) -> None:
        from ibol import outside, presets
        from ibol.envs import TASKS
        from ibol.envs.settings import EnvSettings
        from ibol.errors import unknown
        from ibol.training import launch
        from ibol.training.loop import RunSettings

        name = command if default_method is None else peek(argv, "--method", default_method)
        methods = launch.discovery_methods()
        if default_method is not None and name not in methods:
            if outside.is_module(name):
                look_here()
            if not launch.is_method(name):
                hint = ", or the module of one, such as my_package.my_method"
                raise unknown("method", name, methods, hint)
            methods.append(name)
        config_type = launch.find(name).config
        metavar, known = ("TASK", f"One of {', '.join(TASKS)}.") if command == "downstream" else ("ENV", _ENV)

        @dataclass(frozen=True)
        class Train:
            env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar=metavar, help=known)]
            settings: config_type  # type: ignore[valid-type]
            """How it learns; the preset gives the defaults."""
            env_settings: EnvSettings
            """How the environment is run."""
            run_settings: RunSettings
            """How the run is kept."""
            preset: str = presets.DEFAULT
            """Where the defaults come from ('ibol presets' lists them)."""

        kind: type[Any] = Train
        if variants := presets.variants(command):
            variant_names: Any = Literal[tuple(variants)]

            @dataclass(frozen=True)
            class WithVariants(Train):
                variant: variant_names | None = None
                """One of the paper's variants: several settings at once, which flags override."""

            kind = WithVariants
        if default_method is not None:
            method_names: Any = Literal[tuple(methods)]

            @dataclass(frozen=True)
            class Discover(kind):
                method: method_names = name
                """How the skills are discovered."""

            kind = Discover
        preset = peek(argv, "--preset", presets.DEFAULT)
        env = argv[0] if argv and not argv[0].startswith("-") else ""
        for _ in range(2):
            chosen = variants.get(peek(argv, "--variant"), {})
            part = presets.part_of({flag: peek(argv, f"--{flag}") for flag in ("linearizer", "skills")})
            defaults = presets.build(config_type, name, preset, env, part, chosen)
            start = kind(
                env=env or tyro.MISSING, settings=defaults, env_settings=EnvSettings(), run_settings=RunSettings(),
                preset=preset,
            )  # fmt: skip
            parsed = parse(kind, argv, command, description, start)
            if parsed.env == env:
                break
            env = parsed.env  # it came after a flag: take this environment's defaults
        run, finished = launch.start(
            name,
            parsed.env,
            parsed.settings,
            preset=preset,
            env_settings=parsed.env_settings,
            run_settings=parsed.run_settings,
        )
        _say_where(run, finished)

    return run_command


def resume(argv: list[str]) -> None:
    """`ibol resume`."""
    from ibol.training import launch
    from ibol.training.loggers import LogName

    @dataclass(frozen=True)
    class Resume:
        run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
        """The run directory."""
        epochs: Count | None = None
        """Train to this many epochs instead of the run's own number."""
        checkpoint_minutes: NonNegative | None = None
        """Time between checkpoints; 0 saves after every epoch (default: as the run was started)."""
        keep_checkpoints: Count | None = None
        """How many of the last checkpoints are kept (default: as the run was started)."""
        log: Annotated[tuple[Literal["none", LogName], ...], tyro.conf.UseAppendAction] = ()
        """Also write metrics there (default: as the run was started); none: nowhere."""
        trust_env: TrustEnv = ()
        trust_method: TrustMethod = ()
        quiet: bool = False
        """Show no progress."""

    given = parse(Resume, argv, "resume", "Continue an interrupted run exactly where its last checkpoint stands.")
    with trusting(given):
        run, finished = launch.resume(
            given.run, epochs=given.epochs, quiet=given.quiet, checkpoint_minutes=given.checkpoint_minutes,
            keep_checkpoints=given.keep_checkpoints,
            log=tuple(name for name in given.log if name != "none") if given.log else None,
        )  # fmt: skip
    _say_where(run, finished)


def _say_where(run: Any, finished: bool) -> None:
    from ibol import trust

    flags = trust.flags(run.config["env"], run.method)
    if finished:
        print(f"done: {run.path} holds the policy (checkpoints/) and its curves (metrics.jsonl)")
        print(f"next: ibol evaluate {run.path}{flags}")
    else:
        print(f"stopped and saved; continue with: ibol resume {run.path}{flags}")
        sys.exit(130)
