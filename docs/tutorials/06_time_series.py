"""Time series: forecasts with a band

An LSTM with random weights predicts the next value of a series as a distribution. The
weights are sampled once per sequence, so that each draw is one consistent forecaster.
"""

import keras
import numpy as np

import tfvn

keras.utils.set_random_seed(0)

# %%
# ## A series whose noise changes with time

t = np.arange(1600)
scale = 0.15 + 0.1 * np.sin(2 * np.pi * t / 60)
wave = np.sin(2 * np.pi * t / 25) + 0.5 * np.sin(2 * np.pi * t / 60)
values = (wave + scale * np.random.default_rng(0).normal(size=len(t))).astype("float32")

# %%
# Each example is a window of 30 values, and the value after it. The last 300 are for
# testing.

windows = np.lib.stride_tricks.sliding_window_view(values, 31)
x, y = windows[:, :-1, None].copy(), windows[:, -1].copy()
x_train, y_train, x_test, y_test = x[:-300], y[:-300], x[-300:], y[-300:]

# %%
# ## The network

model = tfvn.Sequential(
    [
        keras.Input((30, 1)),
        tfvn.MeanFieldLSTM(16),
        tfvn.layers.NormalHead(1, posterior="mean_field"),
    ]
)
model.compile(
    keras.optimizers.Adam(1e-2),
    tfvn.losses.GaussianNLL(),
    # At the start, the KL of all recurrent weights would outweigh the data.
    kl_schedule=tfvn.schedules.LinearAnnealing(epochs=12),
)
model.fit(x_train, y_train, batch_size=64, epochs=16, verbose=0)

# %%
# ## The forecast, one step ahead

answer = tfvn.ensemble_predict(model, x_test, num_samples=50, seed=0)
coverage = tfvn.metrics.IntervalCoverage(0.9)
coverage.update_state(y_test, answer)
print(f"90 % band covers {float(coverage.result()):.1%} of {len(y_test)} steps")
print(f"mean absolute error {np.abs(answer.mean[:, 0] - y_test).mean():.3f}")
print(f"of the true wave    {np.abs(wave[-300:] - y_test).mean():.3f}")

# %%

shown = slice(0, 120)
part = tfvn.PredictiveDistribution.of_draws("normal", answer.outputs[shown])
ax = tfvn.plots.regression_band(t[-300:][shown], part, y_test[shown])
ax.set(xlabel="step", ylabel="value")
