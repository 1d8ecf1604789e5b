"""Variance networks and their phase transition

The weights of a *variance layer* have mean zero. All that it learns is in their
variances, and yet the network classifies digits (Neklyudov et al., 2019). This tutorial
trains such a network, then lets a layer with Gaussian dropout find out by itself that it
does not need its means.
"""

import keras

import tfvn

keras.utils.set_random_seed(0)
(x_train, y_train), (x_test, y_test) = tfvn.datasets.load("digits")

# %%
# ## A layer without means
#
# Use `tfvn.VarianceDense` like `keras.layers.Dense`. Batch normalization after it, and a
# nonlinearity after that, let the next layers read the spread of its outputs. If you want to
# use its uncertainty on strange inputs, put batch normalization before it as well
# ([pitfalls](../pitfalls.md#no-spread-on-strange-inputs)).


def network(middle):
    """Returns a network for digits with a given layer in the middle."""
    return tfvn.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            middle,
            keras.layers.BatchNormalization(),
            keras.layers.Activation("relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


model = network(tfvn.VarianceDense(128))
model.compile(
    keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", jit_compile=False
)
model.fit(x_train, y_train, batch_size=64, epochs=30, verbose=0)

# %%
# Predict with an ensemble: each draw of the weights is one network. With the mean weights,
# which are zero, the prediction is a random guess.

answer = tfvn.ensemble_predict(
    model, x_test, num_samples=20, seed=0, return_samples=True
)
means = tfvn.mean_predict(model, x_test)
one = (answer.samples.argmax(-1) == y_test[:, None]).mean()
print(f"mean weights {(means.argmax(-1) == y_test).mean():.1%}")
print(f"one draw     {one:.1%}")
print(f"20 draws     {(answer.mean.argmax(-1) == y_test).mean():.1%}")

# %%
# ## The phase transition
#
# A layer with Gaussian dropout has weights `N(mean, alpha mean^2)`. Its KL to the
# log-uniform prior falls as `alpha` grows, so training increases `alpha`. If all weights
# of the layer share one `alpha`, it grows until the means carry no information: the layer
# has become a variance layer. Give the scales their own optimizer with a higher learning
# rate, or the transition takes a hundred epochs. The callback measures, after each epoch,
# the accuracy with mean weights, with the means set to zero, and of the ensemble. `fit`
# warns of the KL, which is large as long as alpha is small; here it is meant to win.

model = network(tfvn.GaussianDropoutDense(128, name="dropout"))
model.compile(
    {
        "mean": keras.optimizers.Adam(3e-3),
        "scale": keras.optimizers.Adam(5e-2),
        "default": keras.optimizers.Adam(3e-3),
    },
    "sparse_categorical_crossentropy",
    jit_compile=False,
)
transition = tfvn.callbacks.PhaseTransition((x_test, y_test), num_samples=10)
history = model.fit(
    x_train, y_train, batch_size=64, epochs=25, verbose=0, callbacks=[transition]
).history
print(sorted(name for name in history if "learning_rate" not in name))

# %%
# With its means set to zero, the network knows nothing at first, and in the end as much as
# the whole network: what it needs has moved to the variances. After these few epochs the
# means alone still predict well. They lose that when alpha grows further, on MNIST from
# log alpha = 6 on ([results](../RESULTS.md#examples)).

ax = tfvn.plots.phase_transition(history)

# %%
# Once log alpha is large (from about 5 on), a variance layer predicts the same. [Tying and
# bounds](../tying.md) shows how to turn such a layer into one.

last = {name: round(float(values[-1]), 3) for name, values in history.items()}
print(
    {
        name: value
        for name, value in last.items()
        if "accuracy" in name or "alpha" in name
    }
)
