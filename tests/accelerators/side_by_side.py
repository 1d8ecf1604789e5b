"""Models with many layers side by side, so that one trace of a step covers all of them."""

import harness
import keras
import tensorflow as tf

import tfvn
from tfvn import passes, support

# Per linear op: how a layer is made, and the shape of its inputs. No two axes of a kernel
# are alike, and none is as long as the batch, so that a shape tells what a tensor is.
BATCH = 6
OPS = {
    "Dense": (lambda **options: tfvn.layers.Dense(31, **options), (37,)),
    "Conv2D": (lambda **options: tfvn.layers.Conv2D(23, (3, 2), **options), (5, 4, 7)),
    "LSTM": (lambda **options: tfvn.layers.LSTM(5, **options), (4, 11)),
}

NOISE_STRUCTURES = {
    "MultiplicativeNoise": (tfvn.MultiplicativeNoise, (4,)),
    **{
        f"NoisyDense-{structure}": (
            lambda noise, structure=structure: tfvn.NoisyDense(
                3, noise=noise, structure=structure
            ),
            (4,),
        )
        for structure in ("ard", "dropconnect")
    },
    **{
        f"NoisyConv2D-{structure}": (
            lambda noise, structure=structure: tfvn.NoisyConv2D(
                2, 2, noise=noise, structure=structure
            ),
            (4, 5, 2),
        )
        for structure in ("channels", "filters", "channels_and_filters")
    },
    **{
        f"NoisyLSTM-{gates}": (
            lambda noise, gates=gates: tfvn.NoisyLSTM(3, noise=noise, gates=gates),
            (4, 2),
        )
        for gates in ("tied", "untied")
    },
    **{
        f"NoisyResidual-{structure}": (
            lambda noise, structure=structure: tfvn.NoisyResidual(
                keras.layers.Dense(4), noise=noise, structure=structure
            ),
            (4,),
        )
        for structure in ("depth", "ard", "depth_and_ard")
    },
}


def estimators_of(op, posterior):
    """Returns one layer for each estimator that the tables let a posterior have."""
    make, shape = OPS[op]
    law, recurrent = harness.law_of(posterior), op == "LSTM"
    table = support.RECURRENT_ESTIMATORS if recurrent else support.ESTIMATORS
    made = harness.make_posterior(posterior)
    layers = [
        make(posterior=made, estimator=estimator)
        for estimator in table
        if support.lookup(table, estimator, law).supported
        # Nothing is learned from weights that are all zero; Keras warns of it.
        and not (estimator == "mean" and made.zero_mean)
    ]
    return compiled(layers, shape)


def priors_of(posterior):
    """Returns a layer for each prior that a posterior may have, and each of its KLs."""
    make, shape = OPS["Dense"]
    factors = {
        "posterior": [posterior],
        "estimator": ["weights"],
        "prior": list(support.PRIORS),
        "kl_method": ["auto", "monte_carlo"],
    }
    layers = [
        make(
            posterior=harness.make_posterior(posterior),
            estimator=chosen["estimator"],
            prior=harness.make_prior(chosen["prior"]),
            kl_method=chosen["kl_method"],
        )
        for chosen in harness.cross_product(factors, harness.is_supported)
    ]
    return compiled(layers, shape)


LAWS = tuple(tfvn.distributions.noise.noise_aliases())


def laws_of(structure, laws=LAWS):
    """Returns a layer for each law of multiplicative noise."""
    make, shape = NOISE_STRUCTURES[structure]
    return compiled([make(noise=law) for law in laws], shape)


def compiled(layers, shape, **options):
    """Returns a `tfvn.Model` of layers side by side that is ready to be trained."""
    inputs = keras.Input(shape)
    outputs = [keras.layers.Flatten()(layer(inputs)) for layer in layers]
    joined = keras.layers.concatenate(outputs) if len(outputs) > 1 else outputs[0]
    model = tfvn.Model(inputs, keras.layers.Dense(1, dtype="float32")(joined))
    groups = {"mean": "adam", "scale": "sgd"}
    model.compile(**{"optimizer": groups, "loss": "mse", "train_size": 100, **options})
    return model


def batch_of(model):
    """Returns a batch of inputs and of targets."""
    return tf.ones((BATCH, *model.input_shape[1:])), tf.ones((BATCH, 1))


def training_graph(model, is_compiled=False):
    """Returns the concrete function of one training step, as `fit` traces it."""
    model.optimizer.build(model.trainable_variables)
    data = batch_of(model)

    def step(x, y):
        with passes.changed(is_compiled=is_compiled):
            return model.run_train_step((x, y))

    # The first trace makes the variables of metrics.
    return tf.function(step, autograph=False).get_concrete_function(*data)


def prediction_graph(model, num_samples=3):
    """Returns the concrete function of `ensemble_predict`."""
    sampler = tfvn.prediction.sampler.sampler_of(model)
    parts = ("mean", "std")
    x, _ = batch_of(model)
    return sampler.function(x, num_samples, ["regression"], parts)
