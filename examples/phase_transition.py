"""The phase transition: Neklyudov et al. (2019), section 4.3 and figure 3.

    python examples/phase_transition.py           # 10 epochs
    python examples/phase_transition.py --train-images 20000
    python examples/phase_transition.py --quick   # a check that it runs

Trains LeNet-5 on MNIST; its first dense layer is a Gaussian-dropout layer with one alpha.
The KL increases alpha. At some point the information moves from the means of the weights to
their variances: the accuracy with mean weights falls to chance, while the ensemble stays
accurate. With the paper's single learning rate of 1e-3 this takes a hundred epochs; here
log alpha has its own optimizer. Writes `metrics.json` and `transition.png`.
"""

import argparse
import json
import pathlib
import time

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras

    import tfvn
    from tfvn.cli.quickstart import accuracy

NUM_SAMPLES = 20

# The curves use this many test images; the final figures use all.
WATCHED = 2_000


def lenet5() -> tfvn.Sequential:
    """Returns LeNet-5-Caffe with Gaussian dropout in its first dense layer."""
    layers = [keras.Input((28, 28, 1))]
    for filters in (20, 50):
        layers += [keras.layers.Conv2D(filters, 5, use_bias=False), *_normalized()]
        layers.append(keras.layers.MaxPooling2D())
    layers.append(keras.layers.Flatten())
    layers.append(
        tfvn.GaussianDropoutDense(500, alpha="layer", use_bias=False, name="noisy")
    )
    layers += _normalized()
    layers.append(keras.layers.Dense(10, use_bias=False, activation="softmax"))
    return tfvn.Sequential(layers)


def _normalized() -> list[keras.Layer]:
    # The variance of the activations grows by e^3 in an epoch, so the moving statistics
    # must adapt quickly.
    return [
        keras.layers.BatchNormalization(momentum=0.9),
        keras.layers.Activation("relu"),
    ]


def main() -> None:
    """Trains, and writes the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--train-images", type=int, default=60_000)
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--scale-rate", type=float, default=3e-2)
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
    x_train, y_train = x_train[: options.train_images], y_train[: options.train_images]
    start = time.perf_counter()
    model = lenet5()
    model.compile(
        # As alpha grows, the gradient of log alpha falls by orders of magnitude. A short
        # memory of squared gradients keeps Adam's steps at the same size.
        optimizer={"scale": keras.optimizers.Adam(options.scale_rate, beta_2=0.9)},
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    watched = (x_test[:WATCHED], y_test[:WATCHED])
    history = model.fit(
        x_train,
        y_train,
        batch_size=options.batch_size,
        epochs=options.epochs,
        callbacks=[tfvn.callbacks.PhaseTransition(watched, NUM_SAMPLES, verbose=1)],
        verbose=2,
    ).history
    answer = tfvn.ensemble_predict(
        model, x_test, NUM_SAMPLES, batch_size=200, return_samples=True
    )
    means = tfvn.mean_predict(model, x_test)
    metrics = {
        "log_alpha": history["log_alpha_noisy"][-1],
        "accuracy_mean_weights": accuracy(means, y_test),
        "accuracy_one_sample": accuracy(answer.samples[:, 0], y_test),
        "accuracy_ensemble": accuracy(answer.mean, y_test),
        "scale_rate": options.scale_rate,
        "train_images": len(x_train),
        "seed": options.seed,
        "seconds": round(time.perf_counter() - start, 1),
        "history": {
            name: [float(v) for v in values] for name, values in history.items()
        },
    }
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    figure = tfvn.plots.phase_transition(history).figure
    figure.savefig(options.output / "transition.png", dpi=120)
    for name in ("log_alpha", "accuracy_mean_weights", "accuracy_ensemble"):
        print(f"{name}: {metrics[name]:.4f}")


if __name__ == "__main__":
    main()
