"""Bad input: each is refused in one sentence that says what was received."""

import re

import harness
import keras
import numpy as np
import pytest
from tensorflow_probability import distributions as tfd

import tfvn
from tfvn import support

LAYERS = {
    "Dense": (tfvn.layers.Dense, (3,), (None, 4)),
    "Conv2D": (tfvn.layers.Conv2D, (4, 3), (None, 8, 8, 2)),
}


def refuse(match, call, exception=ValueError):
    """Checks that a call is refused, and the form of the message."""
    with pytest.raises(exception, match=match) as caught:
        call()
    message = str(caught.value)
    assert "Received" in message
    # One sentence, and what was received.
    sentence, _, received = message.partition("Received: ")
    assert re.search(r"[.;] *$", sentence), message
    assert not re.search(r"\.\s+[A-Z]", sentence.strip()), message
    assert received
    return message


@pytest.fixture(params=LAYERS)
def make(request):
    """Makes a generic layer, of each kind in turn."""
    layer_class, arguments, _ = LAYERS[request.param]
    return lambda **kwargs: layer_class(*arguments, **kwargs)


@pytest.fixture(params=LAYERS)
def build(request):
    """Makes a generic layer and builds it, of each kind in turn."""
    layer_class, arguments, input_shape = LAYERS[request.param]

    def run(**kwargs):
        layer_class(*arguments, **kwargs).build(input_shape)

    return run


class TestUnknownAlias:
    @pytest.mark.parametrize("value", ["meanfield", 3, None, ["variance"]])
    def test_posterior(self, make, value):
        message = refuse("Unknown posterior", lambda: make(posterior=value))
        assert "'mean_field'" in message
        assert "'variance'" in message
        assert f"posterior={value!r}" in message

    @pytest.mark.parametrize("value", ["gauss", 0.1, ["normal"], {"scale": 1.0}])
    def test_prior(self, make, value):
        message = refuse("Unknown prior", lambda: make(prior=value))
        for alias in tfvn.priors.aliases():
            assert repr(alias) in message
        assert "`None` for no KL" in message
        assert f"prior={value!r}" in message

    @pytest.mark.parametrize("value", ["locale", 1, ["local"]])
    def test_estimator(self, make, value):
        message = refuse("Unknown estimator", lambda: make(estimator=value))
        for alias in ("local", "mean", "weights"):
            assert repr(alias) in message
        assert f"estimator={value!r}" in message

    def test_estimator_row_that_is_no_estimator(self, make):
        refuse("Unknown estimator", lambda: make(estimator="*"))

    @pytest.mark.parametrize("value", ["exact", None, 1])
    def test_kl_method(self, make, value):
        message = refuse("`kl_method` must be one of", lambda: make(kl_method=value))
        for method in ("auto", "analytic", "monte_carlo"):
            assert repr(method) in message
        assert f"kl_method={value!r}" in message

    @pytest.mark.parametrize("value", ["normal", None, 1.0])
    @pytest.mark.parametrize("layer_class", [tfvn.VarianceDense, tfvn.VarianceConv2D])
    def test_noise(self, layer_class, value):
        message = refuse(
            "`noise` must be one of",
            lambda: (
                layer_class(3, kernel_size=3, noise=value)
                if issubclass(layer_class, tfvn.layers.Conv2D)
                else layer_class(3, noise=value)
            ),
        )
        for noise in ("gaussian", "bernoulli", "uniform"):
            assert repr(noise) in message
        assert f"noise={value!r}" in message

    def test_bias_posterior(self, make):
        refuse("Unknown posterior", lambda: make(bias_posterior="gaussian"))

    def test_bias_prior(self, make):
        refuse("Unknown prior", lambda: make(bias_prior="gaussian"))

    def test_log_uniform_kl(self):
        refuse("`kl` must be one of", lambda: tfvn.distributions.LogUniform(kl="hron"))

    def test_argument(self, make):
        # The sentence is Keras's own.
        with pytest.raises(ValueError, match="estimater"):
            make(estimater="local")


