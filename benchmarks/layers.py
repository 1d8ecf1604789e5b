"""The cost of stochastic layers, as a ratio to their deterministic Keras twins.

    python benchmarks/layers.py                 # all tables of times
    python benchmarks/layers.py --memory        # peak memory instead
    python benchmarks/layers.py --quick         # a check that it runs
    python benchmarks/layers.py --model mlp --batch-size 128 --no-jit

All networks run in one process and take turns: in each round every network does a few
steps, so that other work of the machine slows all of them alike. A figure is the median
over rounds, divided by that of the twin. `tfp.layers` run on legacy Keras 2, with a legacy
twin. Peak memory is measured in a separate process for each network.
"""

import argparse
import functools
import json
import multiprocessing
import pathlib
import resource
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras
    import tensorflow as tf
    import tensorflow_probability as tfp
    import tf_keras
    from naive import Naive, NaiveTied, NaiveVariance

    import tfvn

# TensorFlow warns of many traced functions, and legacy layers of their age.
tf.get_logger().setLevel("ERROR")
warnings.filterwarnings("ignore", module="tensorflow_probability|tf_keras")

EXAMPLES = 60_000
MLP_WIDTHS = (400, 400, 10)
TWIN = "keras"


class Network(NamedTuple):
    """A compiled training step and forward pass."""

    train: Callable[[], Any]
    infer: Callable[[], Any]


class Setting(NamedTuple):
    """One column of the table."""

    model: str
    batch_size: int
    jit: bool

    def __str__(self) -> str:
        return f"{self.model} {self.batch_size}" + (" jit" if self.jit else "")


def keras_variants() -> dict[str, tuple[Callable, Callable | None]]:
    """Returns name -> (makes a dense layer, makes a convolution)."""

    def naive(layer: Any, kl_weight: float = 1 / EXAMPLES) -> tuple[Callable, None]:
        return lambda units, **more: layer(units, kl_weight=kl_weight, **more), None

    def preset(family: str, **kwargs: Any) -> tuple[Callable, Callable]:
        kwargs["kl_weight"] = 1 / EXAMPLES
        dense = getattr(tfvn, f"{family}Dense")
        convolution = getattr(tfvn, f"{family}Conv2D")
        return (
            lambda units, **more: dense(units, **kwargs, **more),
            lambda filters, **more: convolution(filters, 5, **kwargs, **more),
        )

    def noisy(layer: Callable) -> Callable:
        return lambda *args, **more: [
            keras.layers.GaussianDropout(0.2),
            layer(*args, **more),
        ]

    def plain_convolution(filters: int, **more: Any) -> keras.Layer:
        return keras.layers.Conv2D(filters, 5, **more)

    return {
        TWIN: (keras.layers.Dense, plain_convolution),
        "keras + GaussianDropout": (
            noisy(keras.layers.Dense),
            noisy(plain_convolution),
        ),
        "naive Variance": naive(NaiveVariance),
        "naive KTied, rank 2": naive(NaiveTied),
        "naive KTied, rank 2, without KL": naive(NaiveTied, 0.0),
        "naive MeanField": naive(Naive),
        "naive MeanField, without KL": naive(Naive, 0.0),
        "Variance": preset("Variance"),
        "GaussianDropout": preset("GaussianDropout"),
        "KTied, rank 2": preset("KTied", rank=2),
        "KTied, rank 2, without KL": preset("KTied", rank=2, prior=None),
        "MeanField": preset("MeanField"),
        "MeanField, without KL": preset("MeanField", prior=None),
        "MeanField, flipout": preset("MeanField", estimator="flipout"),
        "MeanField, weights": preset("MeanField", estimator="weights"),
    }


def tfp_variants() -> dict[str, tuple[Callable, Callable | None]]:
    """Returns the same for the layers of TFP, which has no local convolution."""
    layers = tfp.layers

    def scaled(layer: Any) -> Callable:
        def divergence(q: Any, p: Any, _: Any) -> Any:
            return tfp.distributions.kl_divergence(q, p) / EXAMPLES

        return lambda *args, **more: layer(
            *args, kernel_divergence_fn=divergence, **more
        )

    def convolution(layer: Any) -> Callable:
        return lambda filters, **more: scaled(layer)(filters, 5, **more)

    return {
        "legacy " + TWIN: (
            tf_keras.layers.Dense,
            lambda filters, **more: tf_keras.layers.Conv2D(filters, 5, **more),
        ),
        "tfp DenseLocalReparameterization": (
            scaled(layers.DenseLocalReparameterization),
            None,
        ),
        "tfp Reparameterization": (
            scaled(layers.DenseReparameterization),
            convolution(layers.Convolution2DReparameterization),
        ),
        "tfp Flipout": (
            scaled(layers.DenseFlipout),
            convolution(layers.Convolution2DFlipout),
        ),
    }


def build(
    library: Any, dense: Callable, convolution: Callable | None, model: str
) -> Any:
    """Returns the MLP 784-400-400-10 or LeNet-5, in either Keras."""
    layers = library.layers
    if model == "mlp":
        parts = [layers.InputLayer((784,))]
        parts += [dense(units, activation="relu") for units in MLP_WIDTHS[:-1]]
        parts.append(dense(MLP_WIDTHS[-1]))
    else:
        parts = [layers.InputLayer((28, 28, 1))]
        for filters in (20, 50):
            parts += [convolution(filters, activation="relu"), layers.MaxPooling2D()]
        parts += [layers.Flatten(), dense(500, activation="relu"), dense(10)]
    flat = [p for part in parts for p in (part if isinstance(part, list) else [part])]
    return library.Sequential(flat)


