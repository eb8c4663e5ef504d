"""How long `ibol video` takes now and as of an earlier commit, side by side: whole commands, alternately.

    python benchmarks/films.py --before 463b295 --json benchmarks/results/films.json

Processor seconds are those of the command and all that it starts (the encoder, the search for an OpenGL library); they
say more than the clock where other programs run at the same time. Films are of bundled skills, with all defaults.
"""

import argparse
import io
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from report import write_json

ROOT = Path(__file__).parents[1]


def source_of(commit: str, folder: Path) -> Path:
    """The package's sources as of a commit."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


def film(source: Path, name: str, output: Path, more: list[str]) -> dict[str, float]:
    """What one film costs with these sources."""
    command = [sys.executable, "-m", "ibol", "video", name, "--output", str(output), "--overwrite", "--quiet", *more]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(source)}, stdout=subprocess.DEVNULL)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"processor_seconds": processor, "seconds": seconds, "kilobytes": output.stat().st_size / 1000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["ant", "half_cheetah"])
    parser.add_argument("--before", required=True, help="the commit to compare with")
    parser.add_argument("--steps", type=int, help="only the first steps of the episodes")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    more = [] if args.steps is None else ["--steps", str(args.steps)]
    results: dict[str, Any] = {}
    settings = {"before": args.before, "steps": args.steps or "all", "repeat": args.repeat, "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder:
        sources = {"before": source_of(args.before, Path(folder)), "now": ROOT / "src"}
        for name in args.names:
            runs: dict[str, list[dict[str, float]]] = {"before": [], "now": []}
            for _ in range(args.repeat):
                for when, source in sources.items():
                    runs[when].append(film(source, name, Path(folder) / f"{when}.mp4", more))
            least = {when: {key: min(run[key] for run in made) for key in made[0]} for when, made in runs.items()}
            ratio = {
                key: least["now"][key] / least["before"][key] for key in ("processor_seconds", "seconds", "kilobytes")
            }
            results[name] = {**least, "ratio": ratio}
            print(name, {key: round(value, 2) for key, value in ratio.items()}, flush=True)
    if args.json:
        write_json(args.json, settings, ("mujoco", "jax", "pillow", "imageio-ffmpeg"), results)


if __name__ == "__main__":
    main()
