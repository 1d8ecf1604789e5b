"""The cost of an LSTM or GRU with random kernels, as a ratio to its Keras twin.

    python benchmarks/recurrent.py                 # LSTM and GRU, with and without XLA
    python benchmarks/recurrent.py --quick         # a check that it runs
    python benchmarks/recurrent.py --kind LSTM --no-jit

Each network is the recurrent layer and one unit, on sequences of 80 vectors of 128
numbers. The networks take turns in one process, as in `benchmarks/layers.py`, and a figure is
the median over rounds divided by that of the twin.
"""

import argparse
import functools
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
from layers import TWIN, Network, measure_networks, ratios, table

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras
    import tensorflow as tf

    import tfvn

EXAMPLES = 20_000
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "Variance": ("Variance", {}),
    "GaussianDropout": ("GaussianDropout", {}),
    "KTied, rank 2": ("KTied", {"rank": 2}),
    "MeanField": ("MeanField", {}),
    "MeanField, flipout": ("MeanField", {"estimator": "flipout"}),
}


def network(layer: keras.Layer, shape: tuple[int, int, int], jit: bool) -> Network:
    """Compiles one Adam step and one forward pass on random data."""
    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=shape), tf.float32)
    y = tf.constant(rng.integers(2, size=(shape[0], 1)), tf.float32)
    model = keras.Sequential([keras.Input(shape[1:]), layer, keras.layers.Dense(1)])
    variables = model.trainable_variables
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(variables)
    loss_function = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function(jit_compile=jit)
    def train() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_function(y, model(x, training=True)) + sum(model.losses)
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    @tf.function(jit_compile=jit)
    def infer() -> Any:
        return model(x, training=False)

    return Network(lambda: train().numpy(), lambda: infer().numpy())


def variants(
    kind: str, units: int, shape: tuple[int, int, int], jit: bool
) -> dict[str, Callable[[], Network]]:
    """Returns how to make each network."""

    def make(family: str | None, kwargs: dict[str, Any]) -> Network:
        if family is None:
            return network(getattr(keras.layers, kind)(units), shape, jit)
        layer = getattr(tfvn, family + kind)(units, kl_weight=1 / EXAMPLES, **kwargs)
        return network(layer, shape, jit)

    return {
        name: functools.partial(make, family, kwargs)
        for name, (family, kwargs) in {TWIN: (None, {}), **VARIANTS}.items()
    }


def main() -> None:
    """Measures what was asked for, prints a table, and writes it as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=("LSTM", "GRU"))
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--timesteps", type=int, default=80)
    parser.add_argument("--jit", action=argparse.BooleanOptionalAction)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=2, help="steps per turn")
    parser.add_argument("--quick", action="store_true", help="one round, short")
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results/benchmarks")
    )
    options = parser.parse_args()
    if options.quick:
        options.rounds = options.steps = 1
        options.units, options.batch_size, options.timesteps = 8, 4, 5
    shape = (options.batch_size, options.timesteps, 128)
    times = {}
    for kind in ("LSTM", "GRU") if options.kind is None else (options.kind,):
        for jit in (False, True) if options.jit is None else (options.jit,):
            setting = kind + (" jit" if jit else "")
            print(setting)
            times[setting] = measure_networks(
                variants(kind, options.units, shape, jit), options.rounds, options.steps
            )
            keras.backend.clear_session()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "recurrent.json"
    path.write_text(json.dumps(times, indent=2) + "\n")
    for step, title in (("train", "Training step"), ("infer", "Inference")):
        print(f"\n{title}, ratio to the twin\n")
        print(table({name: ratios(t, step) for name, t in times.items()}, "{:.2f}"))
    print(f"\nMilliseconds are in {path}")


if __name__ == "__main__":
    main()
