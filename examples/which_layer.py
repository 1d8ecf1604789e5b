"""Which layer for what: eight ways to get uncertainty, on the same network and data.

    python examples/which_layer.py                # 3 seeds of each, up to 20 minutes
    python examples/which_layer.py --quick        # a check that it runs
    python examples/which_layer.py --write-docs   # also writes docs/choosing_layers.md

The network 784-200-200-10 learns 5,000 digits of MNIST. It then predicts 5,000 test digits,
the same digits turned by a quarter, and 5,000 clothes of Fashion-MNIST. For each kind of
layer the table has the accuracy, NLL and calibration error on digits, how well two scores
tell the other images from digits, and what training and prediction cost. The seeds take
turns, so that other work on the machine disturbs all kinds alike.
"""

import argparse
import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras
    from keras import layers

    import tfvn

ROOT = pathlib.Path(__file__).parent.parent
NUM_SAMPLES = 20
BATCH_SIZE = 100
BEGIN, END = "<!-- which_layer.py begins -->", "<!-- which_layer.py ends -->"


def stacked(dense: Callable, *between: Callable, **kwargs: Any) -> list[Any]:
    """Returns two hidden layers and a last one, all of one kind.

    Args:
        dense: Makes a layer of a number of units and an activation.
        *between: Make the layers after each hidden layer.
        **kwargs: Further arguments of `dense`.
    """
    hidden: list[Any] = []
    for _ in range(2):
        hidden.append(dense(200, activation="relu", **kwargs))
        hidden += [make() for make in between]
    return [*hidden, dense(10, activation="softmax", **kwargs)]


def variance() -> list[Any]:
    """Returns a plain and a variance layer, both with normalization, and a last layer."""
    parts: list[Any] = []
    for dense in (layers.Dense, tfvn.VarianceDense):
        parts += [dense(200), layers.BatchNormalization(), layers.Activation("relu")]
    return [*parts, layers.Dense(10, activation="softmax")]


# The layers of each kind, and the weight of the KL.
KINDS: dict[str, tuple[Callable[[], list[Any]], float]] = {
    "deterministic": (lambda: stacked(layers.Dense), 1.0),
    "last-layer Laplace": (lambda: stacked(layers.Dense), 1.0),
    "MC dropout, 0.5": (
        lambda: stacked(layers.Dense, lambda: layers.Dropout(0.5)),
        1.0,
    ),
    "NoisyDense, Rayleigh": (
        lambda: stacked(tfvn.NoisyDense, noise="rayleigh", structure="ard"),
        1.0,
    ),
    "VarianceDense in the middle": (variance, 1.0),
    "GaussianDropoutDense": (lambda: stacked(tfvn.GaussianDropoutDense), 1.0),
    "MeanFieldDense": (lambda: stacked(tfvn.MeanFieldDense), 1.0),
    "MeanFieldDense, KL weight 0.1": (lambda: stacked(tfvn.MeanFieldDense), 0.1),
    "KTiedDense, KL weight 0.1": (lambda: stacked(tfvn.KTiedDense), 0.1),
}


class EpochTimes(keras.callbacks.Callback):
    """Measures the seconds of each epoch."""

    def on_train_begin(self, logs: Any = None) -> None:
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seconds.append(time.perf_counter() - self.start)


def train(kind: str, data: tuple, epochs: int) -> tuple[keras.Model, float]:
    """Returns a trained model, and the seconds of its median epoch."""
    make, weight = KINDS[kind]
    model = tfvn.Sequential([keras.Input((28, 28, 1)), layers.Flatten(), *make()])
    model.compile(
        keras.optimizers.Adam(1e-3),
        "sparse_categorical_crossentropy",
        kl_schedule=weight,
        jit_compile=False,
    )
    times = EpochTimes()
    model.fit(*data, batch_size=BATCH_SIZE, epochs=epochs, verbose=0, callbacks=[times])
    if kind == "last-layer Laplace":
        model = tfvn.last_layer_laplace(model, *data)
    # The first epoch includes the tracing.
    return model, float(np.median(times.seconds[1:] or times.seconds))


