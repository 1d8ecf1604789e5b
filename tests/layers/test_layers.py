"""Every public layer through the harness, with every pair of choices."""

import harness
import keras
import pytest
from layer_cases import CASES, FAMILIES, LAYERS, OPS

import tfvn

# One variant of each family.
TYPICAL = ["variance/gaussian", "gaussian_dropout/neuron", "mean_field", "k_tied/2"]


# A training step takes seconds to trace, and every pair has its gradients checked without
# one: of these `make test` takes some, `make test-all` every pair.
REGIME_MARKS = {
    "graph": pytest.mark.one_in(26),
    "jit": pytest.mark.one_in(26),
    "mixed_float16": pytest.mark.one_in(26),
    "mixed_bfloat16": pytest.mark.one_in(26),
}


def pairs(name):
    """Returns combinations that hold every pair of choices.

    What a posterior, a prior and an estimator have to do with each other does not
    depend on the linear op: `Dense` has every pair. Of the others, `Conv2D` has every
    posterior; the rest one variant of each family.
    """
    factors = {
        **harness.table_factors(),
        "geometry": [*CASES[name]["geometry"]],
        "activation": [None, "relu"],
        "regime": [*harness.REGIMES],
    }
    if name != "Dense":
        factors |= {"kl_method": ["auto"], "prior": ["normal", "log_uniform"]}
        factors["activation"] = ["relu"]
    if name == "Conv2D":
        factors["prior"] = ["normal", "laplace", "student_t", "none"]
    elif name != "Dense":
        factors["posterior"] = TYPICAL
        factors["regime"] = ["graph", "mixed_float16"]
    return harness.pairwise(factors, harness.is_supported)


def parameters(generate, marks=REGIME_MARKS, ops=OPS):
    """Returns the combinations of generic layers as parameters of a test."""
    return [
        pytest.param(
            name,
            combination,
            id=f"{name}-{harness.label(combination)}",
            marks=marks.get(combination.get("regime"), ()),
        )
        for name in ops
        for combination in generate(name)
    ]


def arguments_of(name, combination):
    """Returns the arguments of a layer that a combination stands for."""
    return {
        **CASES[name]["arguments"],
        **CASES[name]["geometry"][combination["geometry"]],
        **harness.to_arguments(combination, LAYERS[name]),
        "activation": combination["activation"],
        # Away from zero, where a ReLU of a zero mean has no gradient.
        "bias_initializer": keras.initializers.Constant(0.1),
    }


def test_every_public_layer_has_a_case():
    assert set(LAYERS) == set(CASES)


def test_every_public_layer_is_stochastic():
    for layer_class in LAYERS.values():
        assert issubclass(layer_class, tfvn.layers.StochasticLayer)
        assert issubclass(layer_class, harness.twin_of(layer_class))


@pytest.mark.parametrize(("name", "combination"), parameters(pairs, {}))
def test_pairs_of_choices(name, combination):
    # One call and its gradients, in the precision of the pair's regime.
    regime = combination["regime"]
    if regime.startswith("mixed_"):
        keras.config.set_dtype_policy(regime)
    arguments = arguments_of(name, combination)
    harness.check_gradients(
        harness.Case(LAYERS[name], arguments, CASES[name]["input_shape"])
    )


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("name", "combination"), parameters(pairs, ops=["Dense", "Conv2D"])
)
def test_pairs_of_choices_learn(name, combination):
    case = harness.Case(
        LAYERS[name], arguments_of(name, combination), CASES[name]["input_shape"]
    )
    harness.REGIME_CHECKS[combination["regime"]](case)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "combination"), parameters(pairs, {}))
def test_pairs_of_choices_in_full(name, combination):
    arguments = arguments_of(name, combination)
    harness.run_layer_test(
        LAYERS[name], arguments, CASES[name]["input_shape"], regimes=[]
    )


def regimes():
    """Returns (layer, regime) pairs that hold every pair of op, family and regime.

    The names of a family are those of an op with another posterior, so that no three of
    them can fail where no two do. `make test` takes one in four.
    """
    factors = {
        "family": ["", *FAMILIES],
        "op": [*OPS],
        "regime": [*harness.ALL_REGIMES],
    }
    chosen = harness.pairwise(factors, lambda combination: True)
    # By regime, so that one in a few still has all of them.
    chosen.sort(key=lambda combination: combination["regime"])
    return [(c["family"] + c["op"], c["regime"]) for c in chosen]


@pytest.mark.parametrize("name", CASES)
def test_defaults(name):
    case = CASES[name]
    harness.run_layer_test(
        LAYERS[name], case["arguments"], case["input_shape"], regimes=[]
    )


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "regime"), regimes())
def test_defaults_in_a_regime(name, regime):
    case = CASES[name]
    harness.REGIME_CHECKS[regime](
        harness.Case(LAYERS[name], case["arguments"], case["input_shape"])
    )


@pytest.mark.parametrize("estimator", tfvn.support.ESTIMATORS)
def test_replicas_with_every_estimator(estimator):
    case = CASES["MeanFieldConv2D"]
    arguments = {**case["arguments"], "prior": "normal", "estimator": estimator}
    harness.check_mirrored(
        harness.Case(LAYERS["MeanFieldConv2D"], arguments, case["input_shape"])
    )


class TestPairwise:
    def test_covers_every_valid_pair(self):
        factors = {
            **harness.table_factors(),
            "posterior": TYPICAL,
            "regime": [*harness.REGIMES],
        }
        every = harness.cross_product(factors, harness.is_supported)
        chosen = harness.pairwise(factors, harness.is_supported)
        wanted = {pair for c in every for pair in harness.pairs_of(c)}
        assert {pair for c in chosen for pair in harness.pairs_of(c)} == wanted
        assert len(chosen) < len(every) / 20

    def test_leaves_out_what_the_table_refuses(self):
        chosen = harness.pairwise(harness.table_factors(), harness.is_supported)
        pairs = {(c["posterior"], c["prior"]) for c in chosen}
        assert ("variance/bernoulli", "normal") not in pairs
        assert ("variance/uniform", "ard") not in pairs
        assert ("variance/uniform", "normal") in pairs
