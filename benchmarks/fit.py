"""The cost of `tfvn.Model.fit` compared with `keras.Model.fit`, for the same layers.

    python benchmarks/fit.py

Both train an MLP 784-400-400-10 of each family on the same random data. They take turns after
each epoch, and the figure is the ratio of the median times of an epoch.
"""

import statistics
import time
from typing import Any

import numpy as np

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras

    import tfvn

EXAMPLES = 12_800
BATCH_SIZE = 128
ROUNDS = 12
FAMILIES = ("Variance", "GaussianDropout", "KTied", "MeanField")


def make(model: Any, family: str) -> Any:
    """Returns a compiled MLP."""
    layer = getattr(tfvn, f"{family}Dense")
    is_stock = model is keras.Sequential
    options = {"kl_weight": 1 / EXAMPLES if is_stock else None}
    made = model([keras.Input((784,))])
    for units in (400, 400):
        made.add(layer(units, activation="relu", **options))
    made.add(layer(10, activation="softmax", **options))
    made.compile("adam", "sparse_categorical_crossentropy")
    return made


def main() -> None:
    """Measures all families and prints a table."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(EXAMPLES, 784)).astype("float32")
    y = rng.integers(10, size=EXAMPLES)
    print("| | keras.Model.fit | tfvn.Model.fit | ratio |\n| --- | --- | --- | --- |")
    for family in FAMILIES:
        models = [make(keras.Sequential, family), make(tfvn.Sequential, family)]
        times: list[list[float]] = [[], []]
        for index in range(ROUNDS + 1):
            for model, record in zip(models, times, strict=True):
                start = time.perf_counter()
                model.fit(x, y, batch_size=BATCH_SIZE, verbose=0)
                if index:  # the first traces
                    record.append(time.perf_counter() - start)
        steps = EXAMPLES / BATCH_SIZE
        stock, ours = (statistics.median(record) / steps * 1e3 for record in times)
        print(f"| {family} | {stock:.2f} ms | {ours:.2f} ms | {ours / stock:.3f} |")


if __name__ == "__main__":
    main()
