"""Mean-field and k-tied Normal layers

A mean-field layer learns a mean and a standard deviation for every weight, twice the
parameters of a plain layer. Swiatkowski et al. (2020) found that the standard deviations
of trained layers form a matrix of low rank. A k-tied layer uses that from the start: it
has hardly more parameters than a plain layer, and its gradients are less noisy.
"""

import keras

import tfvn

(x_train, y_train), (x_test, y_test) = tfvn.datasets.load("digits")

# %%
# ## Two networks that differ in one argument
#
# `tfvn.layers.Dense` takes the posterior as an argument. `tfvn.MeanFieldDense` and
# `tfvn.KTiedDense` are short names for two of its values.


def trained(posterior):
    """Returns a trained classifier and its history."""
    keras.utils.set_random_seed(0)
    model = tfvn.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            tfvn.layers.Dense(64, "relu", posterior=posterior),
            tfvn.layers.Dense(64, "relu", posterior=posterior),
            tfvn.layers.Dense(10, "softmax", posterior=posterior),
        ]
    )
    model.compile(
        {"mean": keras.optimizers.Adam(3e-3), "scale": keras.optimizers.Adam(1e-2)},
        "sparse_categorical_crossentropy",
        kl_schedule=tfvn.schedules.LinearAnnealing(0.0, 0.3, epochs=20),
        jit_compile=False,
    )
    fitted = model.fit(x_train, y_train, batch_size=64, epochs=40, verbose=0)
    return model, fitted


networks = {}
for name, posterior in (
    ("mean-field", tfvn.posteriors.MeanField()),
    ("2-tied", tfvn.posteriors.KTied(rank=2)),
):
    model, fitted = trained(posterior)
    answer = tfvn.ensemble_predict(model, x_test, num_samples=20, seed=0)
    accuracy = (answer.mean.argmax(-1) == y_test).mean()
    print(f"{name}: {model.count_params():,} parameters, accuracy {accuracy:.1%}")
    networks[name] = (model, fitted)

# %%
# ## What `fit` logs
#
# A `tfvn.Sequential` trains on the evidence lower bound (ELBO): the negative
# log-likelihood of the data, plus the KL between posterior and prior, divided by the
# number of training examples. `fit` logs both, and the bound.

model, fitted = networks["mean-field"]
ax = tfvn.plots.training_curves(fitted)

# %%
# ## Low rank
#
# The singular values of the matrix of standard deviations of the second layer show how
# much of it one, two, three factors explain. For the means there is no such rank.

ax = tfvn.plots.explained_variance(tfvn.explained_variance(model.layers[2]))

# %%
# The heat map shows the matrix itself. Rows and columns stand out as wholes: inputs that
# are never used, and units.

ax = tfvn.plots.scale_heat_map(model.layers[2])
