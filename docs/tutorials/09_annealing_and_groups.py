"""Annealing the KL, and optimizers for groups of variables

At the start of training the KL pulls every weight to its prior, before the data had a say.
This tutorial raises the weight of the KL slowly, gives means and scales an optimizer
each, and cuts their learning rates by different measures.
"""

import keras

import tfvn

(x_train, y_train), (x_test, y_test) = tfvn.datasets.load("digits")
data = (x_train, y_train)


def network():
    """Returns a network with random weights that is not compiled."""
    keras.utils.set_random_seed(0)
    return tfvn.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            tfvn.KTiedDense(128, activation="relu"),
            tfvn.KTiedDense(10, activation="softmax"),
        ]
    )


# %%
# ## Groups of variables

model = network()
for group, variables in tfvn.variable_groups(model).items():
    print(group, [variable.path for variable in variables])

# %%
# ## A schedule for the KL
#
# `kl_schedule` is the weight of the KL: a number, or a schedule. `fit` logs the weight,
# the KL in nats and the ELBO at weight 1.

model.compile(
    optimizer={
        "mean": keras.optimizers.Adam(3e-3),
        "scale": keras.optimizers.Adam(1e-2),
        "default": keras.optimizers.Adam(3e-3),
    },
    loss="sparse_categorical_crossentropy",
    kl_schedule=tfvn.schedules.LinearAnnealing(0.0, 1.0, epochs=15),
    jit_compile=False,
)
history = model.fit(
    *data, validation_data=(x_test, y_test), batch_size=64, epochs=25, verbose=0
)
for epoch in (0, 7, 14, 24):
    logs = {name: values[epoch] for name, values in history.history.items()}
    print(
        f"epoch {epoch + 1:2}: weight {logs['kl_weight']:.2f}  nll {logs['nll']:.2f}  "
        f"kl {logs['kl']:.0f}  elbo {logs['elbo']:.2f}  val_nll {logs['val_nll']:.2f}"
    )
ax = tfvn.plots.training_curves(history)

# %%
# ## A plateau for each group
#
# Keras's `ReduceLROnPlateau` would cut all learning rates by one measure. Here the means
# follow the validation NLL, and the scales the KL.

model = network()
model.compile(
    {"mean": keras.optimizers.Adam(3e-3), "scale": keras.optimizers.Adam(3e-2)},
    "sparse_categorical_crossentropy",
    kl_schedule=0.3,
    jit_compile=False,
)
plateau = tfvn.callbacks.GroupReduceLROnPlateau(
    {"mean": "val_nll", "scale": "kl"}, factor=0.3, patience=3
)
history = model.fit(
    *data,
    validation_data=(x_test, y_test),
    batch_size=64,
    epochs=30,
    verbose=0,
    callbacks=[plateau],
).history
for group in ("mean", "scale"):
    rates = history[f"learning_rate_{group}"]
    print(group, [f"{rate:.1e}" for rate in rates[::6]])

# %%
# ## Which rate to start with
#
# `LearningRateRange` raises the rate of one group exponentially and records the loss, the
# range test of Smith (2017). A good rate lies a little below the point where the loss
# stops falling.

model = network()
model.compile(
    {"mean": keras.optimizers.Adam(1e-3), "scale": keras.optimizers.Adam(1e-3)},
    "sparse_categorical_crossentropy",
    kl_schedule=0.1,
    jit_compile=False,
)
test = tfvn.callbacks.LearningRateRange(1e-4, 1.0, steps=120, group="mean")
model.fit(*data, batch_size=64, epochs=6, verbose=0, callbacks=[test])

import matplotlib.pyplot as plt

_, ax = plt.subplots(layout="constrained")
ax.semilogx(test.history["learning_rate"], test.history["smoothed_loss"])
ax.set(xlabel="learning rate of the means", ylabel="smoothed loss")
