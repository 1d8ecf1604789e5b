"""LeNet-5 on MNIST with a variance layer: Neklyudov et al. (2019), section 6.1.

    python examples/variance_lenet5.py            # 10 epochs
    python examples/variance_lenet5.py --quick    # a check that it runs

The first dense layer has weights of mean zero, so that the network with mean weights
guesses; one sample of the weights is accurate, and 20 samples are more accurate. If a run is
interrupted, the same command continues after the last complete epoch. Writes `metrics.json`
and `accuracy.png` to the output directory.
"""

import argparse
import json
import pathlib
import time

import numpy as np

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras

    import tfvn
    from tfvn.cli.quickstart import accuracy

NUM_SAMPLES = 20


def lenet5() -> keras.Sequential:
    """Returns LeNet-5-Caffe without biases, with a variance layer as first dense layer."""
    layers = [keras.Input((28, 28, 1))]
    for filters in (20, 50):
        layers += [keras.layers.Conv2D(filters, 5, use_bias=False), *_normalized()]
        layers.append(keras.layers.MaxPooling2D())
    layers.append(keras.layers.Flatten())
    layers += [tfvn.VarianceDense(500, use_bias=False), *_normalized()]
    layers.append(keras.layers.Dense(10, use_bias=False, activation="softmax"))
    return keras.Sequential(layers)


def _normalized() -> list[keras.Layer]:
    return [keras.layers.BatchNormalization(), keras.layers.Activation("relu")]


def train(
    model: keras.Sequential, data: tuple, epochs: int, batch_size: int, backup: str
) -> None:
    """Trains with Adam and a learning rate that falls linearly from 1e-3 to 0."""
    steps = epochs * int(np.ceil(len(data[0]) / batch_size))
    rate = keras.optimizers.schedules.PolynomialDecay(1e-3, steps, 0.0)
    model.compile(
        optimizer=keras.optimizers.Adam(rate),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=False,  # XLA makes this net slower on a CPU
    )
    resume = keras.callbacks.BackupAndRestore(backup)
    model.fit(*data, batch_size=batch_size, epochs=epochs, callbacks=[resume])


def main() -> None:
    """Trains, evaluates, and writes the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="2,000 images, one epoch")
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results/variance_lenet5")
    )
    options = parser.parse_args()

    keras.utils.set_random_seed(options.seed)
    (x_train, y_train), (x_test, y_test) = tfvn.datasets.load("mnist")
    if options.quick:
        options.epochs = 1
        x_train, y_train = x_train[:2000], y_train[:2000]
        x_test, y_test = x_test[:500], y_test[:500]
    options.output.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    model = lenet5()
    backup = str(options.output / "backup")
    train(model, (x_train, y_train), options.epochs, options.batch_size, backup)

    answer = tfvn.ensemble_predict(
        model, x_test, NUM_SAMPLES, batch_size=200, return_samples=True
    )
    mean_weights = tfvn.mean_predict(model, x_test)
    single = [accuracy(answer.samples[:, i], y_test) for i in range(NUM_SAMPLES)]
    metrics = {
        "accuracy_mean_weights": accuracy(mean_weights, y_test),
        "accuracy_one_sample": float(np.mean(single)),
        "accuracy_ensemble": accuracy(answer.mean, y_test),
        "num_samples": NUM_SAMPLES,
        "epochs": options.epochs,
        "seed": options.seed,
        "seconds": round(time.perf_counter() - start, 1),
    }
    (options.output / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    marks = metrics["accuracy_ensemble"], metrics["accuracy_mean_weights"]
    ax = tfvn.plots.one_draw_accuracies(single, *marks, num_bins=8)
    ax.figure.savefig(options.output / "accuracy.png", dpi=120)
    print(json.dumps(metrics, indent=2))


if __name__ == "__main__":
    main()