class TestScale:
    @pytest.mark.parametrize("value", [-0.1, 0.0, 0, float("nan")])
    def test_number(self, value):
        refuse(
            "`scale_initializer` must be a positive standard deviation",
            lambda: tfvn.MeanFieldDense(3, scale_initializer=value),
        )

    @pytest.mark.parametrize("value", ["zeros", keras.initializers.Constant(-0.1)])
    def test_initializer(self, value):
        layer = tfvn.MeanFieldDense(3, scale_initializer=value)
        refuse(
            "`scale_initializer` must give positive standard deviations",
            lambda: layer.build((None, 2)),
        )

    @pytest.mark.parametrize("scale", [-1.0, 0.0, [1.0, -1.0, 1.0], float("nan")])
    def test_prior(self, scale):
        layer = tfvn.MeanFieldDense(3, prior=tfd.Normal(0.0, scale))
        refuse("scale of a prior must be positive", lambda: layer.build((None, 2)))

    @pytest.mark.parametrize("value", [-1, -1e-9, float("nan")])
    def test_kl_weight(self, make, value):
        refuse(
            "`kl_weight` must be `None` or a finite number",
            lambda: make(kl_weight=value),
        )

    def test_kl_weight_of_another_type(self, make):
        refuse(
            "`kl_weight` must be `None` or a finite number",
            lambda: make(kl_weight="auto"),
            (ValueError, TypeError),
        )


class TestInputs:
    @pytest.mark.parametrize(
        ("name", "shape", "ndim"),
        [("Dense", (4,), 2), ("Conv2D", (8, 8, 2), 4), ("Conv2D", (2, 4), 4)],
    )
    def test_rank(self, name, shape, ndim):
        layer_class, arguments, _ = LAYERS[name]
        layer = layer_class(*arguments, kl_weight=1.0)
        # The sentence is Keras's own.
        with pytest.raises(ValueError, match=rf"min_ndim={ndim}.*found ndim"):
            layer(np.ones(shape, "float32"))

    @pytest.mark.parametrize("name", LAYERS)
    def test_other_width_than_it_was_built_for(self, name):
        layer_class, arguments, shape = LAYERS[name]
        layer = layer_class(*arguments, kl_weight=1.0)
        layer.build(shape)
        with pytest.raises(ValueError, match=r"expected axis -1 .* value \d"):
            layer(np.ones((1, *shape[1:-1], 7), "float32"))

    def test_undefined_last_dimension(self):
        refuse(
            "last dimension of the inputs to `Dense` must be defined",
            lambda: tfvn.layers.Dense(3).build((None, None)),
        )

    @pytest.mark.parametrize("data_format", ["channels_first", "channels_last"])
    def test_undefined_channels(self, data_format):
        layer = tfvn.layers.Conv2D(3, 3, data_format=data_format)
        refuse(
            "channel dimension of the inputs to `Conv2D` must be defined",
            lambda: layer.build((None, None, None, None)),
        )

    def test_undefined_in_a_model(self):
        with pytest.raises(ValueError, match="must be defined"):
            tfvn.layers.Dense(3)(keras.Input((None,)))

    def test_groups_do_not_divide_the_channels(self):
        layer = tfvn.layers.Conv2D(4, 3, groups=2)
        refuse("divisible by `groups`", lambda: layer.build((None, 8, 8, 3)))

    def test_groups_do_not_divide_the_filters(self):
        with pytest.raises(ValueError, match="divisible by the number of groups"):
            tfvn.layers.Conv2D(3, 3, groups=2)

    def test_window_larger_than_the_inputs(self):
        with pytest.raises(ValueError, match="output size would be zero"):
            tfvn.layers.Conv2D(3, 5).build((None, 4, 4, 1))

    @pytest.mark.parametrize("units", [0, -1, 2.5, None])
    def test_units(self, units):
        with pytest.raises(ValueError, match=r"`units`.*Received: units="):
            tfvn.layers.Dense(units)


def refused_cells():
    """Yields each combination that the tables refuse, as its names."""
    tables = {"prior": support.PRIORS, "estimator": support.ESTIMATORS}
    for kind, table in tables.items():
        for row in table:
            for label in harness.posterior_labels():
                law = harness.law_of(label)
                if not support.lookup(table, row, law).supported:
                    yield kind, row, label