def network(library: Any, model: Any, setting: Setting) -> Network:
    """Compiles one Adam step and one forward pass on random data."""
    optimizer = library.optimizers.Adam(1e-3)
    loss_function = library.losses.SparseCategoricalCrossentropy(from_logits=True)
    shape = (784,) if setting.model == "mlp" else (28, 28, 1)
    rng = np.random.default_rng(0)
    x = tf.constant(rng.uniform(size=(setting.batch_size, *shape)), tf.float32)
    y = tf.constant(rng.integers(10, size=setting.batch_size))
    model(x)
    variables = model.trainable_variables
    optimizer.build(variables)

    @tf.function(jit_compile=setting.jit)
    def train() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_function(y, model(x, training=True)) + sum(model.losses)
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    @tf.function(jit_compile=setting.jit)
    def infer() -> Any:
        return model(x, training=False)

    return Network(lambda: train().numpy(), lambda: infer().numpy())


def variants(setting: Setting) -> dict[str, Callable[[], Network]]:
    """Returns how to make each network of a setting."""

    def make(library: Any, dense: Callable, convolution: Callable | None) -> Network:
        model = build(library, dense, convolution, setting.model)
        return network(library, model, setting)

    return {
        name: functools.partial(make, library, dense, convolution)
        for library, parts in ((keras, keras_variants()), (tf_keras, tfp_variants()))
        for name, (dense, convolution) in parts.items()
        if setting.model != "lenet5" or convolution is not None
    }


def measure_networks(
    makers: dict[str, Callable[[], Network]], rounds: int, steps: int
) -> dict[str, dict[str, float]]:
    """Returns the median milliseconds of a step, by network and by kind of step."""
    made = {name: make() for name, make in makers.items()}
    times: dict[str, dict[str, list[float]]] = {
        name: {"train": [], "infer": []} for name in made
    }
    for warm in made.values():
        for _ in range(3):
            warm.train()
            warm.infer()
    bar = keras.utils.Progbar(rounds, unit_name="round")
    for index in range(rounds):
        for name, net in made.items():
            for kind in ("train", "infer"):
                step = getattr(net, kind)
                start = time.perf_counter()
                for _ in range(steps):
                    step()
                times[name][kind].append((time.perf_counter() - start) / steps * 1e3)
        bar.update(index + 1)
    return {
        name: {kind: statistics.median(values) for kind, values in kinds.items()}
        for name, kinds in times.items()
    }


def _peak_memory(setting: Setting, name: str, queue: Any) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    net = variants(setting)[name]()
    for _ in range(5):
        net.train()
    queue.put((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def peak_memory(setting: Setting, name: str) -> float:
    """Returns how many MB a few training steps add to the peak memory of a process."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_peak_memory, args=(setting, name, queue))
    process.start()
    megabytes = queue.get(timeout=300)
    process.join()
    return megabytes


def ratios(times: dict[str, dict[str, float]], kind: str) -> dict[str, float]:
    """Returns each network's time divided by that of the twin in the same Keras."""
    legacy = "legacy " + TWIN
    return {
        name: kinds[kind]
        / times[legacy if name == legacy or name.startswith("tfp") else TWIN][kind]
        for name, kinds in times.items()
    }


def table(columns: dict[str, dict[str, float]], form: str) -> str:
    """Renders columns of figures by network as Markdown."""
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    lines = ["| | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(columns)]
    for name in names:
        cells = [form.format(c[name]) if name in c else "" for c in columns.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measures what was asked for, prints tables, and writes them as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=("mlp", "lenet5"))
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--jit", action=argparse.BooleanOptionalAction)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=5, help="steps per turn")
    parser.add_argument("--memory", action="store_true", help="memory, not time")
    parser.add_argument("--quick", action="store_true", help="one round, one step")
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results/benchmarks")
    )
    options = parser.parse_args()
    if options.quick:
        options.rounds = options.steps = 1
    settings = [
        Setting(model, batch_size, jit)
        for model, batch_size in (("mlp", 128), ("mlp", 1024), ("lenet5", 200))
        for jit in (False, True)
        if options.model in (None, model)
        and options.batch_size in (None, batch_size)
        and options.jit in (None, jit)
    ]
    options.output.mkdir(parents=True, exist_ok=True)
    if options.memory:
        report_memory(settings, options.output / "layers_memory.json")
    else:
        report_times(settings, options)


def report_memory(settings: list[Setting], path: pathlib.Path) -> None:
    """Measures peak memory and prints a table."""
    memory = {}
    for setting in settings:
        print(setting)
        memory[str(setting)] = {
            name: peak_memory(setting, name) for name in variants(setting)
        }
    path.write_text(json.dumps(memory, indent=2) + "\n")
    print("\nPeak memory of training, MB\n")
    print(table(memory, "{:.0f}"))


def report_times(settings: list[Setting], options: argparse.Namespace) -> None:
    """Measures times and prints tables of ratios and of milliseconds."""
    times = {}
    for setting in settings:
        print(setting)
        times[str(setting)] = measure_networks(
            variants(setting), options.rounds, options.steps
        )
        keras.backend.clear_session()
    path = options.output / "layers.json"
    path.write_text(json.dumps(times, indent=2) + "\n")
    for kind, title in (("train", "Training step"), ("infer", "Inference")):
        print(f"\n{title}, ratio to the twin\n")
        columns = {name: ratios(column, kind) for name, column in times.items()}
        print(table(columns, "{:.2f}"))
        print(f"\n{title}, milliseconds\n")
        columns = {
            name: {net: kinds[kind] for net, kinds in column.items()}
            for name, column in times.items()
        }
        print(table(columns, "{:.1f}"))


if __name__ == "__main__":
    main()