def predict(model: keras.Model, kind: str, x: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the mean probabilities and the scores of uncertainty."""
    if kind == "deterministic":
        mean = model.predict(x, batch_size=500, verbose=0)
        return {"mean": mean, "entropy": -(mean * np.log(mean + 1e-30)).sum(axis=-1)}
    answer = tfvn.ensemble_predict(
        model, x, NUM_SAMPLES, batch_size=500, seed=0, verbose=0
    )
    return answer.to_dict()


def evaluate(
    model: keras.Model, kind: str, sets: dict[str, Any], labels: np.ndarray
) -> dict[str, float]:
    """Returns the figures of one network."""
    answers = {name: predict(model, kind, x) for name, x in sets.items()}
    start = time.perf_counter()
    predict(model, kind, sets["digits"])
    seconds = time.perf_counter() - start
    mean = answers["digits"]["mean"]
    error = tfvn.metrics.ExpectedCalibrationError()
    error.update_state(labels, mean)
    figures = {
        "accuracy": float((mean.argmax(-1) == labels).mean()),
        "nll": float(-np.log(mean[np.arange(len(labels)), labels] + 1e-30).mean()),
        "ece": float(error.result()),
        "predict_seconds": seconds,
        "parameters": model.count_params(),
    }
    for name in sets:
        for score in {"entropy", "mutual_information"} & answers[name].keys():
            usual, other = answers["digits"][score], answers[name][score]
            auroc = tfvn.metrics.OODAUROC()
            auroc.update_state(
                np.repeat([0, 1], [len(usual), len(other)]),
                np.concatenate([usual, other]),
            )
            figures[f"auroc_{name}_{score}"] = float(auroc.result())
    return figures


def run(seeds: int, epochs: int, rows: int) -> dict[str, list[dict[str, float]]]:
    """Returns the figures of each kind, one dictionary for each seed."""
    (x_train, y_train), (x_test, y_test) = tfvn.datasets.load("mnist")
    clothes, _ = tfvn.datasets.load("fashion_mnist", split="test")
    data = (x_train[:rows], y_train[:rows])
    digits, labels = x_test[:rows], y_test[:rows]
    turned = np.rot90(digits, axes=(1, 2)).copy()
    sets = {"digits": digits, "turned": turned, "clothes": clothes[:rows]}
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for seed in range(seeds):
        for kind in KINDS:
            keras.utils.set_random_seed(seed)
            model, epoch_seconds = train(kind, data, epochs)
            figures = evaluate(model, kind, sets, labels)
            figures["epoch_seconds"] = epoch_seconds
            found[kind].append(figures)
            print(
                f"{kind}, seed {seed}: accuracy {figures['accuracy']:.2%}", flush=True
            )
    return found


def table(found: dict[str, list[dict[str, float]]]) -> str:
    """Returns the figures as a table in Markdown: means over the seeds."""
    twin = found["deterministic"]

    def average(figures: list[dict[str, float]], name: str) -> str:
        values = [row[name] for row in figures if name in row]
        return f"{np.mean(values):.3f}" if values else ""

    def ratio(figures: list[dict[str, float]], name: str) -> str:
        ratios = [a[name] / b[name] for a, b in zip(figures, twin, strict=True)]
        return f"{np.median(ratios):.1f}"

    lines = [
        "| | accuracy | NLL | ECE | turned, entropy | turned, MI | clothes, entropy | "
        "clothes, MI | training | prediction | parameters |",
        "| --- " * 11 + "|",
    ]
    for kind, figures in found.items():
        accuracies = [100 * row["accuracy"] for row in figures]
        cells = [
            kind,
            f"{np.mean(accuracies):.1f} ± {np.std(accuracies):.1f} %",
            average(figures, "nll"),
            average(figures, "ece"),
        ]
        cells += [
            average(figures, f"auroc_{name}_{score}")
            for name in ("turned", "clothes")
            for score in ("entropy", "mutual_information")
        ]
        cells += [ratio(figures, "epoch_seconds"), ratio(figures, "predict_seconds")]
        cells.append(f"{figures[0]['parameters']:,}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(found: dict[str, list[dict[str, float]]], path: pathlib.Path) -> None:
    """Plots what is gained on digits against what is gained on other images."""
    import matplotlib.pyplot as plt

    from tfvn.plots.style import MARKERS, PALETTE

    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
    for ax, name in zip(axes, ("turned", "clothes"), strict=True):
        for i, (kind, figures) in enumerate(found.items()):
            scores = [row[f"auroc_{name}_entropy"] for row in figures]
            ax.plot(
                [row["nll"] for row in figures],
                scores,
                MARKERS[i % len(MARKERS)],
                color=PALETTE[i % len(PALETTE)],
                markersize=8,
                alpha=0.8,
                label=kind,
            )
        what = "digits turned by a quarter" if name == "turned" else "clothes"
        ax.set(xlabel="NLL of digits", ylabel="AUROC of the entropy", title=what)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=8)
    figure.savefig(path, dpi=90)


def write_docs(found: dict[str, list[dict[str, float]]]) -> None:
    """Writes the table into the page, the figures beside it, and the plot."""
    docs = ROOT / "docs"
    text = json.dumps(found, indent=1) + "\n"
    (docs / "measurements" / "which_layer.json").write_text(text)
    page = docs / "choosing_layers.md"
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{table(found)}\n\n{END}{after}", "utf-8")
    plot(found, docs / "images" / "which_layer.png")


def main() -> None:
    """Trains all networks, and prints or writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="500 images, two epochs")
    parser.add_argument(
        "--write-docs", action="store_true", help="write the page of the documentation"
    )
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results/which_layer")
    )
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.epochs = 1, 2
    found = run(options.seeds, options.epochs, 500 if options.quick else 5000)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "metrics.json").write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))
    if options.write_docs:
        write_docs(found)


if __name__ == "__main__":
    main()