class TestTable:
    def test_refuses_what_the_design_says(self):
        refused = set(refused_cells())
        densities = set(support.PRIORS) - {"none"}
        assert refused == {
            *(("prior", row, "variance/bernoulli") for row in densities),
            ("prior", "ard", "variance/uniform"),
        }

    @pytest.mark.parametrize(("kind", "row", "label"), [*refused_cells()])
    def test_refused_combination(self, make, kind, row, label):
        table = {"prior": support.PRIORS, "estimator": support.ESTIMATORS}[kind]
        law = harness.law_of(label)
        value = harness.make_prior(row) if kind == "prior" else row
        posterior = harness.make_posterior(label)
        message = refuse(
            f"The {kind} '{row}' does not combine with a {law} posterior",
            lambda: make(posterior=posterior, **{kind: value}),
        )
        assert support.lookup(table, row, law).how in message
        offered = [r for r in table if support.lookup(table, r, law).supported]
        assert str([None if r == "none" else r for r in offered]) in message

    def test_refused_bias(self, make):
        refuse(
            "does not combine with a uniform posterior",
            lambda: make(
                bias_posterior=tfvn.posteriors.Variance("uniform"), bias_prior="ard"
            ),
        )

    def test_preset(self):
        refuse(
            "does not combine with a bernoulli posterior",
            lambda: tfvn.VarianceDense(3, noise="bernoulli", prior="normal"),
        )


class TestPrior:
    @pytest.mark.parametrize("shape", [(5,), (6, 1), (1, 1, 1, 1, 1)])
    def test_does_not_broadcast(self, build, shape):
        message = refuse(
            "must broadcast to the kernel's shape",
            lambda: build(prior=tfd.Normal(np.zeros(shape, "float32"), 1.0)),
        )
        assert f"prior.batch_shape={shape}" in message

    @pytest.mark.parametrize(
        "prior",
        [
            tfd.MultivariateNormalDiag([0.0, 0.0, 0.0]),
            tfd.Independent(tfd.Normal(np.zeros((4, 3), "float32"), 1.0)),
        ],
    )
    def test_event_shape(self, build, prior):
        refuse("over one weight or a batch", lambda: build(prior=prior))

    def test_bias_prior_does_not_broadcast(self, build):
        refuse(
            "must broadcast",
            lambda: build(
                bias_posterior="mean_field",
                bias_prior=tfd.Normal(np.zeros(7, "float32"), 1.0),
            ),
        )

    @pytest.mark.parametrize("shape", [(), (3,), (4, 1), (1, 3), (4, 3)])
    def test_what_broadcasts_is_taken(self, shape):
        prior = tfd.Normal(np.zeros(shape, "float32"), 1.0)
        layer = tfvn.layers.Dense(3, prior=prior, kl_weight=1.0)
        layer.build((None, 4))
        scalar = tfvn.layers.Dense(3, prior=tfd.Normal(0.0, 1.0), kl_weight=1.0)
        scalar.build((None, 4))
        scalar.set_weights(layer.get_weights())
        np.testing.assert_allclose(
            layer.kl_divergence(), scalar.kl_divergence(), rtol=1e-6
        )


class TestKLMethod:
    @pytest.mark.parametrize(
        "options",
        [
            {"prior": tfd.StudentT(3.0, 0.0, 1.0)},
            {"prior": tfd.Cauchy(0.0, 1.0), "posterior": "variance"},
            {
                "prior": "laplace",
                "posterior": tfvn.posteriors.Variance("uniform"),
            },
            {
                "prior": "normal",
                "bias_posterior": "mean_field",
                "bias_prior": tfd.StudentT(3.0, 0.0, 1.0),
            },
        ],
    )
    def test_analytic_without_a_closed_form(self, make, options):
        refuse("no closed form", lambda: make(kl_method="analytic", **options))

    @pytest.mark.parametrize(
        "options",
        [
            {"prior": "ard"},
            {"prior": tfvn.distributions.ARD()},
            {"prior": "normal", "bias_posterior": "mean_field", "bias_prior": "ard"},
        ],
    )
    def test_monte_carlo_without_a_density(self, make, options):
        refuse("no density", lambda: make(kl_method="monte_carlo", **options))


