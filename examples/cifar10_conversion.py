"""From a trained CNN to uncertainty: conversion and Laplace on CIFAR-10.

    python examples/cifar10_conversion.py            # two short trainings, then the table
    python examples/cifar10_conversion.py --quick    # a check that it runs

A small CNN is trained on CIFAR-10 as anybody would train it. Then the trained network is
made Bayesian in four ways: mean-field posteriors for the last layer or for all layers,
whose scales `tfvn.fit_scales` trains (with a KL weight of 0.1 and 0.01), and Laplace's
approximation of the last layer, with Kronecker factors or with all covariances. Beside
them stand the network itself and a second one, trained with dropout (rate 0.2) that stays
on at inference (MC dropout).

Prints and writes, for each: accuracy, negative log-likelihood and calibration error on
the test images, and how well its uncertainty tells the test images from noisy images and
from Fashion-MNIST clothes. Trained networks and finished rows of the table are kept in
the output directory; a second run goes on from there.
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

NUM_SAMPLES = 20
# The standard deviation of the noise that is added to images in [0, 1].
NOISE = 0.1
COLUMNS = ("accuracy", "nll", "ece", "auroc_noisy", "auroc_clothes")


def cnn(dropout: float = 0.0) -> keras.Model:
    """Returns a CNN with three convolutions and two dense layers."""
    parts: list[Any] = [keras.Input((32, 32, 3))]
    for filters in (32, 64, 128):
        parts += [layers.Conv2D(filters, 3, padding="same", use_bias=False)]
        parts += [layers.BatchNormalization(), layers.Activation("relu")]
        parts.append(layers.MaxPooling2D())
    parts += [layers.Flatten(), layers.Dense(128, activation="relu")]
    if dropout:
        parts.append(layers.Dropout(dropout))
    parts.append(layers.Dense(10, activation="softmax"))
    return keras.Sequential(parts)


def trained(path: pathlib.Path, dropout: float, data: tuple, epochs: int) -> Any:
    """Trains a CNN with Adam, or loads it if it has been trained before."""
    if path.is_file():
        return keras.saving.load_model(path)
    model = cnn(dropout)
    steps = epochs * int(np.ceil(len(data[0]) / 128))
    model.compile(
        keras.optimizers.Adam(
            keras.optimizers.schedules.PolynomialDecay(1e-3, steps, 0.0)
        ),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=False,  # XLA makes this net slower on a CPU
    )
    model.fit(*data, batch_size=128, epochs=epochs, verbose=2)
    model.save(path)
    return model


def ways(network: Any, with_dropout: Any, data: tuple, epochs: int) -> dict:
    """Returns, by name, functions that make a network to predict with."""

    def converted(which: str, kl_weight: float) -> Any:
        model = tfvn.from_deterministic(network, layers=which)
        # The KL of all weights outweighs the data; with its full weight the scales would
        # grow until the predictions say little more than the prior.
        model.compile(loss=network.loss, kl_schedule=kl_weight, jit_compile=False)
        tfvn.fit_scales(model, *data, epochs=epochs, batch_size=128, verbose=2)
        return model

    return {
        "deterministic": lambda: network,
        "MC dropout": lambda: with_dropout,
        "mean-field, last layer": lambda: converted("last", 0.1),
        "mean-field, all layers": lambda: converted("all", 0.01),
        "Laplace, last layer, kron": lambda: tfvn.last_layer_laplace(network, *data),
        "Laplace, last layer, full": lambda: tfvn.last_layer_laplace(
            network, *data, hessian="full"
        ),
    }


def predict(model: Any, is_random: bool, x: np.ndarray, seed: int) -> dict[str, Any]:
    """Returns the mean probabilities and their entropy."""
    if not is_random:
        mean = model.predict(x, batch_size=500, verbose=0)
        return {"mean": mean, "entropy": -(mean * np.log(mean + 1e-30)).sum(axis=-1)}
    answer = tfvn.ensemble_predict(model, x, NUM_SAMPLES, batch_size=500, seed=seed)
    return answer.to_dict()


def evaluate(answers: dict[str, dict], labels: np.ndarray) -> dict[str, float]:
    """Returns the figures of one network from its answers for each set of images."""
    test = answers["test"]["mean"]
    chosen = np.clip(test[np.arange(len(labels)), labels], 1e-30, None)
    error = tfvn.metrics.ExpectedCalibrationError()
    error.update_state(labels, test)
    figures = {
        "accuracy": float((test.argmax(-1) == labels).mean()),
        "nll": float(-np.log(chosen).mean()),
        "ece": float(error.result()),
    }
    for name in ("noisy", "clothes"):
        both = [answers["test"]["entropy"], answers[name]["entropy"]]
        detection = tfvn.metrics.OODAUROC()
        detection.update_state(
            np.repeat([0, 1], list(map(len, both))), np.concatenate(both)
        )
        figures[f"auroc_{name}"] = float(detection.result())
    return figures


def images(seed: int) -> tuple[tuple, dict[str, np.ndarray], np.ndarray]:
    """Returns training data, three sets of images to predict, and the test labels."""
    data, (x_test, y_test) = tfvn.datasets.load("cifar10")
    noise = np.random.default_rng(seed).normal(0.0, NOISE, x_test.shape)
    noisy = np.clip(x_test + noise.astype("float32"), 0.0, 1.0)
    clothes, _ = tfvn.datasets.load("fashion_mnist", split="test")
    clothes = np.pad(np.repeat(clothes, 3, axis=-1), ((0, 0), (2, 2), (2, 2), (0, 0)))
    return data, {"test": x_test, "noisy": noisy, "clothes": clothes}, y_test


def table(metrics: dict[str, dict[str, float]]) -> str:
    """Renders the figures as Markdown."""
    lines = [f"| | {' | '.join(COLUMNS)} |", "| --- |" + " --- |" * len(COLUMNS)]
    for name, figures in metrics.items():
        cells = [f"{100 * figures['accuracy']:.2f} %"]
        cells += [f"{figures[column]:.3f}" for column in COLUMNS[1:]]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Trains or loads two networks, converts one, and writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--scale-epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="1,000 images, one epoch")
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("results/cifar10_conversion"),
    )
    options = parser.parse_args()
    data, sets, labels = images(options.seed)
    if options.quick:
        options.epochs = options.scale_epochs = 1
        options.output /= "quick"
        data = tuple(part[:1000] for part in data)
        labels = labels[:300]
        sets = {name: x[:300] for name, x in sets.items()}
    options.output.mkdir(parents=True, exist_ok=True)
    networks = []
    for name, dropout in (("plain", 0.0), ("dropout", 0.2)):
        keras.utils.set_random_seed(options.seed)
        kept = options.output / f"{name}.keras"
        networks.append(trained(kept, dropout, data, options.epochs))
    path = options.output / "metrics.json"
    metrics: dict[str, dict[str, float]] = {}
    if path.is_file():
        metrics = json.loads(path.read_text())
    makers: dict[str, Callable] = ways(*networks, data, options.scale_epochs)
    for name, make in makers.items():
        if name in metrics:
            continue
        start = time.perf_counter()
        keras.utils.set_random_seed(options.seed)
        model, is_random = make(), name != "deterministic"
        made = time.perf_counter() - start
        answers = {
            key: predict(model, is_random, x, options.seed) for key, x in sets.items()
        }
        metrics[name] = evaluate(answers, labels) | {"seconds": round(made, 1)}
        print(name, metrics[name], flush=True)
        path.write_text(json.dumps(metrics, indent=2) + "\n")
    print(table(metrics))


if __name__ == "__main__":
    main()
