"""The cost of an ensemble of draws, as a ratio to one pass and to a loop.

    python benchmarks/ensemble.py            # the table
    python benchmarks/ensemble.py --quick    # a check that it runs

Each network predicts in four ways that take turns: one compiled pass, one pass for each
draw, one pass over the repeated batch, and `tfvn.ensemble_predict`. A figure is the median
over rounds.
"""

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from layers import build, table

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras
    import tensorflow as tf

    import tfvn

NUM_SAMPLES = 20
ONE = "one pass"
LOOP = "looping"

# network -> the largest allowed cost of `ensemble_predict`, and its unit
GOALS = {
    "LeNet-5, one variance layer": (2.5, ONE),
    "LeNet-5, all mean-field": (0.6, LOOP),
    "residual net, late variance layers": (3.0, ONE),
}


def one_variance_layer() -> keras.Model:
    """Returns LeNet-5 with a variance layer as its first dense layer."""
    made = []

    def dense(units: int, **more: Any) -> keras.Layer:
        layer = keras.layers.Dense if made else tfvn.VarianceDense
        made.append(layer(units, **more))
        return made[-1]

    def convolution(filters: int, **more: Any) -> keras.Layer:
        return keras.layers.Conv2D(filters, 5, **more)

    return build(keras, dense, convolution, "lenet5")


def all_mean_field() -> keras.Model:
    """Returns LeNet-5 of mean-field layers."""

    def convolution(filters: int, **more: Any) -> keras.Layer:
        return tfvn.MeanFieldConv2D(filters, 5, **more)

    return build(keras, tfvn.MeanFieldDense, convolution, "lenet5")


def residual(filters: int = 16, blocks: int = 3) -> keras.Model:
    """Returns a functional network with shortcuts, and variance layers at its end."""
    inputs = keras.Input((28, 28, 1))
    x = keras.layers.Conv2D(filters, 3, 2, padding="same", activation="relu")(inputs)
    for _ in range(blocks):
        y = keras.layers.Conv2D(filters, 3, padding="same")(x)
        y = keras.layers.Activation("relu")(keras.layers.BatchNormalization()(y))
        y = keras.layers.Conv2D(filters, 3, padding="same")(y)
        x = keras.layers.Activation("relu")(keras.layers.add([x, y]))
    x = keras.layers.GlobalAveragePooling2D()(x)
    y = tfvn.VarianceDense(64, activation="relu")(x)
    y = tfvn.MeanFieldDense(filters, activation="relu")(y)
    return keras.Model(inputs, keras.layers.Dense(10)(keras.layers.concatenate([x, y])))


def ways(model: keras.Model, x: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Returns the ways to predict by name."""
    batch = tf.constant(x)

    @tf.function
    def call(x: Any) -> Any:
        return tf.nn.softmax(model(x, training=False))

    @tf.function
    def tiled(x: Any) -> Any:
        draws = call(tf.repeat(x, NUM_SAMPLES, axis=0))
        return tf.reduce_mean(tf.reshape(draws, [len(x), NUM_SAMPLES, -1]), axis=1)

    def loop() -> Any:
        return tf.add_n([call(batch) for _ in range(NUM_SAMPLES)]).numpy() / NUM_SAMPLES

    def ensemble() -> Any:
        return tfvn.ensemble_predict(
            model, x, NUM_SAMPLES, batch_size=len(x), outputs="logits"
        )

    return {
        ONE: lambda: call(batch).numpy(),
        LOOP: loop,
        "tiling": lambda: tiled(batch).numpy(),
        "ensemble_predict": ensemble,
    }


def measure(model: keras.Model, x: np.ndarray, rounds: int) -> dict[str, float]:
    """Returns the median milliseconds of each way to predict."""
    functions = ways(model, x)
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Measures, prints tables, and writes them as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch-size", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="one round, few rows")
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results/benchmarks")
    )
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.batch_size = 1, 16
    shape = (options.batch_size, 28, 28, 1)
    x = np.random.default_rng(0).uniform(size=shape).astype("float32")
    makers = (one_variance_layer, all_mean_field, residual)
    times = {
        name: measure(make(), x, options.rounds)
        for name, make in zip(GOALS, makers, strict=True)
    }
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "ensemble.json").write_text(json.dumps(times, indent=2) + "\n")
    print(f"\n{NUM_SAMPLES} draws, batch of {options.batch_size}, milliseconds\n")
    print(table(times, "{:.1f}"))
    print("\nGoals\n")
    for name, (goal, unit) in GOALS.items():
        ratio = times[name]["ensemble_predict"] / times[name][unit]
        print(f"{name}: {ratio:.2f} x {unit}, at most {goal}")


if __name__ == "__main__":
    main()
