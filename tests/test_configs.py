"""Configs hold every argument: a copy that lost one would equal another that lost it."""

import inspect
import json

import keras
import pytest

import tfvn
from tfvn import likelihoods, posteriors
from tfvn.training import learning_rates, optimizers, schedules

NAMED = {"name": "mine", "dtype": "float64"}
# As in Keras, the config of a loss does not have its type.
LOSS = {"name": "mine", "reduction": "sum"}
CLASSES = {**NAMED, "from_logits": True}
MOMENTS = {"learning_rate": 0.25, "beta_1": 0.5, "beta_2": 0.75, "epsilon": 0.125}

# Every argument of the constructor, with a value that is not the default.
ARGUMENTS = {
    posteriors.Variance: {"noise": "uniform"},
    posteriors.KTied: {"rank": 3},
    **{
        cls: {
            "prior_precision": 2.0,
            "log_marginal_likelihood": -3.0,
            "noise_scale": 0.5,
        }
        for cls in (
            posteriors.DiagonalNormal,
            posteriors.FullNormal,
            posteriors.MatrixNormal,
        )
    },
    posteriors.GaussianDropout: {
        "alpha": "neuron",
        "parameterization": "multiplicative",
        "initial_log_alpha": -1.5,
    },
    likelihoods.Normal: {"scale": 0.5},
    likelihoods.Laplace: {"scale": 0.5},
    likelihoods.StudentT: {"df": 3.0, "scale": 0.5},
    likelihoods.LogNormal: {"scale": 0.5},
    schedules.Constant: {"weight": 0.5},
    schedules.LinearAnnealing: {
        "start": 0.25,
        "end": 2.0,
        "steps": None,
        "epochs": 7,
        "per_batch": None,
        "every": 3,
    },
    schedules.CyclicalAnnealing: {
        "cycle_steps": 9,
        "start": 0.25,
        "end": 2.0,
        "rising": 0.75,
        "cycles": 3,
    },
    schedules.MinibatchReweighting: {"ratio": 0.5, "steps": 7},
    learning_rates.Cyclical: {
        "min_rate": 0.25,
        "max_rate": 0.5,
        "cycle_steps": 9,
        "mode": "exponential",
        "gamma": 0.75,
    },
    learning_rates.WarmUp: {"schedule": 0.5, "warmup_steps": 9, "start": 0.25},
    tfvn.losses.GaussianNLL: {**LOSS, "scale": 0.5},
    tfvn.losses.LaplaceNLL: {**LOSS, "scale": 0.5},
    tfvn.losses.StudentTNLL: {**LOSS, "df": 3.0, "scale": 0.5},
    tfvn.losses.LogNormalNLL: {**LOSS, "scale": 0.5},
    tfvn.losses.PoissonNLL: LOSS,
    optimizers.AdaBound: {
        **MOMENTS,
        "final_learning_rate": 0.75,
        "gamma": 0.5,
        "amsbound": True,
        "base_learning_rate": 0.125,
    },
    optimizers.RAdam: MOMENTS,
    optimizers.YellowFin: {
        "learning_rate": 0.5,
        "momentum": 0.25,
        "beta": 0.75,
        "curvature_window": 7,
    },
    tfvn.metrics.AURC: CLASSES,
    tfvn.metrics.BrierScore: CLASSES,
    tfvn.metrics.EnsembleAccuracy: CLASSES,
    tfvn.metrics.EnsembleNLL: CLASSES,
    tfvn.metrics.MutualInformation: CLASSES,
    tfvn.metrics.PredictiveEntropy: CLASSES,
    tfvn.metrics.ExpectedCalibrationError: {
        **CLASSES,
        "num_bins": 7,
        "binning": "adaptive",
    },
    tfvn.metrics.FPR95: NAMED,
    tfvn.metrics.OODAUROC: NAMED,
    tfvn.metrics.CRPS: NAMED,
    tfvn.metrics.PredictiveNLL: NAMED,
    tfvn.metrics.IntervalCoverage: {**NAMED, "level": 0.75},
    tfvn.metrics.IntervalWidth: {**NAMED, "level": 0.75},
    tfvn.metrics.QuantileCalibrationError: {**NAMED, "num_levels": 7},
}


@pytest.mark.parametrize("cls", ARGUMENTS, ids=lambda cls: cls.__name__)
def test_config_holds_every_argument(cls):
    given = ARGUMENTS[cls]
    parameters = inspect.signature(cls).parameters.values()
    taken = {
        p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    }
    taken -= {"dtype"} if issubclass(cls, keras.losses.Loss) else set()
    assert set(given) == taken
    made = cls(**given)
    copy = cls.from_config(json.loads(json.dumps(made.get_config())))
    for one in (made, copy):
        config = one.get_config()
        assert {name: _plain(config[name]) for name in given} == given


def _plain(value):
    # Metrics save their type as an object.
    return value["config"]["name"] if isinstance(value, dict) else value


def test_every_class_that_is_saved_is_here():
    modules = (tfvn.losses, tfvn.metrics, schedules, learning_rates, optimizers)
    public = {
        getattr(module, name)
        for module in (*modules, likelihoods, posteriors)
        for name in module.__all__
    }
    saved = {
        cls
        for cls in public
        if inspect.isclass(cls)
        and hasattr(cls, "get_config")
        and not inspect.isabstract(cls)
    }
    # Their arguments are objects; other tests have them.
    with_objects = {
        posteriors.MeanField,
        posteriors.Pruned,
        tfvn.losses.NegativeLogLikelihood,
    }
    without_any = {likelihoods.Poisson, likelihoods.Likelihood}
    assert saved == set(ARGUMENTS) | with_objects | without_any


def test_config_of_objects():
    initializer = keras.initializers.RandomUniform(0.25, 0.5, seed=1)
    posterior = posteriors.MeanField(initializer)
    saved = json.loads(json.dumps(posterior.get_config()))
    copy = posteriors.MeanField.from_config(saved).scale_initializer
    assert copy.get_config() == initializer.get_config()
    loss = tfvn.losses.NegativeLogLikelihood(
        likelihoods.StudentT(3.0, 0.5), "sum", "me"
    )
    copy = keras.losses.deserialize(keras.losses.serialize(loss))
    assert (copy.likelihood, copy.reduction, copy.name) == (
        likelihoods.StudentT(3.0, 0.5),
        "sum",
        "me",
    )
