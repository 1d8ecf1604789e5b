"""LeNet-5-Caffe on MNIST, the network of most experiments of Neklyudov et al. (2019)."""

import functools
from collections.abc import Mapping
from typing import Any

import keras

import tfvn
from tfvn.experiments.experiment import Piece, Results, Save, percent
from tfvn.experiments.training import falling, falling_late

# Settings that experiments with this network share: those of the paper, learning rates with
# which the phase transition takes a few epochs, and the paper's own, which is the same for
# all variables.
SETTINGS: dict[str, Any] = {
    "seeds": 1,
    "batch_size": 200,
    "train_images": 60_000,
    "test_images": 10_000,
    "rate": 1e-3,
}
FAST_ALPHA = {"rate": 3e-3, "scale_rate": 3e-2, "scale_beta_2": 0.9}
QUICK = {"epochs": 2, "train_images": 400, "test_images": 200}
PAPER_LENGTH = {"epochs": 200}
PAPER_ALPHA = {"rate": 1e-3, "scale_rate": None}

# The columns that `accuracy_cells` fills.
ACCURACY_COLUMNS = [
    "batch statistics, 1 sample",
    "20 samples",
    "moving statistics, 1 sample",
    "20 samples",
]


def lenet5(
    activation: str = "relu", center: bool = True, **layers: keras.Layer
) -> tfvn.Sequential:
    """Returns LeNet-5-Caffe without biases, with batch normalization, and with logits.

    Batch normalization has the momentum and the epsilon of PyTorch, which the authors used.

    Args:
        activation: The activation after every layer but the last.
        center: Whether batch normalization has a beta. A beta is a bias.
        **layers: Layers that replace the plain ones: `conv1`, `conv2`, `dense1`, `dense2`.
    """
    plain = {
        "conv1": keras.layers.Conv2D(20, 5, use_bias=False),
        "conv2": keras.layers.Conv2D(50, 5, use_bias=False),
        "dense1": keras.layers.Dense(500, use_bias=False),
        "dense2": keras.layers.Dense(10, use_bias=False),
    }
    used = {**plain, **layers}

    def normalized() -> list[keras.Layer]:
        options = {"momentum": 0.9, "epsilon": 1e-5, "center": center}
        normalization = keras.layers.BatchNormalization(**options)
        return [normalization, keras.layers.Activation(activation)]

    return tfvn.Sequential(
        [
            keras.Input((28, 28, 1)),
            used["conv1"],
            *normalized(),
            keras.layers.MaxPooling2D(),
            used["conv2"],
            *normalized(),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            used["dense1"],
            *normalized(),
            used["dense2"],
        ]
    )


def compile_lenet5(
    model: tfvn.Sequential, data: Any, piece: Piece, scale_rate: float | None = None
) -> None:
    """Compiles a network with Adam, whose rate falls linearly to zero.

    Args:
        model: The network.
        data: The training data.
        piece: The piece, with its settings.
        scale_rate: The learning rate of log alpha, if it has one of its own. It falls
            only in the last fifth of the training, because log alpha has far to go.
    """
    optimizer: Any = falling(piece.settings["rate"], data, piece)
    if scale_rate is not None:
        # As alpha grows, the gradient of log alpha falls by orders of magnitude. A short
        # memory of squared gradients keeps Adam's steps at the same size.
        beta_2 = piece.settings["scale_beta_2"]
        scale = falling_late(scale_rate, data, piece, beta_2=beta_2)
        optimizer = {"scale": scale, "default": optimizer}
    model.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,  # XLA makes this net slower on a CPU
    )


def mnist(settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """Returns training and test data: the first `train_images` and `test_images`.

    Args:
        settings: The settings of a run.
    """
    sizes = {split: settings[f"{split}_images"] for split in ("train", "test")}
    train, test = (_mnist(split, size) for split, size in sizes.items())
    return train, test


@functools.cache
def _mnist(split: str, size: int) -> Any:
    return tfvn.datasets.load("mnist", split, limit=size)


def watch_transition(test: Any, piece: Piece) -> keras.callbacks.Callback:
    """Returns a callback that logs log alpha, and accuracies on some of the test images.

    Args:
        test: The test data, a pair of arrays.
        piece: The piece, with `watched_images` in its settings.
    """
    watched = tuple(part[: piece.settings["watched_images"]] for part in test)
    return tfvn.callbacks.PhaseTransition(watched, num_samples=20, batch_size=200)


def accuracy_cells(results: Results, name: str) -> list[str]:
    """Returns the test accuracies of a network for the columns `ACCURACY_COLUMNS`.

    Args:
        results: The results, with what `measure` returned as `accuracy`.
        name: The configuration.
    """
    return [
        results.text(percent, name, "accuracy", mode, key)
        for mode in ("batch", "moving")
        for key in ("one_sample", "ensemble")
    ]


def draw_training(results: Results, save: Save) -> None:
    """Draws the training accuracies of all networks.

    Args:
        results: The results, with `accuracy` in their `history`.
        save: Saves the figure.
    """
    runs = {
        name: results.first(name, "history", "accuracy")
        for name in results.configurations()
    }
    save("training", tfvn.plots.curves(runs, ylabel="training accuracy"))
