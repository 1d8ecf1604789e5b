"""Gaussian dropout and pruning

With an `alpha` of its own, each weight of a Gaussian-dropout layer learns how much noise it
can bear. Weights that bear any noise carry no information and can be removed: that is
sparse variational dropout (Molchanov et al., 2017). Variance layers are pruned by their
scales (Neklyudov et al., 2019).
"""

import keras
import numpy as np

import tfvn

(x_train, y_train), (x_test, y_test) = tfvn.datasets.load("digits")


def trained(middle, weight, epochs=40):
    """Returns a trained network with a given layer in the middle."""
    keras.utils.set_random_seed(0)
    model = tfvn.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            middle,
            keras.layers.BatchNormalization(),
            keras.layers.Activation("relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(
        {
            "mean": keras.optimizers.Adam(3e-3),
            "scale": keras.optimizers.Adam(2e-2),
            "default": keras.optimizers.Adam(3e-3),
        },
        "sparse_categorical_crossentropy",
        kl_schedule=weight,
        jit_compile=False,
    )
    model.fit(x_train, y_train, batch_size=64, epochs=epochs, verbose=0)
    return model


# %%
# ## Sparse variational dropout
#
# `parameterization="additive"` trains a mean and a scale for each weight; alpha is their
# ratio. The KL to the log-uniform prior makes most alphas large.

layer = tfvn.GaussianDropoutDense(128, parameterization="additive", name="sparse")
sparse = trained(layer, tfvn.schedules.LinearAnnealing(0.0, 1.0, epochs=15))
print(tfvn.summary(sparse))

# %%
# `tfvn.prune` returns a new model. Weights whose log alpha is above the threshold are
# exactly zero in it, and stay zero if you train it on.

pruned = tfvn.prune(sparse, threshold=3.0)
for name, model in (("before", sparse), ("pruned", pruned)):
    answer = tfvn.ensemble_predict(model, x_test, num_samples=20, seed=0)
    accuracy = (answer.mean.argmax(-1) == y_test).mean()
    print(f"{name}: accuracy {accuracy:.1%}")
print(tfvn.sparsity(pruned))

# %%
# ## Pruning a variance layer
#
# Here the weights of the smallest scales go. The curve shows how many can go.

variance = trained(tfvn.VarianceDense(128), 1.0, epochs=25)
fractions = np.array([0.0, 0.5, 0.8, 0.9, 0.95, 0.98])
curves = {
    name: tfvn.pruning_curve(model, x_test, y_test, fractions, num_samples=20, seed=0)
    for name, model in (("sparse dropout", sparse), ("variance", variance))
}
for name, curve in curves.items():
    print(name, np.round(curve.accuracy, 3))

# %%

ax = tfvn.plots.pruning_curve(curves)