class TestKTied:
    @pytest.mark.parametrize("rank", [0, -1, 1.5, 2.0, "2", True])
    def test_rank_is_no_positive_integer(self, rank):
        refuse(
            "`rank` must be `None` or an integer of at least 1",
            lambda: tfvn.KTiedDense(3, rank=rank),
        )

    @pytest.mark.parametrize(
        ("layer", "shape", "largest"),
        [
            (tfvn.KTiedDense(3, rank=4), (None, 5), 3),
            (tfvn.KTiedDense(5, rank=4), (None, 3), 3),
            (tfvn.KTiedConv2D(8, 2, groups=2, rank=9), (None, 4, 4, 4), 8),
            (tfvn.KTiedConv2DTranspose(2, 3, rank=3), (None, 4, 4, 4), 2),
            (tfvn.KTiedDepthwiseConv2D(2, rank=5), (None, 4, 4, 6), 4),
            (tfvn.KTiedEinsumDense("ab,bc->ac", 2, rank=3), (None, 4), 2),
        ],
    )
    def test_rank_is_too_large(self, layer, shape, largest):
        message = refuse(
            f"`rank` must be at most {largest}", lambda: layer.build(shape)
        )
        assert f"Received: rank={layer.posterior.rank}" in message


class TestGaussianDropout:
    @pytest.mark.parametrize("alpha", ["layer", "neuron", "weight"])
    def test_alpha_with_the_additive_form(self, alpha):
        refuse(
            "takes no `alpha`",
            lambda: tfvn.GaussianDropoutDense(
                3, parameterization="additive", alpha=alpha
            ),
        )

    @pytest.mark.parametrize("alpha", ["channel", 3, 0.5])
    def test_unknown_alpha(self, alpha):
        refuse(
            "`alpha` must be one of", lambda: tfvn.GaussianDropoutDense(3, alpha=alpha)
        )

    def test_unknown_parameterization(self):
        refuse(
            "`parameterization` must be one of",
            lambda: tfvn.GaussianDropoutDense(3, parameterization="other"),
        )

    @pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan"), 1e3])
    def test_log_alpha_is_not_finite(self, value):
        message = refuse(
            "`initial_log_alpha` must be a finite number",
            lambda: tfvn.GaussianDropoutConv2D(3, 2, initial_log_alpha=value),
        )
        assert f"Received: initial_log_alpha={value}" in message


class TestEinsumDense:
    @pytest.mark.parametrize("equation", ["ab,b->a", "abc,bc->abc", "...x,x->..."])
    @pytest.mark.parametrize("family", ["Variance", "MeanField", "KTied"])
    def test_no_axis_of_the_output_alone(self, family, equation):
        layer_class = getattr(tfvn, f"{family}EinsumDense")
        message = refuse(
            "must have an axis that only the output has",
            lambda: layer_class(equation, output_shape=(None,)),
        )
        assert f"Received: equation={equation!r}" in message

    def test_bias_on_an_axis_of_no_size(self):
        layer = tfvn.MeanFieldEinsumDense("abc,cd->abd", (None, 4), bias_axes="bd")
        refuse(
            "`bias_axes` must name axes of the output that have a defined size",
            lambda: layer.build((None, None, 3)),
        )


class TestWhatATwinHasAndWeDoNot:
    @pytest.mark.parametrize(
        "argument", [{"lora_rank": 2}, {"lora_alpha": 1.0}, {"lora_rank": 0}]
    )
    def test_lora_arguments(self, make, argument):
        (name,) = argument
        refuse(f"does not take `{name}`", lambda: make(**argument))

    def test_enable_lora(self, make):
        with pytest.raises(ValueError, match="does not support LoRA"):
            make().enable_lora(2)

    @pytest.mark.parametrize("built", [False, True])
    @pytest.mark.parametrize("name", LAYERS)
    def test_kernel(self, name, built):
        layer_class, arguments, shape = LAYERS[name]
        layer = layer_class(*arguments)
        if built:
            layer.build(shape)
        with pytest.raises(AttributeError, match=r"see `posterior_distribution\(\)`"):
            _ = layer.kernel
        assert not hasattr(layer, "kernel")

    @pytest.mark.parametrize(
        "ask",
        [
            lambda layer: layer.posterior_distribution(),
            lambda layer: layer.kl_divergence(),
            lambda layer: layer.variable_groups,
        ],
    )
    def test_variables_before_build(self, make, ask):
        refuse("only once it has variables", lambda: ask(make()))

    def test_posterior_of_a_preset(self):
        refuse(
            "`VarianceDense` has a posterior already",
            lambda: tfvn.VarianceDense(3, posterior="mean_field"),
        )

    def test_quantize(self, make):
        layer = make()
        layer.build((None, 8, 8, 2))
        with pytest.raises((NotImplementedError, ValueError), match=r"[Qq]uantiz"):
            layer.quantize("int8")
