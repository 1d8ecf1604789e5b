"""Unusual inputs: can a network tell Fashion-MNIST clothes from MNIST digits?

    python examples/ood_mnist.py            # 10 epochs for each of three networks
    python examples/ood_mnist.py --quick    # a check that it runs

Three LeNet-5 networks learn digits: a deterministic one, one with dropout that stays on at
inference (MC dropout), and one whose first dense layer is a variance layer. Each predicts
test digits and clothes. Writes figures and `metrics.json` to the output directory, with
accuracy, calibration error and how well the entropy of the prediction tells clothes from
digits.
"""

import argparse
import json
import pathlib
import time
from typing import Any

import numpy as np

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras
    from keras import layers

    import tfvn

NUM_SAMPLES = 20


def lenet5(kind: str) -> keras.Model:
    """Returns LeNet-5-Caffe with batch normalization, of one of three kinds."""
    parts: list[Any] = [keras.Input((28, 28, 1))]
    for filters in (20, 50):
        parts += [layers.Conv2D(filters, 5, use_bias=False), *_normalized()]
        parts.append(layers.MaxPooling2D())
    parts.append(layers.Flatten())
    dense = tfvn.VarianceDense if kind == "variance" else layers.Dense
    parts += [dense(500, use_bias=False), *_normalized()]
    if kind == "mc_dropout":
        parts.append(layers.Dropout(0.5))
    parts.append(layers.Dense(10, activation="softmax"))
    return keras.Sequential(parts)


def _normalized() -> list[keras.Layer]:
    return [layers.BatchNormalization(), layers.Activation("relu")]


def train(model: keras.Model, data: tuple, epochs: int) -> None:
    """Trains with Adam and a learning rate that falls linearly from 1e-3 to 0."""
    steps = epochs * int(np.ceil(len(data[0]) / 200))
    model.compile(
        optimizer=keras.optimizers.Adam(
            keras.optimizers.schedules.PolynomialDecay(1e-3, steps, 0.0)
        ),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=False,  # XLA makes this net slower on a CPU
    )
    model.fit(*data, batch_size=200, epochs=epochs, verbose=2)


def predict(model: keras.Model, kind: str, x: np.ndarray, seed: int) -> dict[str, Any]:
    """Returns the mean probabilities and their entropy."""
    if kind == "deterministic":
        mean = model.predict(x, batch_size=200, verbose=0)
        return {"mean": mean, "entropy": -(mean * np.log(mean + 1e-30)).sum(axis=-1)}
    answer = tfvn.ensemble_predict(model, x, NUM_SAMPLES, batch_size=200, seed=seed)
    return answer.to_dict()


def evaluate(digits: dict, clothes: dict, labels: np.ndarray) -> dict[str, float]:
    """Returns accuracy, calibration and detection of clothes."""
    strange = np.repeat([0, 1], [len(digits["mean"]), len(clothes["mean"])])
    entropies = np.concatenate([digits["entropy"], clothes["entropy"]])
    figures = {"accuracy": float((digits["mean"].argmax(-1) == labels).mean())}
    for name, metric, y_true, y_pred in (
        ("ece", tfvn.metrics.ExpectedCalibrationError(), labels, digits["mean"]),
        ("aurc", tfvn.metrics.AURC(), labels, digits["mean"]),
        ("auroc_entropy", tfvn.metrics.OODAUROC(), strange, entropies),
        ("fpr95_entropy", tfvn.metrics.FPR95(), strange, entropies),
    ):
        metric.update_state(y_true, y_pred)
        figures[name] = float(metric.result())
    return figures


def plot(answers: dict[str, tuple], labels: np.ndarray, path: pathlib.Path) -> None:
    """Plots calibration and entropies, one row for each network."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(answers), 3, figsize=(13, 11), layout="constrained")
    for row, (kind, (digits, clothes)) in zip(axes, answers.items(), strict=True):
        tfvn.plots.reliability_diagram(labels, digits["mean"], ax=row[0])
        tfvn.plots.entropy_histograms(
            {"digits": digits["entropy"], "clothes": clothes["entropy"]}, ax=row[1]
        )
        tfvn.plots.risk_coverage(labels, digits["mean"], digits["entropy"], ax=row[2])
        row[0].set_title(kind)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Trains three networks, evaluates them, and writes the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="2,000 images, one epoch")
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results/ood_mnist")
    )
    options = parser.parse_args()

    (x_train, y_train), (x_test, y_test) = tfvn.datasets.load("mnist")
    x_strange, _ = tfvn.datasets.load("fashion_mnist", split="test")
    if options.quick:
        options.epochs = 1
        x_train, y_train = x_train[:2000], y_train[:2000]
        x_test, y_test, x_strange = x_test[:500], y_test[:500], x_strange[:500]
    options.output.mkdir(parents=True, exist_ok=True)
    metrics: dict[str, Any] = {"epochs": options.epochs, "seed": options.seed}
    answers = {}
    for kind in ("deterministic", "mc_dropout", "variance"):
        start = time.perf_counter()
        keras.utils.set_random_seed(options.seed)
        model = lenet5(kind)
        train(model, (x_train, y_train), options.epochs)
        answers[kind] = tuple(
            predict(model, kind, x, options.seed) for x in (x_test, x_strange)
        )
        metrics[kind] = evaluate(*answers[kind], y_test)
        metrics[kind]["seconds"] = round(time.perf_counter() - start, 1)
    (options.output / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    plot(answers, y_test, options.output / "uncertainty.png")
    print(json.dumps(metrics, indent=2))


if __name__ == "__main__":
    main()
