"""Multiplicative noise of every structure, each in a short training.

Noise can act on units (`ard`), on weights (`dropconnect`), on channels and filters of a
convolution, on whole residual blocks (`depth`), or on the inputs of an LSTM for a whole
sequence. Dense and residual networks learn MNIST, convolutions CIFAR-10, and LSTMs IMDB.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import tfvn
from tfvn.experiments.experiment import (
    Claim,
    Experiment,
    Piece,
    Results,
    Save,
    Table,
    judged,
    number,
    percent,
)
from tfvn.experiments.training import train

WORDS, LENGTH = 5_000, 100


def dense(structure: str) -> list[Any]:
    """Returns a network of two dense layers with noise."""
    return [
        keras.layers.Flatten(),
        keras.layers.Dense(200, activation="relu"),
        tfvn.NoisyDense(200, "relu", structure=structure),
        tfvn.NoisyDense(10, "softmax", structure=structure),
    ]


def convolution(structure: str) -> list[Any]:
    """Returns a small convolutional network; its second convolution has noise."""
    return [
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        tfvn.NoisyConv2D(64, 3, activation="relu", structure=structure),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax"),
    ]


def residual(structure: str) -> list[Any]:
    """Returns a network of four residual blocks with noise."""
    blocks = [
        tfvn.NoisyResidual(
            keras.layers.Dense(100, activation="relu", use_bias=False),
            structure=structure,
        )
        for _ in range(4)
    ]
    start = [keras.layers.Flatten(), keras.layers.Dense(100, activation="relu")]
    return [*start, *blocks, keras.layers.Dense(10, activation="softmax")]


def lstm(gates: str) -> list[Any]:
    """Returns an LSTM with noise on its inputs."""
    return [
        keras.layers.Embedding(WORDS, 32),
        tfvn.NoisyLSTM(32, gates=gates),
        keras.layers.Dense(2, activation="softmax"),
    ]


# Name: the function that returns the layers, its argument, and the data.
NETWORKS: dict[str, tuple[Callable[[str], list[Any]], str, str]] = {
    "dense, ard": (dense, "ard", "mnist"),
    "dense, dropconnect": (dense, "dropconnect", "mnist"),
    "convolution, channels": (convolution, "channels", "cifar10"),
    "convolution, filters": (convolution, "filters", "cifar10"),
    "convolution, both": (convolution, "channels_and_filters", "cifar10"),
    "residual, depth": (residual, "depth", "mnist"),
    "residual, ard": (residual, "ard", "mnist"),
    "residual, depth and ard": (residual, "depth_and_ard", "mnist"),
    "LSTM, tied gates": (lstm, "tied", "imdb"),
    "LSTM, untied gates": (lstm, "untied", "imdb"),
}

# An accuracy that shows that a network has learned its task.
LEARNED = {"mnist": 0.9, "cifar10": 0.4, "imdb": 0.75}


@functools.cache
def load(name: str, split: str, limit: int | None) -> Any:
    """Returns a split of a data set; reviews are cut to their last words."""
    if name != "imdb":
        return tfvn.datasets.load(name, split, limit=limit)
    x, y = tfvn.datasets.load(name, split, num_words=WORDS, limit=limit)
    return keras.utils.pad_sequences(x, maxlen=LENGTH), y


def scores(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Returns the mean negative log-likelihood and the accuracy."""
    chosen = probabilities[np.arange(len(labels)), labels]
    return {
        "nll": float(-np.log(np.maximum(chosen, 1e-12)).mean()),
        "accuracy": float((probabilities.argmax(axis=1) == labels).mean()),
    }


def run(piece: Piece) -> dict[str, Any]:
    """Trains one network and measures it without noise, and as an ensemble."""
    build, structure, name = NETWORKS[piece.configuration]
    data = load(name, "train", piece.settings["train_examples"])
    x, y = load(name, "test", piece.settings["test_examples"])
    model = tfvn.Sequential([keras.Input(x.shape[1:]), *build(structure)])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    train(model, data, piece)
    answer = tfvn.ensemble_predict(
        model, x, piece.settings["samples"], batch_size=500, seed=1, verbose=0
    )
    return {
        "without noise": scores(model.predict(x, batch_size=500, verbose=0), y),
        "ensemble": scores(answer.mean, y),
    }


def judge(results: Results) -> list[Claim]:
    """Judges whether every network learns; the paper has no such table."""
    found = {n: results.mean(n, "ensemble", "accuracy") for n in NETWORKS}
    margins = {n: value - LEARNED[NETWORKS[n][2]] for n, value in found.items()}
    worst = min(margins, key=lambda n: margins[n])
    return [
        Claim(
            "Networks with noise of every structure learn",
            "no figure",
            f"all {len(found)} networks; the nearest to failing is {worst} with "
            f"{percent(found[worst])}",
            judged(
                min(margins.values()) >= 0,
                min(margins.values()) >= -0.1,
                found.values(),
            ),
        )
    ]


def table(results: Results) -> Table:
    """Returns negative log-likelihoods and accuracies."""
    rows = [
        [
            name,
            NETWORKS[name][2],
            *(
                form(results.mean(name, way, key))
                for way in ("without noise", "ensemble")
                for key, form in (("nll", _three_decimals), ("accuracy", percent))
            ),
        ]
        for name in NETWORKS
    ]
    header = ["network", "data", "NLL without noise", "accuracy"]
    return Table([*header, "NLL of 20 draws", "accuracy"], rows)


def _three_decimals(value: float) -> str:
    return number(value, 3)


def draw(results: Results, save: Save) -> None:
    """Draws nothing: the table says all."""


EXPERIMENT = Experiment(
    name="structures",
    paper="Nalisnick and Smyth (2018), sections 3 and 5",
    claim="Noise can have many structures: on units, weights, channels, filters, gates and "
    "whole blocks.",
    data=("mnist", "cifar10", "imdb"),
    minutes=15,
    settings={
        "default": {
            "seeds": 1,
            "epochs": 3,
            "batch_size": 128,
            "train_examples": None,
            "test_examples": None,
            "samples": 20,
        },
        "quick": {
            "epochs": 1,
            "train_examples": 256,
            "test_examples": 100,
            "samples": 2,
            "configurations": [
                "dense, ard",
                "convolution, both",
                "residual, depth",
                "LSTM, tied gates",
            ],
        },
        "full": {"epochs": 30},
    },
    configurations=tuple(NETWORKS),
    run=run,
    judge=judge,
    table=table,
    draw=draw,
    notes="All noise is Bernoulli noise with a keep probability of 0.8. The paper has no "
    "table of these networks.",
)
