"""The points of `benchmarks/scale.py`, its tables, its plot and its calculation."""

import pathlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

TWIN, TIED, MEAN_FIELD = "keras", "k_tied", "mean_field"


class Point(NamedTuple):
    """What is measured in one process."""

    layer: str = TIED
    width: int = 1024
    rank: int = 2
    batch: int = 64
    draws: int = 1
    replicas: int = 1

    def __str__(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self._asdict().items())


# Factor -> (its values, the layers that have it).
SWEEPS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "width": ((512, 1024, 2048, 4096), (TWIN, TIED, MEAN_FIELD)),
    "rank": ((1, 2, 4, 8), (TIED,)),
    "batch": ((16, 64, 256, 1024), (TWIN, TIED)),
    "draws": ((1, 2, 4, 8), (TIED,)),
    "replicas": ((1, 2), (TWIN, TIED)),
}
BIG = [Point(layer, width=16_384) for layer in (TWIN, TIED)]


def sweep(factor: str, base: Point) -> dict[str, list[Point]]:
    """Returns the points of a sweep by layer."""
    values, layers = SWEEPS[factor]
    return {
        layer: [base._replace(layer=layer, **{factor: value}) for value in values]
        for layer in layers
    }


def best(results: dict[str, Any], point: Point) -> dict[str, float] | None:
    """Returns the least of each figure over the rounds of a point, if it has any."""
    rounds = results.get(str(point))
    if not rounds:
        return None
    figures = {key: min(r[key] for r in rounds) for key in ("seconds", "cpu_seconds")}
    # Peak memory is the most that a step may need.
    figures["peak_gib"] = max(r["peak_gib"] for r in rounds)
    figures["added_gib"] = max(r["peak_gib"] - r["loaded_gib"] for r in rounds)
    return figures


def exponent(values: list[int], figures: list[float]) -> float:
    """Returns the slope of a line through the logarithms, by least squares."""
    return float(np.polyfit(np.log(values), np.log(figures), 1)[0])


def curves(
    results: dict[str, Any], base: Point, figure: str
) -> dict[str, dict[str, tuple[list[int], list[float]]]]:
    """Returns the values of each factor and the figures that were measured, by layer."""
    made: dict[str, dict[str, tuple[list[int], list[float]]]] = {}
    for factor in SWEEPS:
        for layer, points in sweep(factor, base).items():
            found = [(getattr(p, factor), best(results, p)) for p in points]
            known = [(value, f[figure]) for value, f in found if f is not None]
            if len(known) > 1:
                values, figures = zip(*known, strict=True)
                made.setdefault(factor, {})[layer] = (list(values), list(figures))
    return made


def report_sweeps(results: dict[str, Any], base: Point, figure: pathlib.Path) -> None:
    """Prints the sweeps with their exponents, and plots them."""
    columns = {"seconds": "seconds", "cpu_seconds": "CPU seconds", "added_gib": "GiB"}
    for key, title in columns.items():
        print(
            f"\n{title} of a step\n" if "sec" in key else "\nAdded peak memory, GiB\n"
        )
        print("| factor | layer | values | measured | exponent | of the last two |")
        print("| --- | --- | --- | --- | --- | --- |")
        for factor, layers in curves(results, base, key).items():
            for layer, (values, figures) in layers.items():
                cells = [
                    factor,
                    layer,
                    ", ".join(f"{value:,}" for value in values),
                    ", ".join(f"{value:.3g}" for value in figures),
                    f"{exponent(values, figures):.2f}",
                    f"{exponent(values[-2:], figures[-2:]):.2f}",
                ]
                print("| " + " | ".join(cells) + " |")
    plot(results, base, figure)
    print(f"\nThe plot is in {figure}")


