"""Last layers: what they hand on to the dense layer inside, also when they are loaded."""

import json

import keras
import numpy as np
import pytest
from tensorflow_probability import distributions as tfd

import tfvn

X = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
RANDOM = {
    "posterior": "k_tied",
    "prior": tfd.Laplace(0.0, 0.5),
    "estimator": "flipout",
    "kl_method": "monte_carlo",
    "kl_weight": 0.5,
    "bias_posterior": tfvn.posteriors.MeanField(0.2),
    "bias_prior": "normal",
    "seed": 3,
}
PLAIN = {
    "use_bias": False,
    "kernel_initializer": keras.initializers.Constant(0.5),
    "kernel_regularizer": keras.regularizers.L2(0.1),
}
MAKE = {
    "random": lambda: tfvn.layers.NormalHead(2, **RANDOM),
    "random-poisson": lambda: tfvn.layers.LikelihoodHead(2, "poisson", **RANDOM),
    "plain": lambda: tfvn.layers.NormalHead(2, **PLAIN),
    "plain-student_t": lambda: tfvn.layers.LikelihoodHead(
        2, tfvn.likelihoods.StudentT(3.0), name="last", dtype="float64", **PLAIN
    ),
}


def dense_config(head):
    return {k: v for k, v in head.dense.get_config().items() if k != "name"}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
class TestSaving:
    def test_config(self, make):
        head = make()
        config = json.loads(json.dumps(head.get_config()))
        copy = type(head).from_config(config)
        assert copy.get_config() == head.get_config()
        assert (copy.name, copy.dtype) == (head.name, head.dtype)
        assert copy.likelihood == head.likelihood
        assert dense_config(copy) == dense_config(head)

    def test_model(self, make, tmp_path):
        model = tfvn.Sequential([keras.Input((4,)), make()])
        model.save(tmp_path / "model.keras")
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        assert dense_config(loaded.layers[-1]) == dense_config(model.layers[-1])
        np.testing.assert_array_equal(
            *(tfvn.mean_predict(each, X) for each in (model, loaded))
        )


@pytest.mark.parametrize("options", [RANDOM, PLAIN], ids=["random", "plain"])
def test_arguments_reach_the_dense_layer(options):
    config = tfvn.layers.NormalHead(2, **options).dense.get_config()
    dense = tfvn.layers.Dense if "posterior" in options else keras.layers.Dense
    assert config == dense(4, **options, name=config["name"]).get_config()


def test_weight_of_the_kl_that_was_changed_is_saved():
    head = tfvn.layers.NormalHead(1, posterior="mean_field")
    head.dense.kl_weight.assign(0.25)
    copy = type(head).from_config(head.get_config())
    assert float(copy.dense.kl_weight.numpy()) == 0.25
