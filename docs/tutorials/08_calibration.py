"""Calibration

A classifier is calibrated if it is right in 90 % of the cases in which it says "90 %".
This tutorial measures that, for a plain network and for an ensemble, and shows what the
KL weight does to it.
"""

import keras
import numpy as np

import tfvn

(x_train, y_train), (x_test, y_test) = tfvn.datasets.load("digits")
# A harder problem: few training images, and noisy ones.
rng = np.random.default_rng(0)
x_train = x_train[:300] + rng.normal(0, 0.4, x_train[:300].shape).astype("float32")
y_train = y_train[:300]
x_test = x_test + rng.normal(0, 0.4, x_test.shape).astype("float32")

# %%
# ## Networks


def classifier(dense, kl_weight=1.0):
    """Returns a trained classifier made of one kind of dense layers."""
    keras.utils.set_random_seed(0)
    model = tfvn.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            dense(128, activation="relu"),
            dense(10, activation="softmax"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(3e-3),
        "sparse_categorical_crossentropy",
        kl_schedule=kl_weight,
        jit_compile=False,
    )
    model.fit(x_train, y_train, batch_size=50, epochs=100, verbose=0)
    return model


def figures(name, probabilities):
    """Prints accuracy, negative log-likelihood and calibration error."""
    error = tfvn.metrics.ExpectedCalibrationError()
    error.update_state(y_test, probabilities)
    nll = -np.log(probabilities[np.arange(len(y_test)), y_test]).mean()
    accuracy = (probabilities.argmax(-1) == y_test).mean()
    print(f"{name:24} {accuracy:.1%}  NLL {nll:.2f}  ECE {float(error.result()):.3f}")


# Before the larger weights, `fit` warns that the KL outweighs these few data.
plain = classifier(keras.layers.Dense).predict(x_test, verbose=0)
figures("plain", plain)
ensembles = {}
for weight in (0.1, 0.3, 1.0):
    model = classifier(tfvn.MeanFieldDense, weight)
    answer = tfvn.ensemble_predict(model, x_test, num_samples=50, seed=0)
    ensembles[weight] = answer.mean
    figures(f"mean-field, weight {weight}", answer.mean)

# %%
# ## Reliability diagrams
#
# Points below the diagonal mean overconfidence. The plain network was trained until it
# fits its 300 noisy images, and is too sure of itself.

ax = tfvn.plots.reliability_diagram(y_test, plain, num_bins=10)
ax.set_title("plain network")

# %%

ax = tfvn.plots.reliability_diagram(y_test, ensembles[0.1], num_bins=10)
ax.set_title("mean-field ensemble, KL weight 0.1")

# %%
# ## What the KL weight does
#
# Weight 1 is the evidence lower bound. With few data the KL outweighs the data: the
# network learns little and is not confident enough. At 0.3 it is right more often than at
# 0.1, and yet far less confident, which costs NLL and calibration. A smaller weight is a
# compromise that many papers use without saying so; choose it by the NLL of validation
# data, and say so.
