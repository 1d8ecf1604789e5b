"""Uncertainty in five lines, from a trained CNN

You have a trained Keras network and want to know how far to trust its predictions. You
need not train it again.
"""

import keras
import numpy as np

import tfvn

# %%
# ## A trained network
#
# Any Keras network will do. This one classifies digits of 8x8 pixels.

keras.utils.set_random_seed(0)
(x_train, y_train), (x_test, y_test) = tfvn.datasets.load("digits")
cnn = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
cnn.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
cnn.fit(x_train, y_train, epochs=15, verbose=0)

# %%
# ## Five lines
#
# Laplace's approximation replaces the last layer by a Normal distribution around the
# trained weights. The training data determine how wide it is.

bayesian = tfvn.last_layer_laplace(cnn, x_train, y_train)
answer = tfvn.ensemble_predict(bayesian, x_test, num_samples=50, seed=0)
print(f"accuracy {(answer.mean.argmax(-1) == y_test).mean():.1%}")
surest, least = answer.entropy.argmin(), answer.entropy.argmax()
print(f"entropy from {answer.entropy[surest]:.3f} to {answer.entropy[least]:.3f} nats")

# %%
# ## The digits of which it is least sure

import matplotlib.pyplot as plt

order = np.argsort(answer.entropy)[::-1][:6]
figure, axes = plt.subplots(1, 6, figsize=(9, 2.2), layout="constrained")
for ax, row in zip(axes, order, strict=True):
    ax.imshow(x_test[row, :, :, 0], cmap="gray_r")
    first, second = np.argsort(answer.mean[row])[::-1][:2]
    ax.set_title(
        f"{first}: {answer.mean[row, first]:.0%}, {second}: {answer.mean[row, second]:.0%}",
        fontsize=8,
    )
    ax.set_axis_off()

# %%
# ## Random weights in every layer
#
# `tfvn.from_deterministic` gives each layer that it can convert a Normal distribution
# around its trained weights. `tfvn.fit_scales` then trains how wide these are, and
# nothing else. There are 27 random weights for each of the 1,437 digits, so that the KL of
# weight 1 would outweigh the data and make the predictions far too uncertain. A weight of
# 0.01 suits so few data ([choices](../choices.md)). `tfvn.summary` shows what was converted, and
# what was left and why.

converted = tfvn.from_deterministic(cnn)
converted.compile("adam", "sparse_categorical_crossentropy", kl_schedule=0.01)
tfvn.fit_scales(converted, x_train, y_train, verbose=0)
print(tfvn.summary(converted))

# %%
# ## Do the figures mean something?
#
# On inverted digits, which the network has never seen, both ensembles should be less sure
# than on digits. A network that is not converted has only the entropy of its one
# prediction.

plain = cnn.predict(1 - x_test, verbose=0)
wrong = (plain.argmax(-1) != y_test).mean()
print(f"the CNN is wrong on {wrong:.0%} of the inverted digits,")
print(f"with an average confidence of {plain.max(-1).mean():.0%}")
for name, model in (("Laplace", bayesian), ("all layers", converted)):
    usual = tfvn.ensemble_predict(model, x_test, num_samples=50, seed=0)
    unusual = tfvn.ensemble_predict(model, 1 - x_test, num_samples=50, seed=0)
    print(
        f"{name}: entropy {usual.entropy.mean():.2f} on digits, "
        f"{unusual.entropy.mean():.2f} on inverted ones; disagreement "
        f"{usual.mutual_information.mean():.3f} and "
        f"{unusual.mutual_information.mean():.3f}"
    )
