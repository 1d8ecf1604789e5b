"""The cost of noise layers, as a ratio to a Keras twin with `keras.layers.Dropout`.

    python benchmarks/noise_layers.py              # all tables
    python benchmarks/noise_layers.py --quick      # a check that it runs
    python benchmarks/noise_layers.py --model mlp --no-jit

All networks of a table run in one process and take turns, as in `layers.py`, from which the
tools come. The twin of a recurrent network is `keras.layers.LSTM(dropout=...)`.
"""

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from layers import TWIN, Network, table

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras
    import tensorflow as tf

    import tfvn

RATE = 0.2
BATCH_SIZE = 128
SHAPES = {"mlp": (784,), "lenet5": (28, 28, 1), "lstm": (50, 64)}


def mlp(hidden: Callable[[int], list[Any]]) -> list[Any]:
    """Returns the layers of the MLP 784-400-400-10."""
    return [*hidden(400), *hidden(400), keras.layers.Dense(10)]


def lenet5(second: list[Any]) -> list[Any]:
    """Returns the layers of LeNet-5 with a given second convolution."""
    return [
        keras.layers.Conv2D(20, 5, activation="relu"),
        keras.layers.MaxPooling2D(),
        *second,
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(500, activation="relu"),
        keras.layers.Dense(10),
    ]


def variants(model: str) -> dict[str, list[Any]]:
    """Returns the layers of each network, the twin first."""
    keep = tfvn.distributions.noise_law("bernoulli", keep_probability=1 - RATE)
    if model == "mlp":

        def twin(units: int) -> list[Any]:
            return [keras.layers.Dropout(RATE), keras.layers.Dense(units, "relu")]

        def noisy(**kwargs: Any) -> Callable[[int], list[Any]]:
            return lambda units: [tfvn.NoisyDense(units, "relu", **kwargs)]

        return {
            TWIN: mlp(twin),
            **{
                f"ard, {noise}": mlp(noisy(noise=noise))
                for noise in tfvn.distributions.noise_aliases()
            },
            "dropconnect, bernoulli": mlp(noisy(noise=keep, structure="dropconnect")),
        }
    if model == "lenet5":
        twin_layers = [
            keras.layers.Conv2D(50, 5, activation="relu"),
            keras.layers.Dropout(RATE),
        ]
        structures = ("channels", "filters", "channels_and_filters")
        return {
            TWIN: lenet5(twin_layers),
            **{
                structure: lenet5(
                    [tfvn.NoisyConv2D(50, 5, structure=structure, activation="relu")]
                )
                for structure in structures
            },
        }
    return {
        TWIN: [keras.layers.LSTM(64, dropout=RATE), keras.layers.Dense(10)],
        **{
            gates: [tfvn.NoisyLSTM(64, noise=keep, gates=gates), keras.layers.Dense(10)]
            for gates in ("tied", "untied")
        },
    }


def compile_step(layers: list[Any], model: str, jit: bool) -> Network:
    """Compiles one Adam step and one forward pass on random data."""
    network = keras.Sequential([keras.Input(SHAPES[model]), *layers])
    optimizer = keras.optimizers.Adam(1e-3)
    loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    rng = np.random.default_rng(0)
    x = tf.constant(rng.uniform(size=(BATCH_SIZE, *SHAPES[model])), tf.float32)
    y = tf.constant(rng.integers(10, size=BATCH_SIZE))
    variables = network.trainable_variables
    optimizer.build(variables)

    @tf.function(jit_compile=jit)
    def train() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_function(y, network(x, training=True))
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    @tf.function(jit_compile=jit)
    def infer() -> Any:
        return network(x, training=False)

    return Network(lambda: train().numpy(), lambda: infer().numpy())


def measure(model: str, jit: bool, rounds: int, steps: int) -> dict[str, float]:
    """Returns the median milliseconds of a training step, by network."""
    made = {
        name: compile_step(layers, model, jit)
        for name, layers in variants(model).items()
    }
    times: dict[str, list[float]] = {name: [] for name in made}
    for warm in made.values():
        for _ in range(3):
            warm.train()
    bar = keras.utils.Progbar(rounds, unit_name="round")
    for index in range(rounds):
        for name, network in made.items():
            start = time.perf_counter()
            for _ in range(steps):
                network.train()
            times[name].append((time.perf_counter() - start) / steps * 1e3)
        bar.update(index + 1)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Measures what was asked for, prints tables, and writes them as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=tuple(SHAPES))
    parser.add_argument("--jit", action=argparse.BooleanOptionalAction)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=5, help="steps per turn")
    parser.add_argument("--quick", action="store_true", help="one round, one step")
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results/benchmarks")
    )
    options = parser.parse_args()
    if options.quick:
        options.rounds = options.steps = 1
    results = {}
    for model in SHAPES:
        for jit in (False, True):
            if options.model in (None, model) and options.jit in (None, jit):
                name = model + (" jit" if jit else "")
                print(name)
                results[name] = measure(model, jit, options.rounds, options.steps)
                keras.backend.clear_session()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "noise_layers.json"
    path.write_text(json.dumps(results, indent=2) + "\n")
    for name, times in results.items():
        ratios = {network: value / times[TWIN] for network, value in times.items()}
        print(f"\nTraining step, {name}\n")
        print(table({"ratio": ratios}, "{:.2f}"))
        print(f"\nThe twin takes {times[TWIN]:.1f} ms.")


if __name__ == "__main__":
    main()
