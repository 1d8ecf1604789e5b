"""XLA lowers all steps of all layers for a GPU or a TPU, which this machine need not have.

That a program can be lowered means that each of its ops has a translation for the platform.
It does not say that the program is compiled, run, fast or right there.
"""

import harness
import keras
import pytest
import tensorflow as tf
from lowering import PLATFORM, lower, lower_export, lower_prediction, lower_training
from side_by_side import (
    LAWS,
    NOISE_STRUCTURES,
    OPS,
    compiled,
    estimators_of,
    laws_of,
    priors_of,
)

import tfvn

POSTERIORS = harness.posterior_labels()


def some(cases, representative):
    """Returns cases, of which `make test` takes only one."""
    return [
        pytest.param(
            *case,
            id="-".join(case),
            marks=() if case == representative else pytest.mark.exhaustive,
        )
        for case in cases
    ]


@pytest.mark.parametrize(
    ("op", "posterior"),
    some(
        ((op, posterior) for op in OPS for posterior in POSTERIORS),
        ("Dense", "k_tied/2"),
    ),
)
def test_training_with_every_estimator(op, posterior):
    program = lower_training(estimators_of(op, posterior))
    assert program.startswith("HloModule")
    # It draws noise, by the algorithm that only XLA has.
    assert "rng_three_fry" in program


@pytest.mark.exhaustive
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_training_with_every_prior(posterior):
    assert "rng_three_fry" in lower_training(priors_of(posterior))


@pytest.mark.parametrize(
    "structure", some([(s,) for s in NOISE_STRUCTURES], ("MultiplicativeNoise",))
)
def test_training_with_every_law_of_noise(structure):
    assert "rng" in lower_training(laws_of(structure))


PREDICTED = {
    **{
        f"{op}-{posterior}": lambda op=op, posterior=posterior: estimators_of(
            op, posterior
        )
        for op in OPS
        for posterior in ("variance/gaussian", "k_tied/2")
    },
    "noise": lambda: laws_of("NoisyDense-ard"),
}
ONE = "Dense-k_tied/2"


@pytest.mark.parametrize("case", some([(c,) for c in PREDICTED], (ONE,)))
def test_prediction(case):
    assert "rng" in lower_prediction(PREDICTED[case]())


# TensorFlow draws from a Gamma by rejection, in a loop, which it can't put into the loop over
# rows in a way that XLA has.
BY_REJECTION = ("inverse_nakagami",)
EXPORTED = {
    **PREDICTED,
    "noise": lambda: laws_of("NoisyDense-ard", set(LAWS) - {*BY_REJECTION}),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", EXPORTED)
def test_signatures_of_an_export(case):
    programs = lower_export(EXPORTED[case]())
    assert {"seeded", "samples"} <= set(programs)
    assert "rng" in programs["samples"]


@pytest.mark.exhaustive
def test_signatures_that_cannot_be_lowered():
    """If this fails, `BY_REJECTION` and a sentence of docs/scale.md can go."""
    with pytest.raises(ValueError, match="TensorListScatterIntoExistingList"):
        lower_export(laws_of("NoisyDense-ard", BY_REJECTION))


@pytest.mark.exhaustive
def test_mixed_bfloat16_is_lowered():
    keras.config.set_dtype_policy("mixed_bfloat16")
    program = lower_training(compiled([tfvn.KTiedDense(31)], (37,)))
    assert "bf16[" in program


class Dawsn(keras.layers.Layer):
    """Computes what GPUs have a kernel for, but XLA has no translation of."""

    def call(self, inputs):
        return tf.math.special.dawsn(inputs)


class Python(keras.layers.Layer):
    """Calls Python."""

    def call(self, inputs):
        outputs = tf.py_function(lambda x: x, [inputs], tf.float32)
        return tf.ensure_shape(outputs, inputs.shape)


@pytest.mark.parametrize(("layer", "op"), [(Dawsn, "Dawsn"), (Python, "EagerPyFunc")])
def test_the_check_fails_for_an_op_that_xla_does_not_have(layer, op):
    model = compiled([tfvn.VarianceDense(3), layer()], (4,))
    wanted = f"No registered '{op}' OpKernel for XLA_{PLATFORM}"
    with pytest.raises(ValueError, match=wanted):
        lower_training(model)


def test_the_check_fails_for_a_variable_that_it_was_not_given():
    variable = keras.Variable(1.0)
    with pytest.raises(ValueError, match="resource arguments"):
        lower(lambda x: x * variable, tf.ones(3))
    assert "multiply" in lower(lambda x: x * variable, tf.ones(3), variables=[variable])
