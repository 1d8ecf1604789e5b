"""Noise layers as priors

Multiplying weights by noise, as dropout does, is the same as giving them a prior that is
a mixture of Normals (Nalisnick and Smyth, 2018). The law of the noise decides the shape of
the prior; where the noise acts decides which weights share it.
"""

import keras

import tfvn

(x_train, y_train), (x_test, y_test) = tfvn.datasets.load("digits")

# %%
# ## Five laws and their priors

for noise in ("bernoulli", "gaussian", "rayleigh", "inverse_nakagami", "half_cauchy"):
    prior = tfvn.distributions.marginal_prior(noise, scale=1.0)
    print(f"{noise:17} -> {type(prior).__name__}")

# %%

ax = tfvn.plots.noise_variances()

# %%
# ## Noise in a network
#
# `tfvn.MultiplicativeNoise` is dropout with any law. `tfvn.NoisyDense` multiplies the
# inputs of a dense layer (`"ard"`), or each weight (`"dropconnect"`).


def accuracy_with(noise):
    """Trains a network with noise, and returns its accuracy without and with it."""
    keras.utils.set_random_seed(0)
    model = tfvn.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            tfvn.NoisyDense(64, "relu", noise=noise, structure="ard"),
            tfvn.NoisyDense(10, "softmax", noise=noise, structure="ard"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    model.fit(x_train, y_train, batch_size=64, epochs=15, verbose=0)
    without = model.predict(x_test, verbose=0)
    answer = tfvn.ensemble_predict(model, x_test, num_samples=30, seed=0)
    return [(p.argmax(-1) == y_test).mean() for p in (without, answer.mean)]


for noise in ("bernoulli", "rayleigh", "half_cauchy"):
    without, ensemble = accuracy_with(noise)
    print(f"{noise:12} without noise {without:.1%}, ensemble of 30 {ensemble:.1%}")

# %%
# Half-Cauchy noise, which has no finite mean, keeps this network from learning: the law is
# more than a detail.
#
# As `keras.layers.Dropout`, these layers act in training, and `model.predict` uses the
# mean of the noise. `tfvn.ensemble_predict` samples the noise, which makes an ensemble of
# any such network, and of a stock Keras network with `Dropout` too.
