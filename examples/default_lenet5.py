"""Four LeNet-5 networks with default arguments: do they learn without tuning?

    python examples/default_lenet5.py            # 5 epochs each
    python examples/default_lenet5.py --quick    # a check that it runs

All four layers of each network are of one family, except in the variance network: as in
the paper, only its first dense layer is a variance layer. Nothing is tuned:
`compile("adam", ...)`, no schedule, no `kl_weight`. Writes `metrics.json` with the
accuracy of 20 samples.
"""

import argparse
import json
import pathlib
import time
from typing import Any

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras

    import tfvn
    from tfvn.cli.quickstart import accuracy

NUM_SAMPLES = 20
FAMILIES = ("MeanField", "KTied", "GaussianDropout", "Variance")


def lenet5(family: str) -> tfvn.Sequential:
    """Returns LeNet-5 with layers of one family."""

    def layer(kind: str, *args: Any, random: bool = True, **kwargs: Any) -> keras.Layer:
        library, prefix = (tfvn, family) if random else (keras.layers, "")
        return getattr(library, prefix + kind)(*args, **kwargs)

    everywhere = family != "Variance"
    layers: list[Any] = [keras.Input((28, 28, 1))]
    for filters in (20, 50):
        layers.append(layer("Conv2D", filters, 5, activation="relu", random=everywhere))
        layers.append(keras.layers.MaxPooling2D())
    layers.append(keras.layers.Flatten())
    layers.append(layer("Dense", 500))
    if not everywhere:
        layers.append(keras.layers.BatchNormalization())
    layers.append(keras.layers.Activation("relu"))
    layers.append(layer("Dense", 10, activation="softmax", random=everywhere))
    return tfvn.Sequential(layers)


def main() -> None:
    """Trains the four networks and writes their accuracies."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--quick", action="store_true", help="2,000 images, one epoch")
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results/default_lenet5")
    )
    options = parser.parse_args()
    train, test = tfvn.datasets.load("mnist")
    if options.quick:
        options.epochs = 1
        train, test = (
            [part[:size] for part in d] for d, size in ((train, 2000), (test, 500))
        )
    metrics: dict[str, Any] = {"epochs": options.epochs, "seed": options.seed}
    for family in options.families:
        keras.utils.set_random_seed(options.seed)
        print(family)
        start = time.perf_counter()
        model = lenet5(family)
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        model.fit(
            *train, batch_size=options.batch_size, epochs=options.epochs, verbose=2
        )
        answer = tfvn.ensemble_predict(model, test[0], NUM_SAMPLES, batch_size=200)
        metrics[family] = {
            "accuracy_ensemble": accuracy(answer.mean, test[1]),
            "seconds": round(time.perf_counter() - start, 1),
        }
        print(f"{family}: {metrics[family]['accuracy_ensemble']:.2%} with 20 samples")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")


if __name__ == "__main__":
    main()
