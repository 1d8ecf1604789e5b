"""Copies of models that analysis returns: compiled as the originals, sharing nothing."""

import keras
import numpy as np
import pytest

import tfvn
from tfvn.analysis.copies import compile_alike

X, Y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")


def own_loss(y_true, y_pred):
    return keras.ops.mean(keras.ops.square(y_true - y_pred), axis=-1)


def model_of(kind):
    if kind is tfvn.Model:
        inputs = keras.Input((4,))
        return tfvn.Model(inputs, tfvn.MeanFieldDense(1)(inputs))
    return kind([keras.Input((4,)), tfvn.MeanFieldDense(1, kl_weight=1e-3)])


class TestCompileAlike:
    def compiled(self, kind, **kwargs):
        model, copy = model_of(kind), model_of(kind)
        model.compile(
            loss=own_loss, metrics=[keras.metrics.MeanSquaredError()], **kwargs
        )
        return model, copy

    def test_keeps_functions_and_renews_what_has_a_state(self):
        for kind in (tfvn.Model, tfvn.Sequential, keras.Sequential):
            model, copy = self.compiled(kind, optimizer=keras.optimizers.Adam(0.25))
            model.fit(X, Y, verbose=0)
            compile_alike(model, copy)
            assert copy.loss is own_loss
            assert copy.optimizer is not model.optimizer
            assert float(copy.optimizer.learning_rate) == 0.25
            assert int(copy.optimizer.iterations) == 0
            copy.fit(X, Y, verbose=0)
            assert int(model.optimizer.iterations) == 1

    def test_keeps_groups_and_what_is_known_about_the_data(self):
        for kind in (tfvn.Model, tfvn.Sequential):
            groups = {"mean": "sgd", "scale": "adam"}
            schedule = tfvn.schedules.Constant(0.5)
            model, copy = self.compiled(kind, optimizer=groups, kl_schedule=schedule)
            model.fit(X, Y, verbose=0, batch_size=4)
            compile_alike(model, copy)
            assert int(copy.training_state.size.numpy()) == len(X)
            assert int(copy.training_state.batches.numpy()) == 2
            kl = float(model.layers[-1].kl_divergence())
            copy.set_weights(model.get_weights())
            results = copy.fit(X, Y, verbose=0).history
            np.testing.assert_allclose(results["kl"], kl, rtol=1e-3)
            np.testing.assert_allclose(results["kl_weight"], 0.5)

    def test_leaves_what_is_not_compiled(self):
        model, copy = model_of(tfvn.Sequential), model_of(tfvn.Sequential)
        compile_alike(model, copy)
        assert not copy.compiled


class OwnStep(tfvn.Model):
    def train_step(self, data):
        return super().train_step(data)


def test_a_train_step_that_the_copy_does_not_have_is_named():
    inputs = keras.Input((4,))
    model = OwnStep(inputs, tfvn.MeanFieldDense(3)(inputs))
    with pytest.warns(UserWarning, match=r"not have the methods \['train_step'\]"):
        tfvn.prune(model, fraction=0.5)
