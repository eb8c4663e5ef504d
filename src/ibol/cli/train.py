"""Commands that train: linearize, discover, sac, downstream and resume."""

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ibol.bounds import Count, NonNegative
from ibol.cli.parsing import TrustEnv, TrustMethod, look_here, parse, peek, trusting

_ENV = (
    "A name that 'ibol envs' lists, the TOML file of an own robot, a Gymnasium id, or module:function that makes a "
    "Gymnasium environment."
)
_KEPT = ("--seed", "--run-dir", "--overwrite", "--quiet")


def train_command(
    command: str, description: str, *, first: Sequence[str], examples: Sequence[str], default_method: str | None = None
) -> Callable[[list[str]], None]:
    """The command that trains: the preset gives the defaults, flags override them.

    The command is itself the name of the method, unless there is a default for `--method` to choose from several.
    Its help shows the flags `first`, then those of every training, and `examples`.
    """

    def run_command(argv: list[str]) -> None:
        from ibol import outside, presets
        from ibol.envs import TASKS, load_robot
        from ibol.envs.own import is_description
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
                """The method of skill discovery."""

            kind = Discover
        preset = peek(argv, "--preset", presets.DEFAULT)
        env = argv[0] if argv and not argv[0].startswith("-") else ""
        for _ in range(2):
            if is_description(env):
                argv = [load_robot(env).name if arg == env else arg for arg in argv]
                env = next(arg for arg in argv if "@" in arg)
            chosen = variants.get(peek(argv, "--variant"), {})
            part = presets.part_of({flag: peek(argv, f"--{flag}") for flag in ("linearizer", "skills")})
            defaults = presets.build(config_type, name, preset, env, part, chosen)
            start = kind(
                env=env or tyro.MISSING, settings=defaults, env_settings=EnvSettings(), run_settings=RunSettings(),
                preset=preset,
            )  # fmt: skip
            parsed = parse(
                kind, argv, command, description, start, first=(*first, *_KEPT), examples=examples,
                elsewhere=partial(_other_methods, name=name, methods=methods if default_method else ()),
            )  # fmt: skip
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


linearize = train_command(
    "linearize",
    "Train a linearizer: a policy that moves the state in any given direction.",
    first=("--preset", "--variant", "--epochs", "--horizon", "--num-threads", "--checkpoint-minutes"),
    examples=("ibol linearize half_cheetah", "ibol linearize ant --preset paper --run-dir runs/ant-paper"),
)
discover = train_command(
    "discover",
    "Learn skills without any reward.",
    first=("--method", "--preset", "--variant", "--linearizer", "--latent-dim", "--epochs"),
    examples=(
        "ibol discover ant",
        "ibol discover half_cheetah --method diayn --latent-dim 3 --seed 1",
        "ibol discover Pendulum-v1 --linearizer none",
    ),
    default_method="ibol",
)
sac = train_command(
    "sac",
    "Train plain SAC on an environment's own reward.",
    first=("--preset", "--epochs", "--hidden", "--learning-rate", "--horizon", "--num-threads"),
    examples=("ibol sac half_cheetah", "ibol sac Pendulum-v1 --epochs 50 --run-dir runs/pendulum"),
)
downstream = train_command(
    "downstream",
    "Solve a task with skills, or with plain SAC.",
    first=("--skills", "--controller", "--preset", "--epochs", "--l-m", "--goal-range"),
    examples=("ibol downstream ant_goal --skills ant", "ibol downstream ant_goal --skills ant --controller planner"),
)


def _other_methods(flag: str, *, name: str, methods: Sequence[str]) -> str:
    """Which other methods have a flag that the method `name` does not have, as a part of a sentence."""
    from ibol.training import launch

    wanted = flag.removeprefix("--no-").removeprefix("--").replace("-", "_")
    owners = [
        other for other in methods if wanted in {field.name.rstrip("_") for field in fields(launch.find(other).config)}
    ]
    return f"--method {name} does not have it, but {', '.join(owners)} do" if owners else ""


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
        """Minutes between checkpoints; 0 saves after every epoch (default: as the run was started)."""
        keep_checkpoints: Count | None = None
        """Number of checkpoints that are kept (default: as the run was started)."""
        log: Annotated[tuple[Literal["none", LogName], ...], tyro.conf.UseAppendAction] = ()
        """Also write metrics for this tool, or for none (default: as the run was started)."""
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
        print("\n".join(["next:", *(f"  {command}" for command in next_commands(run))]))
    else:
        print(f"stopped and saved; continue with: ibol resume {shlex.quote(str(run.path))}{flags}")
        sys.exit(130)


def next_commands(run: Any) -> list[str]:
    """What can be done with a finished run, as commands to copy."""
    from ibol import trust
    from ibol.envs import ROBOTS
    from ibol.page.write import is_built
    from ibol.robots.kept import DESCRIPTION, FOLDER, is_marked

    path, trusted = shlex.quote(str(run.path)), trust.flags(run.config["env"], run.method)
    named = lambda ending: shlex.quote(f"{run.path.name}{ending}")  # noqa: E731
    commands = [f"ibol evaluate {path}{trusted}"]
    if run.command in ("discover", "linearize"):
        commands.append(f"ibol plot {path} --output {named('.png')}{trusted}")
    else:
        commands.append(f"ibol plot {path} --figure curves --output {named('.png')}{trusted}")
    env = run.config["env"]
    shown = env in (*ROBOTS, "point") or is_marked(env)
    if run.command in ("discover", "linearize") and shown and is_built():
        commands.append(f"ibol page {path} --output {named('.html')}{trusted}")
    if run.command == "linearize":
        where = str(run.path / FOLDER / DESCRIPTION) if is_marked(env) else env
        commands.append(f"ibol discover {shlex.quote(where)} --linearizer {path}")
    return commands
