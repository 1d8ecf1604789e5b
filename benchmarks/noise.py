"""The cost of a standard normal number, for every way to make one in TensorFlow.

    python benchmarks/noise.py

Each way makes 819,200 numbers and adds them up, with and without XLA; the ways take turns
and the figure is the median over rounds. The row `tfvn.random` is the way of this library.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras
    import tensorflow as tf

    import tfvn

# Every way is a function that is traced once.
tf.get_logger().setLevel("ERROR")

SHAPE = (1024, 800)
ROUNDS = 15
STEPS = 3


def ways() -> dict[str, Callable[[Any], Any]]:
    """Returns name -> a function of a seed."""

    def bits(seed: Any, algorithm: str) -> Any:
        # Unbounded integers: the generator alone.
        return tf.random.stateless_uniform(
            SHAPE, seed, None, None, tf.int32, alg=algorithm
        )

    def normal(seed: Any, algorithm: str) -> Any:
        return tf.random.stateless_normal(SHAPE, seed, alg=algorithm)

    def box_muller(seed: Any) -> Any:
        half = (2, SHAPE[0] // 2, SHAPE[1])
        first, second = tf.unstack(
            tf.random.stateless_uniform(half, seed, alg="philox")
        )
        radius = tf.sqrt(-2.0 * tf.math.log(first + 2.0**-24))
        angle = np.float32(2 * np.pi) * second
        return tf.concat([radius * tf.cos(angle), radius * tf.sin(angle)], axis=0)

    def erfinv(seed: Any) -> Any:
        uniform = tf.random.stateless_uniform(SHAPE, seed, -1.0, 1.0, alg="philox")
        return np.float32(np.sqrt(2)) * tf.math.erfinv(uniform + 2.0**-24)

    def ndtri(seed: Any, algorithm: str) -> Any:
        uniform = tf.random.stateless_uniform(SHAPE, seed, alg=algorithm)
        return tf.math.ndtri(uniform + 2.0**-24)

    def hashed(seed: Any) -> Any:
        # Two rounds of multiply and shift on a counter. No library has this generator,
        # and nobody has tested it as Philox was tested.
        x = tf.bitcast(tf.range(SHAPE[0] * SHAPE[1]), tf.uint32)
        x += tf.bitcast(seed, tf.uint32)[0]
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, np.uint32(shift)))
            x *= np.uint32(factor)
        uniform = tf.cast(tf.bitwise.right_shift(x, np.uint32(9)), tf.float32) * 2**-23
        return tf.math.ndtri(uniform + 2.0**-24)

    counter = keras.random.SeedGenerator(1)
    return {
        "bits, Philox": lambda seed: bits(seed, "philox"),
        "bits, ThreeFry": lambda seed: bits(seed, "threefry"),
        "`tf.random.stateless_normal`, Philox": lambda seed: normal(seed, "philox"),
        "`tf.random.stateless_normal`, ThreeFry": lambda seed: normal(seed, "threefry"),
        "`tf.random.stateless_normal`, its default": lambda seed: normal(
            seed, "auto_select"
        ),
        "`tf.random.normal`, stateful": lambda seed: tf.random.normal(SHAPE),
        "`keras.random.normal`": lambda seed: keras.random.normal(SHAPE, seed=counter),
        "uniform, Philox, and Box-Muller": box_muller,
        "uniform, Philox, and `erfinv`": erfinv,
        "uniform, Philox, and `ndtri`": lambda seed: ndtri(seed, "philox"),
        "uniform, ThreeFry, and `ndtri`": lambda seed: ndtri(seed, "threefry"),
        "hashed counter and `ndtri`": hashed,
        "`tfvn.random.normal`": lambda seed: tfvn.random.normal(SHAPE, seed),
    }


def main() -> None:
    """Measures all ways and prints a table."""
    # A variable, because TensorFlow would compute the noise of a constant seed only once.
    seed = tf.Variable([1, 2])
    steps = {}
    for name, way in ways().items():
        for jit in (False, True):
            if not jit and "ThreeFry" in name:
                continue  # only XLA has it on a CPU
            step = tf.function(
                lambda way=way: tf.reduce_sum(way(seed.read_value())), jit_compile=jit
            )
            step()
            steps[name, jit] = step
    times: dict[tuple[str, bool], list[float]] = {key: [] for key in steps}
    bar = keras.utils.Progbar(ROUNDS, unit_name="round")
    for index in range(ROUNDS):
        for key, step in steps.items():
            start = time.perf_counter()
            for _ in range(STEPS):
                step().numpy()
            times[key].append((time.perf_counter() - start) / STEPS * 1e3)
        bar.update(index + 1)
    print("\n| milliseconds | no jit | jit |\n| --- | --- | --- |")
    for name in ways():
        cells = [
            f"{statistics.median(times[name, jit]):.1f}" if (name, jit) in times else ""
            for jit in (False, True)
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