def plot(results: dict[str, Any], base: Point, path: pathlib.Path) -> None:
    """Plots the time of a step and the added memory against each factor."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    # Colours of `tfvn.plots`, which differ for colour-blind readers and in grey print.
    styles = {
        TWIN: ("#808080", "s"),
        TIED: ("#0077BB", "o"),
        MEAN_FIELD: ("#D55E00", "^"),
    }
    rows = {"cpu_seconds": "CPU seconds of a step", "added_gib": "added memory, GiB"}
    figure, axes = plt.subplots(
        len(rows), len(SWEEPS), figsize=(13.0, 5.4), sharey="row", layout="constrained"
    )
    for line, (key, label) in zip(axes, rows.items(), strict=True):
        measured = curves(results, base, key)
        for ax, factor in zip(line, SWEEPS, strict=True):
            for layer, (values, figures) in measured.get(factor, {}).items():
                colour, marker = styles[layer]
                ax.plot(values, figures, marker=marker, color=colour, label=layer)
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ax.set_xticks(SWEEPS[factor][0], [str(v) for v in SWEEPS[factor][0]])
            ax.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(label)
    for ax, factor in zip(axes[-1], SWEEPS, strict=True):
        ax.set_xlabel(factor)
    axes[0, 0].legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def report_big(results: dict[str, Any], points: list[Point]) -> None:
    """Prints the largest layers and the ratio of each to the first."""
    print(
        "\n| layer | peak, GiB | ratio | step, s | ratio | CPU of a step, s | ratio |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    keys = ("peak_gib", "seconds", "cpu_seconds")
    twin = best(results, points[0])
    for point in points:
        figures = best(results, point)
        cells = [f"{figures[k]:.2f} | {figures[k] / twin[k]:.2f}" for k in keys]
        print(f"| {point.layer} {point.width:,} | " + " | ".join(cells) + " |")


# A calculation, in which nothing is measured but the time of one worker.


def gradient_bytes(point: Point) -> int:
    """Returns the bytes of the float32 gradients of a kernel, without its bias."""
    kernel = point.width**2
    numbers = {
        TWIN: kernel,
        TIED: kernel + 2 * point.width * point.rank,
        MEAN_FIELD: 2 * kernel,
    }
    return 4 * numbers[point.layer]


def all_reduce_seconds(size: int, workers: int, bandwidth: float) -> float:
    """Returns the time of a ring all-reduce, in which latency costs nothing.

    Args:
        size: Bytes to add up.
        workers: Number of workers.
        bandwidth: Bytes per second that a worker sends, and receives at the same time.
    """
    return 2 * (workers - 1) / workers * size / bandwidth


def report_calculation(results: dict[str, Any], base: Point, gigabits: float) -> None:
    """Prints the step time of several workers, whose batches are each that of one.

    Args:
        results: What was measured.
        base: The point of which the sweep over widths changes the width.
        gigabits: Gbit per second that a worker sends, and receives at the same time.
    """
    times = {}
    for layer, points in sweep("width", base).items():
        found = [(point.width, best(results, point)) for point in points]
        times.update({(layer, w): f["cpu_seconds"] for w, f in found if f is not None})
    both = [w for w in SWEEPS["width"][0] if {(TIED, w), (MEAN_FIELD, w)} <= set(times)]
    print(
        f"\nCalculated, not measured, with {gigabits:g} Gbit/s for each worker; each pair "
        "is k-tied, mean-field\n"
    )
    print("| width | workers | GB of gradients | all-reduce, s | step, CPU s | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for width in dict.fromkeys([*both[-1:], BIG[0].width]):
        pair = [base._replace(layer=layer, width=width) for layer in (TIED, MEAN_FIELD)]
        sizes = [gradient_bytes(point) for point in pair]
        for workers in (1, 8, 64, 512):
            waits = [all_reduce_seconds(s, workers, gigabits * 1e9 / 8) for s in sizes]
            cells = [f"{width:,}", f"{workers}", in_pair(s / 1e9 for s in sizes)]
            cells += [in_pair(waits), "", ""]
            if width in both:
                steps = [
                    wait + times[point.layer, width]
                    for wait, point in zip(waits, pair, strict=True)
                ]
                cells[-2:] = in_pair(steps), f"{steps[1] / steps[0]:.2f}"
            print("| " + " | ".join(cells) + " |")


def in_pair(figures: Iterable[float]) -> str:
    """Returns figures with three digits each."""
    return ", ".join(f"{figure:.3g}" for figure in figures)
