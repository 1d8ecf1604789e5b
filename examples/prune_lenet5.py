"""Pruning a variance layer of LeNet-5 on MNIST: Neklyudov et al. (2019), figure 5.

    python examples/prune_lenet5.py                        # 10 epochs
    python examples/prune_lenet5.py --model trained.keras  # prunes a trained network
    python examples/prune_lenet5.py --quick                # a check that it runs

The network has a variance layer as its first dense layer. Its weights with the smallest
standard deviations are pruned, more and more of them, without further training, and an
ensemble of 20 samples is measured each time. Writes `model.keras`, `metrics.json` and
`pruning.png` to the output directory.
"""

import argparse
import json
import pathlib
import time
from typing import Any

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras
    from variance_lenet5 import lenet5, train

    import tfvn

NUM_SAMPLES = 20
FRACTIONS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.97, 0.98, 0.985, 0.99, 0.995, 0.999)
# What counts as no loss: 0.2 percentage points.
DROP = 0.002


def plot(curve: Any, path: pathlib.Path) -> None:
    """Plots the accuracy against the share of pruned weights.

    The axis is logarithmic in the weights that are left, because all happens near 100 %.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    axes.plot(1 - curve.fractions, curve.accuracy * 100, marker="o")
    limit = (curve.accuracy[0] - DROP) * 100
    axes.axhline(limit, color="0.6", linestyle="--", label="0.2 points less")
    shown = [0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999]
    axes.set_xscale("log")
    axes.set_xticks(
        [1 - x for x in shown], [f"{100 * x:g}" for x in shown], minor=False
    )
    axes.set_xticks([], minor=True)
    axes.invert_xaxis()
    axes.set_xlabel("pruned weights of the variance layer, %")
    axes.set_ylabel(f"accuracy with {NUM_SAMPLES} samples, %")
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Trains or loads the network, prunes it, and writes the table and the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", type=pathlib.Path, help="a trained network, saved")
    parser.add_argument("--quick", action="store_true", help="2,000 images, one epoch")
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results/prune_lenet5")
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
    if options.model is None:
        model = lenet5()
        backup = str(options.output / "backup")
        train(model, (x_train, y_train), options.epochs, options.batch_size, backup)
        model.save(options.output / "model.keras")
    else:
        model = keras.models.load_model(options.model)

    curve = tfvn.pruning_curve(
        model,
        x_test,
        y_test,
        fractions=FRACTIONS,
        num_samples=NUM_SAMPLES,
        batch_size=200,
        seed=options.seed,
    )
    metrics = {
        "fractions": curve.fractions.tolist(),
        "accuracy": curve.accuracy.tolist(),
        "nll": curve.nll.tolist(),
        "largest_fraction": curve.largest_fraction(DROP),
        "epochs": options.epochs if options.model is None else None,
        "seed": options.seed,
        "seconds": round(time.perf_counter() - start, 1),
    }
    (options.output / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    plot(curve, options.output / "pruning.png")
    print(curve)
    share = metrics["largest_fraction"]
    print(f"Up to {share:.1%} of the weights pruned cost at most 0.2 points.")


if __name__ == "__main__":
    main()
