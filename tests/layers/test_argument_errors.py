"""Arguments that layers refuse, and what Keras's layers have and they have not."""

import harness
import keras
import pytest
from refusals import LAYERS, refuse
from tensorflow_probability import distributions as tfd

import tfvn
from tfvn import support


@pytest.fixture(params=LAYERS)
def make(request):
    """Makes a generic layer, of each kind in turn."""
    layer_class, arguments, _ = LAYERS[request.param]
    return lambda **kwargs: layer_class(*arguments, **kwargs)


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
            "`scale_initializer` must be a finite number greater than 0",
            lambda: tfvn.MeanFieldDense(3, scale_initializer=value),
        )

    @pytest.mark.parametrize("value", ["zeros", keras.initializers.Constant(-0.1)])
    def test_initializer(self, value):
        layer = tfvn.MeanFieldDense(3, scale_initializer=value)
        refuse(
            "`scale_initializer` must return positive standard deviations",
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


class TestGaussianDropout:
    @pytest.mark.parametrize("alpha", ["layer", "neuron", "weight"])
    def test_alpha_with_the_additive_form(self, alpha):
        refuse(
            "instead of an `alpha`",
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
        refuse("must be built before", lambda: ask(make()))

    def test_posterior_of_a_preset(self):
        refuse(
            "`VarianceDense` does not take `posterior`",
            lambda: tfvn.VarianceDense(3, posterior="mean_field"),
        )

    def test_quantize(self, make):
        layer = make()
        layer.build((None, 8, 8, 2))
        with pytest.raises((NotImplementedError, ValueError), match=r"[Qq]uantiz"):
            layer.quantize("int8")
