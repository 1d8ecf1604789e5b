"""A forecast with intervals: an LSTM on a series whose noise rises and falls.

    python examples/lstm_forecast.py           # 30 epochs
    python examples/lstm_forecast.py --quick   # a check that it runs

The series is a wave of period 25 and one of period 60, plus noise whose standard deviation
swings between 0.1 and 0.4. An LSTM with random weights reads 40 values and predicts the next
one: its mean and its standard deviation. It predicts each of the last 400 values one step
ahead. Prints how many of them lie within the 90 % band, and writes `metrics.json` and
`lstm_forecast.png`.
"""

import argparse
import json
import math
import pathlib
import time

import numpy as np

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras

    import tfvn

WINDOW = 40
TEST_STEPS = 400
NUM_SAMPLES = 50


def series(count: int, seed: int) -> np.ndarray:
    """Returns a series."""
    t = np.arange(count)
    scale = 0.25 + 0.15 * np.sin(2 * np.pi * t / 60)
    noise = scale * np.random.default_rng(seed).normal(size=count)
    wave = np.sin(2 * np.pi * t / 25) + 0.5 * np.sin(2 * np.pi * t / 60)
    return (wave + noise).astype("float32")


def main() -> None:
    """Trains, and predicts the end of the series one step ahead."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=3_000)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="one epoch")
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results/lstm_forecast")
    )
    options = parser.parse_args()
    if options.quick:
        options.epochs, options.steps = 1, 800

    start = time.perf_counter()
    keras.utils.set_random_seed(options.seed)
    values = series(options.steps, options.seed)
    windows = np.lib.stride_tricks.sliding_window_view(values, WINDOW + 1)
    x, y = windows[:, :-1, None].copy(), windows[:, -1].copy()
    x_train, y_train = x[:-TEST_STEPS], y[:-TEST_STEPS]
    x_test, y_test = x[-TEST_STEPS:], y[-TEST_STEPS:]
    model = tfvn.Sequential(
        [
            keras.Input((WINDOW, 1)),
            tfvn.MeanFieldLSTM(24),
            tfvn.layers.NormalHead(1, posterior="mean_field"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(5e-3),
        tfvn.losses.GaussianNLL(),
        metrics=["mae"],  # metrics get the mean
        # At the start the KL of all recurrent weights would outweigh the data.
        kl_schedule=tfvn.schedules.LinearAnnealing(epochs=max(1, options.epochs // 2)),
    )
    history = model.fit(
        x_train, y_train, batch_size=64, epochs=options.epochs, verbose=0
    ).history
    answer = tfvn.ensemble_predict(
        model, x_test, NUM_SAMPLES, 200, seed=options.seed, verbose=0
    )
    coverage, crps = tfvn.metrics.IntervalCoverage(0.9), tfvn.metrics.CRPS()
    for metric in (coverage, crps):
        metric.update_state(y_test, answer)
    t = np.arange(options.steps - TEST_STEPS, options.steps)
    true_scale = 0.25 + 0.15 * np.sin(2 * np.pi * t / 60)
    metrics = {
        "coverage": float(coverage.result()),
        "crps": float(crps.result()),
        "mean_absolute_error": float(np.mean(np.abs(answer.mean[:, 0] - y_test))),
        "mean_absolute_error_of_the_truth": float(
            np.mean(true_scale) * math.sqrt(2 / math.pi)
        ),
        "correlation_of_noise_with_truth": float(
            np.corrcoef(answer.aleatoric_std[:, 0], true_scale)[0, 1]
        ),
        "mae_in_fit": history["mae"][-1],
        "seconds": round(time.perf_counter() - start, 1),
    }
    error = 2 * math.sqrt(0.09 / TEST_STEPS)
    print(f"90 % band covers {metrics['coverage']:.1%} of {TEST_STEPS} steps ", end="")
    print(f"(two binomial errors: {error:.1%})")
    print(f"mean absolute error {metrics['mean_absolute_error']:.3f}; ", end="")
    print(
        f"of the true mean {metrics['mean_absolute_error_of_the_truth']:.3f}; ", end=""
    )
    print(f"CRPS {metrics['crps']:.3f}")
    print("correlation of the predicted with the true noise: ", end="")
    print(f"{metrics['correlation_of_noise_with_truth']:.2f}")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")

    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 3.2), layout="constrained")
    shown = slice(0, 200)
    part = tfvn.PredictiveDistribution.of_draws("normal", answer.outputs[shown])
    tfvn.plots.regression_band(t[shown], part, y_test[shown], axes)
    axes.set(xlabel="step", ylabel="value")
    figure.savefig(options.output / "lstm_forecast.png", dpi=80)


if __name__ == "__main__":
    main()
