"""The phase transition: Neklyudov et al. (2019), section 4.3 and figure 3.

    python examples/phase_transition.py           # 12 epochs
    python examples/phase_transition.py --quick   # a check that it runs

LeNet-5 on MNIST, its first dense layer a Gaussian-dropout layer with one alpha. The KL
pulls alpha up; at some point the information moves from the means of the weights to
their variances, and the network with mean weights falls to chance while the ensemble
stays good. With the paper's single learning rate of 1e-3 this takes a hundred epochs; here
log alpha has a rate of its own, 1e-2. Writes `metrics.json` and `transition.png`.
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
    from tfvn.quickstart import accuracy, predict_samples, with_mean_weights

NUM_SAMPLES = 20


def lenet5(num_examples: int) -> keras.Sequential:
    """Returns LeNet-5-Caffe, its first dense layer with Gaussian dropout."""
    layers = [keras.Input((28, 28, 1))]
    for filters in (20, 50):
        layers += [keras.layers.Conv2D(filters, 5, use_bias=False), *_normalized()]
        layers.append(keras.layers.MaxPooling2D())
    layers.append(keras.layers.Flatten())
    layers.append(
        tfvn.GaussianDropoutDense(
            500, alpha="layer", use_bias=False, kl_weight=1 / num_examples, name="noisy"
        )
    )
    layers += _normalized()
    layers.append(keras.layers.Dense(10, use_bias=False, activation="softmax"))
    return keras.Sequential(layers)


def _normalized() -> list[keras.Layer]:
    # The variance of the activations grows by e^3 in an epoch; the moving statistics
    # have to keep up with it.
    return [
        keras.layers.BatchNormalization(momentum=0.9),
        keras.layers.Activation("relu"),
    ]


def scale_and_mean_optimizer(
    model: keras.Sequential, scale_rate: float
) -> keras.optimizers.Optimizer:
    """Returns Adam with a learning rate of its own for the scale variables."""
    groups = model.get_layer("noisy").variable_groups
    scale_optimizer = keras.optimizers.Adam(scale_rate)
    return keras.optimizers.MultiOptimizer(
        keras.optimizers.OptimizerMap(
            default_optimizer=keras.optimizers.Adam(1e-3),
            optimizer_map={v.path: scale_optimizer for v in groups["scale"]},
        )
    )


class Transition(keras.callbacks.Callback):
    """Records log alpha and three accuracies after every epoch."""

    def __init__(self, images: np.ndarray, labels: np.ndarray):
        super().__init__()
        self.images, self.labels = images, labels
        self.history: list[dict[str, float]] = []

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        posterior = self.model.get_layer("noisy").posterior
        samples = predict_samples(self.model, self.images, NUM_SAMPLES)
        means = with_mean_weights(self.model).predict(self.images, verbose=0)
        record = {
            "log_alpha": float(posterior.log_alpha()),
            "accuracy_mean_weights": accuracy(means, self.labels),
            "accuracy_one_sample": accuracy(samples[0], self.labels),
            "accuracy_ensemble": accuracy(samples.mean(axis=0), self.labels),
        }
        self.history.append(record)
        print("".join(f"  {name}: {value:.4f}" for name, value in record.items()))


def plot(history: list[dict[str, float]], path: pathlib.Path) -> None:
    """Draws accuracies and log alpha over the epochs."""
    import matplotlib.pyplot as plt

    epochs = np.arange(1, len(history) + 1)
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, text in (
        ("accuracy_mean_weights", "mean weights"),
        ("accuracy_one_sample", "one sample"),
        ("accuracy_ensemble", f"{NUM_SAMPLES} samples"),
    ):
        axes.plot(epochs, [100 * record[name] for record in history], label=text)
    axes.set_xlabel("epoch")
    axes.set_ylabel("test accuracy, %")
    axes.legend(loc="center left")
    other = axes.twinx()
    values = [record["log_alpha"] for record in history]
    other.plot(epochs, values, color="gray", linestyle="--")
    other.set_ylabel("log alpha (dashed)")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Trains and writes what happened."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=200)
    parser.add_argument("--scale-rate", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="2,000 images, one epoch")
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results/phase_transition")
    )
    options = parser.parse_args()

    keras.utils.set_random_seed(options.seed)
    (x_train, y_train), (x_test, y_test) = tfvn.datasets.load("mnist")
    if options.quick:
        options.epochs = 1
        x_train, y_train = x_train[:2000], y_train[:2000]
        x_test, y_test = x_test[:500], y_test[:500]
    start = time.perf_counter()
    model = lenet5(len(x_train))
    model.compile(
        optimizer=scale_and_mean_optimizer(model, options.scale_rate),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=False,  # XLA makes this net slower on a CPU
    )
    transition = Transition(x_test, y_test)
    model.fit(
        x_train,
        y_train,
        batch_size=options.batch_size,
        epochs=options.epochs,
        callbacks=[transition],
        verbose=2,
    )
    metrics = {
        "history": transition.history,
        "epochs": options.epochs,
        "scale_rate": options.scale_rate,
        "seed": options.seed,
        "seconds": round(time.perf_counter() - start, 1),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    plot(transition.history, options.output / "transition.png")


if __name__ == "__main__":
    main()
