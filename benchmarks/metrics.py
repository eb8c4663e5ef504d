"""How long all measures of skills take: 32 runs of 2000 samples, with 5 numbers of bins, from arrays to numbers.

python benchmarks/metrics.py --json benchmarks/results/metrics.json
"""

import argparse
import time

import numpy as np

from ibol.metrics.information import pooled_limits
from ibol.metrics.locations import nearest_centroid_accuracy
from ibol.metrics.separability import corrected_separability, neighbour_separability, separability
from ibol.metrics.spread import bootstrap_interval, return_diversity
from report import write_json

BINS = (8, 16, 32, 64, 128)


def measure(runs: int, samples: int, dims: int) -> dict[str, float]:
    """Seconds for each kind of measure, and for all."""
    rng = np.random.default_rng(0)
    latents = rng.standard_normal((runs, samples, 2))
    ends = 10 * (latents[:, :, :dims] + 0.3 * rng.standard_normal((runs, samples, dims)))
    seconds: dict[str, float] = {}
    began = time.perf_counter()

    def lap(name: str) -> None:
        seconds[name] = time.perf_counter() - began - sum(seconds.values())

    limits = pooled_limits(list(latents)), pooled_limits(list(ends))
    pairs = list(zip(latents, ends, strict=True))
    for bins in BINS:
        found = [separability(z, s, bins=bins, limits=limits).information for z, s in pairs]
        bootstrap_interval(found)
    lap("published")
    for bins in BINS:
        bootstrap_interval([corrected_separability(z, s, bins=bins, limits=limits).information for z, s in pairs])
    lap("corrected")
    bootstrap_interval([neighbour_separability(z, s).information for z, s in pairs])
    lap("neighbours")
    for s in ends:
        return_diversity(s[:, 0])
        nearest_centroid_accuracy(s[:400].reshape(8, 50, dims))
    lap("others")
    return {**seconds, "all": sum(seconds.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=32)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3, help="the fastest is reported")
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    results = {}
    for dims in (1, 2):
        rounds = [measure(args.runs, args.samples, dims) for _ in range(args.rounds)]
        results[f"{dims}-D location"] = min(rounds, key=lambda seconds: seconds["all"])
    for name, seconds in results.items():
        print(f"{name}: " + ", ".join(f"{kind} {value:.2f} s" for kind, value in seconds.items()))
    if args.json:
        settings = {name: value for name, value in vars(args).items() if name != "json"} | {"bins": BINS}
        write_json(args.json, settings, ("ibol", "numpy", "scipy"), results)


if __name__ == "__main__":
    main()
