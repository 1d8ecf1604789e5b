"""Regression with intervals

A network that predicts one number cannot tell you how wrong it may be. A network that
predicts a distribution can, and an ensemble of such networks also shows where it has not
seen data.
"""

import keras
import numpy as np

import tfvn

keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)

# %%
# ## Data with more noise on the right
#
# 400 points, none of them between 0.5 and 1.5.

x = np.concatenate([rng.uniform(-2.0, 0.5, 250), rng.uniform(1.5, 2.5, 150)])
noise = 0.05 + 0.1 * (x + 2.0)
y = np.sin(2.0 * x) + noise * rng.normal(size=len(x))
x = x.astype("float32")[:, None]

# %%
# ## A network that predicts a Normal
#
# `tfvn.layers.NormalHead` predicts a mean and a standard deviation, and
# `tfvn.losses.GaussianNLL` is the loss for it. The layer before it has random weights. There
# are few data, so that the KL gets a weight below 1 ([choices](../choices.md)).

model = tfvn.Sequential(
    [
        keras.Input((1,)),
        tfvn.MeanFieldDense(32, activation="tanh"),
        tfvn.layers.NormalHead(1, posterior="mean_field"),
    ]
)
model.compile(
    {"mean": keras.optimizers.Adam(1e-2), "scale": keras.optimizers.Adam(2e-2)},
    tfvn.losses.GaussianNLL(),
    kl_schedule=tfvn.schedules.LinearAnnealing(0.0, 0.3, epochs=50),
    jit_compile=False,
)
model.fit(x, y, batch_size=100, epochs=200, verbose=0)

# %%
# ## Two kinds of uncertainty
#
# `aleatoric_std` is the noise in the data, and `epistemic_std` how far the draws of the
# weights disagree.

grid = np.linspace(-2.5, 3.0, 111, dtype="float32")[:, None]
answer = tfvn.ensemble_predict(model, grid, num_samples=100, seed=0)
for place in (-1.0, 0.0, 1.0, 2.0, 3.0):
    i = int(np.argmin(abs(grid[:, 0] - place)))
    print(
        f"at {place:4.1f}: noise {answer.aleatoric_std[i, 0]:.2f}, "
        f"disagreement {answer.epistemic_std[i, 0]:.2f}"
    )

# %%
# The true noise at these places is 0.15, 0.25, 0.35, 0.45 and 0.55. The draws disagree most
# beyond the data. In the gap, at 1, they hardly disagree more than elsewhere: they agree
# about how to cross it, which does not make them right.

ax = tfvn.plots.regression_band(grid, answer)
ax.plot(x, y, ".", color="0.5", markersize=3)
ax.set(xlabel="x", ylabel="y")

# %%
# ## Are the intervals right?
#
# Of fresh data from the same places, 90 % should lie within the 90 % intervals. With
# 1,000 points, two standard errors are 1.9 %.

x_new = np.concatenate([rng.uniform(-2.0, 0.5, 625), rng.uniform(1.5, 2.5, 375)])
y_new = np.sin(2.0 * x_new) + (0.05 + 0.1 * (x_new + 2.0)) * rng.normal(size=1000)
answer = tfvn.ensemble_predict(
    model, x_new.astype("float32")[:, None], num_samples=100, seed=0
)
coverage = tfvn.metrics.IntervalCoverage(0.9)
coverage.update_state(y_new, answer)
print(f"90 % intervals cover {float(coverage.result()):.1%}")
ax = tfvn.plots.coverage(answer, y_new)

# %%
# The weight of the KL decides this: with 1 instead of 0.3, the same network fits less well,
# takes the rest for noise, and its 90 % intervals cover 94.5 %. Choose the weight by the NLL
# of validation data.
