"""One short run for each structure of multiplicative noise.

    python examples/noise_structures.py                    # a few minutes each
    python examples/noise_structures.py --quick            # a check that it runs
    python examples/noise_structures.py --noise rayleigh --structures dense-ard lstm-tied

Trains small networks on MNIST, and an LSTM on IMDB, each with noise of one structure: on
units (`ard`), on weights (`dropconnect`), on channels and filters of a convolution, on whole
residual blocks (`depth`), or on the inputs of an LSTM for a whole sequence. Prints test
NLL and accuracy of one prediction without noise, and of the average of 20 draws, and writes
a JSON file named after the noise.
"""

import argparse
import functools
import json
import pathlib
import time
from typing import Any

import numpy as np

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras

    import tfvn
    from tfvn import passes

NUM_SAMPLES = 20
WORDS, LENGTH = 5_000, 100
COLUMNS = ("nll", "accuracy", "nll_ensemble", "accuracy_ensemble")


def dense(structure: str, noise: Any) -> list[Any]:
    """Returns a network of two dense layers with noise."""
    return [
        keras.layers.Flatten(),
        keras.layers.Dense(200, activation="relu"),
        tfvn.NoisyDense(200, "relu", noise=noise, structure=structure),
        tfvn.NoisyDense(10, "softmax", noise=noise, structure=structure),
    ]


def convolution(structure: str, noise: Any) -> list[Any]:
    """Returns a small LeNet whose second convolution has noise."""
    return [
        keras.layers.Conv2D(16, 5, activation="relu"),
        keras.layers.MaxPooling2D(),
        tfvn.NoisyConv2D(32, 5, activation="relu", noise=noise, structure=structure),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax"),
    ]


def residual(structure: str, noise: Any) -> list[Any]:
    """Returns a network of four residual blocks with noise."""
    blocks = [
        tfvn.NoisyResidual(
            keras.layers.Dense(100, activation="relu", use_bias=False),
            noise=noise,
            structure=structure,
        )
        for _ in range(4)
    ]
    start = [keras.layers.Flatten(), keras.layers.Dense(100, activation="relu")]
    return [*start, *blocks, keras.layers.Dense(10, activation="softmax")]


def lstm(gates: str, noise: Any) -> list[Any]:
    """Returns an LSTM with noise on its inputs."""
    return [
        keras.layers.Embedding(WORDS, 32),
        tfvn.NoisyLSTM(32, noise=noise, gates=gates),
        keras.layers.Dense(2, activation="softmax"),
    ]


BUILDERS = {
    "dense": (dense, ("ard", "dropconnect")),
    "conv": (convolution, ("channels", "filters", "channels_and_filters")),
    "residual": (residual, ("depth", "ard", "depth_and_ard")),
    "lstm": (lstm, ("tied", "untied")),
}
STRUCTURES = [
    f"{kind}-{word}" for kind, (_, words) in BUILDERS.items() for word in words
]


@functools.cache
def load(kind: str, quick: bool) -> tuple[Any, Any]:
    """Returns the training and test data of a kind of network."""
    if kind == "lstm":
        train, test = tfvn.datasets.load("imdb", num_words=WORDS)
        # The last words of a review are the most informative.
        train, test = (
            (keras.utils.pad_sequences(x, maxlen=LENGTH), y) for x, y in (train, test)
        )
    else:
        train, test = tfvn.datasets.load("mnist")
    if quick:
        sizes = ((train, 2_000), (test, 500))
        train, test = (tuple(part[:size] for part in data) for data, size in sizes)
    return train, test


def scores(probabilities: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Returns the mean negative log-likelihood and the accuracy."""
    chosen = np.take_along_axis(probabilities, labels[:, np.newaxis], axis=1)
    accuracy = np.mean(probabilities.argmax(axis=1) == labels)
    return float(-np.mean(np.log(np.maximum(chosen, 1e-12)))), float(accuracy)


def draw(model: keras.Model, x: np.ndarray) -> np.ndarray:
    """Returns the average of predictions with noise."""
    with passes.changed(draws_noise=True):
        noisy = keras.models.clone_model(model)
        noisy.set_weights(model.get_weights())
        return np.mean(
            [noisy.predict(x, batch_size=500, verbose=0) for _ in range(NUM_SAMPLES)],
            axis=0,
        )


def run(name: str, noise: Any, options: argparse.Namespace) -> dict[str, float]:
    """Trains one network and returns its scores."""
    kind, structure = name.split("-")
    (x_train, y_train), (x_test, y_test) = load(kind, options.quick)
    keras.utils.set_random_seed(options.seed)
    layers = BUILDERS[kind][0](structure, noise)
    model = keras.Sequential([keras.Input(x_train.shape[1:]), *layers])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    start = time.perf_counter()
    epochs = 1 if options.quick else options.epochs
    model.fit(x_train, y_train, batch_size=128, epochs=epochs, verbose=2)
    seconds = time.perf_counter() - start
    figures = (
        *scores(model.predict(x_test, batch_size=500, verbose=0), y_test),
        *scores(draw(model, x_test), y_test),
    )
    return {**dict(zip(COLUMNS, figures, strict=True)), "seconds": round(seconds, 1)}


def main() -> None:
    """Trains a network for each structure and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--noise", choices=tfvn.distributions.noise_aliases(), default="bernoulli"
    )
    parser.add_argument(
        "--structures", nargs="+", choices=STRUCTURES, default=STRUCTURES
    )
    parser.add_argument(
        "--quick", action="store_true", help="2,000 examples, one epoch"
    )
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results/noise_structures")
    )
    options = parser.parse_args()
    metrics = {}
    for index, name in enumerate(options.structures):
        print(f"{name} ({index + 1} of {len(options.structures)})")
        metrics[name] = run(name, options.noise, options)
    print("\n| | " + " | ".join(COLUMNS) + " |\n| --- |" + " --- |" * len(COLUMNS))
    for name, figures in metrics.items():
        cells = " | ".join(f"{figures[column]:.4f}" for column in COLUMNS)
        print(f"| {name} | {cells} |")
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"{options.noise}.json"
    path.write_text(json.dumps(metrics, indent=2) + "\n")


if __name__ == "__main__":
    main()
