"""Tying the scales of a trained network: Swiatkowski et al. (2020), table 2.

    python examples/tie_mlp.py            # 50 epochs
    python examples/tie_mlp.py --quick    # a check that it runs
    python examples/tie_mlp.py --model results/tie_mlp/model.keras    # ties it again

Trains a mean-field network 784-400-400-10 on MNIST and then ties its standard deviations at
ranks 1, 2 and 3, without further training: once by the truncated singular value
decomposition, as in the paper, and once as k-tied layers with positive factors. Prints a
table, and writes `metrics.json` and the trained network, `model.keras`, to the output
directory.

As in the paper, the network is trained on the first 50,000 training images in batches of 1024,
and kernels and biases have the prior N(0, 0.3). The paper trains for 300 epochs with one
learning rate. Here the scales have their own rate, larger than that of the means, so that they
converge sooner, and the weight of the KL rises to 1 during the first half of the epochs.
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
    from tensorflow_probability import distributions as tfd

    import tfvn
    from tfvn.layers.base import stochastic_layers

RANKS = (1, 2, 3)
METHODS = {"SVD": "mean_field", "k-tied": "k_tied"}
TRAINING = 50_000


def mlp() -> tfvn.Sequential:
    """Returns the paper's network, with random kernels and biases."""
    prior = tfd.Normal(0.0, 0.3)
    options = {
        "prior": prior,
        "bias_prior": prior,
        "bias_posterior": "mean_field",
        "kernel_initializer": "he_normal",
    }
    return tfvn.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Flatten(),
            tfvn.MeanFieldDense(400, "relu", **options, name="dense_1"),
            tfvn.MeanFieldDense(400, "relu", **options, name="dense_2"),
            tfvn.MeanFieldDense(10, "softmax", **options, name="dense_3"),
        ]
    )


def train(model: tfvn.Sequential, data: tuple, epochs: int, mean_rate: float) -> None:
    """Trains with Adam; the scales have their own learning rate."""
    schedule = tfvn.schedules.LinearAnnealing(epochs=max(1, epochs // 2))
    model.compile(
        optimizer={
            "mean": keras.optimizers.Adam(mean_rate),
            "scale": keras.optimizers.Adam(1e-2),
        },
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        kl_schedule=schedule,
    )
    model.fit(*data, batch_size=1024, epochs=epochs, verbose=2)


def measure(
    model: Any, data: tuple, train_size: int, num_samples: int
) -> dict[str, float]:
    """Returns test results of single draws on average, and of all draws together."""
    x, y = data
    answer = tfvn.ensemble_predict(
        model, x, num_samples, batch_size=500, seed=0, return_samples=True
    )
    rows = np.arange(len(y))
    log_likelihoods = np.log(np.maximum(answer.samples[rows, :, y], 1e-30))
    kl = sum(float(layer.kl_divergence()) for layer in stochastic_layers(model))
    nll = -float(log_likelihoods.mean())
    right = answer.samples.argmax(axis=-1) == np.asarray(y)[:, None]
    return {
        "minus_elbo": nll + kl / train_size,
        "nll": nll,
        "accuracy": float(right.mean()),
        "ensemble_nll": -float(np.log(answer.mean[rows, y]).mean()),
        "ensemble_accuracy": float((answer.mean.argmax(axis=1) == y).mean()),
        "parameters": model.count_params(),
    }


def table(results: dict[str, dict[str, float]]) -> str:
    """Returns the results as a table in Markdown."""
    lines = [
        "| | -ELBO | NLL | accuracy | NLL, ensemble | accuracy, ensemble | parameters |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {name} | {r['minus_elbo']:.3f} | {r['nll']:.3f} | {r['accuracy']:.2%} "
        f"| {r['ensemble_nll']:.3f} | {r['ensemble_accuracy']:.2%} "
        f"| {r['parameters']:,} |"
        for name, r in results.items()
    ]
    return "\n".join(lines).replace("%", " %")


def main() -> None:
    """Trains, ties, evaluates, and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--mean-rate", type=float, default=3e-3)
    parser.add_argument("--num-samples", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", help="a network to tie; default: train one")
    parser.add_argument("--quick", action="store_true", help="2,000 images, one epoch")
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results/tie_mlp")
    )
    options = parser.parse_args()

    keras.utils.set_random_seed(options.seed)
    (x_train, y_train), test = tfvn.datasets.load("mnist")
    x_train, y_train = x_train[:TRAINING], y_train[:TRAINING]
    if options.quick:
        options.epochs, options.num_samples = 1, 2
        x_train, y_train = x_train[:2000], y_train[:2000]
        test = tuple(part[:500] for part in test)
    start = time.perf_counter()
    options.output.mkdir(parents=True, exist_ok=True)
    if options.model is None:
        model = mlp()
        train(model, (x_train, y_train), options.epochs, options.mean_rate)
        model.save(options.output / "model.keras")
    else:
        model = keras.models.load_model(options.model)

    models = {"full": model}
    for method, posterior in METHODS.items():
        for rank in RANKS:
            models[f"{method}, rank {rank}"] = tfvn.tie(model, rank, posterior)
    results = {
        name: measure(one, test, len(x_train), options.num_samples)
        for name, one in models.items()
    }
    explained = {
        layer.name: tfvn.explained_variance(layer)["scale"][:3].tolist()
        for layer in model.layers[1:]
    }
    metrics = {
        "results": results,
        "explained_variance_of_scales": explained,
        "epochs": options.epochs,
        "num_samples": options.num_samples,
        "seed": options.seed,
        "seconds": round(time.perf_counter() - start, 1),
    }
    (options.output / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    print(table(results))
    for name, values in explained.items():
        shown = ", ".join(f"{value:.4f}" for value in values)
        print(f"explained variance of the scales of {name}: {shown}")


if __name__ == "__main__":
    main()
