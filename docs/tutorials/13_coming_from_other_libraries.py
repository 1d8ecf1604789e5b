"""Coming from tfp.layers, edward2 or bayesian-torch

The old line stands beside the new one. The old lines are shown and not run; the new ones
are.
"""

import pathlib
import tempfile

import keras

import tfvn

(x_train, y_train), (x_test, y_test) = tfvn.datasets.load("digits")

# %%
# ## tfp.layers
#
# `tfp.layers` runs on Keras 2 only.
#
# ```python
# # old
# kl = lambda q, p, _: tfp.distributions.kl_divergence(q, p) / len(x_train)
# tfp.layers.DenseFlipout(64, activation="relu", kernel_divergence_fn=kl)
# tfp.layers.DenseReparameterization(64, kernel_divergence_fn=kl)
# tfp.layers.DenseLocalReparameterization(64, kernel_divergence_fn=kl)
# tfp.layers.Convolution2DFlipout(8, 3, kernel_divergence_fn=kl)
# ```
#
# The estimator is an argument, and the KL is weighted by `tfvn.Model`, which counts the
# training examples itself.

layers = [
    tfvn.MeanFieldConv2D(8, 3, activation="relu", estimator="flipout"),
    keras.layers.Flatten(),
    tfvn.MeanFieldDense(64, activation="relu", estimator="weights"),
    tfvn.MeanFieldDense(10, estimator="local"),
]

# %%
# | `tfp.layers` | `tfvn` |
# | --- | --- |
# | `kernel_posterior_fn` | `posterior=`, for example `tfvn.posteriors.KTied(rank=2)` |
# | `kernel_prior_fn` | `prior=`: an alias or any `tfd.Distribution` |
# | `kernel_divergence_fn` with a division by the number of examples | nothing: `fit` finds it, or `compile(train_size=...)` |
# | `bias_posterior_fn` | `bias_posterior="mean_field"` |
# | `DenseVariational(kl_weight=1 / n)` | `kl_weight=1 / n`, only in a stock Keras model |
# | a loop over `model(x)` | `tfvn.ensemble_predict(model, x, num_samples=20)` |
#
# ## edward2
#
# ```python
# # old
# ed.layers.DenseReparameterization(64, activation="relu")
# loss = nll + sum(model.losses) / len(x_train)
# ```
#
# `edward2` puts the posterior in `kernel_initializer` and the KL in
# `kernel_regularizer`; here they are `posterior` and `prior`. `model.losses` has the KL,
# already weighted.

model = tfvn.Sequential([keras.Input((8, 8, 1)), *layers])
model.compile(
    keras.optimizers.Adam(3e-3),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
    kl_schedule=0.1,
)
history = model.fit(x_train, y_train, batch_size=64, epochs=12, verbose=0).history
print({name: round(history[name][-1], 3) for name in ("nll", "kl", "elbo", "accuracy")})

# %%
# ## bayesian-torch
#
# ```python
# # old
# dnn_to_bnn(model, {"type": "Reparameterization", "moped_enable": True, ...})
# output = model(x)
# loss = criterion(output, y) + get_kl_loss(model) / batch_size
# ```
#
# `tfvn.from_deterministic` converts a trained model, and leaves the original alone;
# `tfvn.summary` shows which layers it could not convert. Divide the KL by the number of training
# *examples*, never by the batch size, which makes the KL hundreds of times too strong;
# `fit` does it right by itself.

trained = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
trained.compile("adam", "sparse_categorical_crossentropy")
trained.fit(x_train, y_train, epochs=15, verbose=0)
bayesian = tfvn.from_deterministic(trained, posterior="mean_field", kl_weight=0.01)
tfvn.fit_scales(bayesian, x_train, y_train, verbose=0)

# %%
# ## Prediction and saving

answer = tfvn.ensemble_predict(bayesian, x_test, num_samples=20, seed=0)
print(f"accuracy {(answer.mean.argmax(-1) == y_test).mean():.1%}")
print(answer)
path = pathlib.Path(tempfile.mkdtemp()) / "bayesian.keras"
bayesian.save(path)
loaded = keras.saving.load_model(path, compile=False)  # to predict, not to train
print(type(loaded).__name__)
