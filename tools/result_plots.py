"""Plots the tables of docs/RESULTS.md and docs/BENCHMARKS.md, for these pages.

    python tools/result_plots.py     # writes docs/images/results.png and benchmarks.png

The numbers are read from the tables of the pages; nothing is measured, and no library but
matplotlib is needed. Run it again after a table has changed.
"""

import pathlib
import re

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

DOCS = pathlib.Path(__file__).parent.parent / "docs"
# Two colours of `tfvn.plots`, which differ for colour-blind readers and in grey print.
FIRST, SECOND = "#0077BB", "#D55E00"
REFERENCE = "#808080"

Table = dict[str, dict[str, float]]


def read_table(page: str, heading: str) -> Table:
    """Returns the first table after a heading: numbers by row and column.

    Args:
        page: Name of a page in docs/.
        heading: Text of the heading, without its `#`.
    """
    text = (DOCS / page).read_text("utf-8")
    found = re.search(rf"^#+ {re.escape(heading)}$", text, flags=re.MULTILINE)
    if found is None:
        raise ValueError(f"docs/{page} has no heading {heading!r}.")
    rows = []
    for line in text[found.end() :].splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    columns, _, *body = rows
    return {
        row[0]: {
            column: _number(cell)
            for column, cell in zip(columns[1:], row[1:], strict=True)
            if cell
        }
        for row in body
    }


def _number(cell: str) -> float:
    """Returns the number in a cell, without bold type, percent signs and commas."""
    return float(re.sub(r"[*%,\s]", "", cell))


def plot_results(path: pathlib.Path) -> None:
    """Plots the structures of noise, the pruned layer and the tied scales.

    Args:
        path: The file to write.
    """
    figure, axes = plt.subplots(1, 3, figsize=(12.5, 4.0), layout="constrained")
    structures = read_table("RESULTS.md", "Structures of multiplicative noise")
    positions = range(len(structures))
    for column, colour, marker in (
        ("NLL, one pass", FIRST, "o"),
        ("NLL, 20 draws", SECOND, "^"),
    ):
        values = [row[column] for row in structures.values()]
        axes[0].plot(values, positions, marker, color=colour, label=column)
    axes[0].set_yticks(positions, list(structures), fontsize=8)
    axes[0].invert_yaxis()
    axes[0].set(xlabel="NLL of test examples", title="noise of each structure")

    pruned = read_table("RESULTS.md", "A pruned variance layer")
    kept = [100 - _number(share) for share in pruned]
    accuracies = [row["accuracy"] for row in pruned.values()]
    axes[1].plot(kept, accuracies, "o-", color=FIRST, label="accuracy")
    axes[1].set_xscale("log")
    axes[1].invert_xaxis()
    axes[1].set(
        xlabel="% of the weights that are left",
        ylabel="accuracy, %",
        title="a pruned variance layer",
    )

    tied = read_table("RESULTS.md", "Scales tied after training")
    names = [name for name in tied if not name.startswith("SVD")]
    for column, colour, marker in (
        ("NLL", FIRST, "o"),
        ("NLL, ensemble", SECOND, "^"),
    ):
        label = "one draw" if column == "NLL" else "ensemble of 20"
        values = [tied[name][column] for name in names]
        axes[2].plot(names, values, marker, color=colour, label=label)
    axes[2].set(ylabel="NLL of test digits", title="scales tied after training")
    axes[2].tick_params(axis="x", labelsize=8)
    for ax in (axes[0], axes[2]):
        ax.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=80)


def plot_benchmarks(path: pathlib.Path) -> None:
    """Plots the time of a training step and of inference, against a plain network.

    Args:
        path: The file to write.
    """
    titles = {
        "Training step, as a ratio to the deterministic twin": "training step",
        "Inference, as a ratio to the deterministic twin": "inference",
    }
    names = [
        "Variance",
        "KTied, rank 2",
        "GaussianDropout",
        "MeanField",
        "MeanField, flipout",
        "MeanField, weights",
        "tfp DenseLocalReparameterization",
        "tfp Reparameterization",
        "tfp Flipout",
    ]
    figure, axes = plt.subplots(
        1, 2, figsize=(10.5, 4.2), sharey=True, layout="constrained"
    )
    for ax, (heading, title) in zip(axes, titles.items(), strict=True):
        rows = read_table("BENCHMARKS.md", heading)
        for shift, column, colour in (
            (-0.2, "mlp 128", FIRST),
            (0.2, "mlp 1024", SECOND),
        ):
            places = [place + shift for place in range(len(names))]
            ratios = [rows[name][column] for name in names]
            label = f"batches of {column.removeprefix('mlp ')}"
            bars = ax.barh(places, ratios, height=0.38, color=colour, label=label)
            ax.bar_label(bars, fmt="%.2f", fontsize=7, padding=2)
        ax.axvline(1.0, color=REFERENCE, linewidth=1.0)
        ax.set(xlabel="ratio to the same network of Keras layers", title=title)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    axes[1].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=80)


def main() -> None:
    """Writes both figures."""
    images = DOCS / "images"
    images.mkdir(exist_ok=True)
    plot_results(images / "results.png")
    plot_benchmarks(images / "benchmarks.png")


if __name__ == "__main__":
    main()
