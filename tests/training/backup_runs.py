"""Small runs of `fit` with a backup and other callbacks, which may be killed."""

import keras
import numpy as np
import pytest

import tfvn


def make_model():
    keras.utils.set_random_seed(1)
    model = tfvn.Sequential([keras.Input((3,)), tfvn.MeanFieldDense(3)])
    model.compile({"mean": "adam", "scale": "adam"}, "mse")
    return model


def weights(model):
    return [v.numpy() for v in (*model.variables, *model.optimizer.variables)]


class Report(keras.callbacks.Callback):
    """A metric that is best in the second epoch, and one that is best in the first."""

    VALUES = (3.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0)

    def on_epoch_end(self, epoch, logs=None):
        logs["figure"] = self.VALUES[epoch]
        logs["steady"] = 1.0


class Countdown(keras.callbacks.Callback):
    """Somebody's own: from its third epoch on, it halves the rate of the scales."""

    def on_train_begin(self, logs=None):
        self.seen = np.zeros(())
        of_scales(self.model).learning_rate = 0.1

    def on_epoch_end(self, epoch, logs=None):
        self.seen = self.seen + 1
        if self.seen > 2:
            optimizer = of_scales(self.model)
            optimizer.learning_rate = optimizer.learning_rate.numpy() / 2

    def get_state(self):
        return {"seen": self.seen, "more": [None, {"text": "a"}]}

    def set_state(self, state):
        assert state["more"] == [None, {"text": "a"}]
        self.seen = state["seen"]


def of_scales(model):
    return model.optimizer.groups["scale"]


MONITOR = {"monitor": "figure", "mode": "min"}
OTHERS = {
    # When the run is killed, one group waits for its second epoch, and one cools down.
    "group_plateau": lambda: tfvn.callbacks.GroupReduceLROnPlateau(
        {"mean": "figure", "scale": "steady"}, patience=2, cooldown=2, mode="min"
    ),
    "plateau": lambda: keras.callbacks.ReduceLROnPlateau(patience=3, **MONITOR),
    "early_stopping": lambda: keras.callbacks.EarlyStopping(
        patience=3, restore_best_weights=True, **MONITOR
    ),
    "turns": lambda: tfvn.callbacks.AlternateGroups({"mean": 1, "scale": 2}),
    "own": Countdown,
}


class Kill(keras.callbacks.Callback):
    """Ends a run when an epoch begins, or when training ends."""

    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.epoch:
            raise KeyboardInterrupt

    def on_train_end(self, logs=None):
        if self.epoch == "end":
            raise KeyboardInterrupt


def run(folder, data, other, backup_first, kill=None, make=None, **kwargs):
    """Returns the model and the history of a run, which may be killed."""
    model = (make or make_model)()
    model.run_eagerly = True
    backup = tfvn.callbacks.BackupAndRestore(folder)
    callbacks = (
        [backup, Report(), other()] if backup_first else [Report(), other(), backup]
    )
    history = None
    if kill is None:
        history = model.fit(
            *data, batch_size=16, epochs=7, callbacks=callbacks, verbose=0, **kwargs
        )
    else:
        with pytest.raises(KeyboardInterrupt):
            model.fit(
                *data,
                batch_size=16,
                epochs=7,
                callbacks=[Kill(kill), *callbacks],
                verbose=0,
                **kwargs,
            )
    return model, history
