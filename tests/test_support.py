"""The support tables agree with the code and with the documentation."""

from pathlib import Path

import pytest
from tensorflow_probability import distributions as tfd

import tfvn
from tfvn import estimators, posteriors, priors, support
from tfvn.kernel import KernelSpec

SUPPORT_PAGE = Path(__file__).parent.parent / "docs" / "support.md"
NOISES = ("gaussian", "uniform", "bernoulli")
LAWS = (*NOISES, "correlated gaussian")

POSTERIORS = [
    posteriors.MeanField(),
    posteriors.GaussianDropout(),
    posteriors.KTied(),
    *(posteriors.Variance(noise) for noise in NOISES),
    posteriors.DiagonalNormal(),
    posteriors.MatrixNormal(),
    posteriors.FullNormal(),
]


def describe(posterior):
    return f"{posterior.alias}-{posterior.law}"


class TestRows:
    def test_of_estimators(self):
        assert sorted(support.ESTIMATORS) == estimators.base.registry.aliases

    def test_of_recurrent_estimators(self):
        assert list(support.RECURRENT_ESTIMATORS) == list(support.ESTIMATORS)

    def test_of_priors(self):
        assert sorted(support.PRIORS) == sorted([*priors.aliases(), "any", "none"])

    def test_of_scale_free_priors(self):
        assert set(support.SCALE_FREE_PRIORS) <= set(support.PRIORS)

    def test_every_posterior_is_in_these_tests(self):
        assert {p.alias for p in POSTERIORS} == set(posteriors.base.registry.aliases)
        assert {p.law for p in POSTERIORS} == set(LAWS)

    @pytest.mark.parametrize(
        "table", [support.ESTIMATORS, support.RECURRENT_ESTIMATORS, support.PRIORS]
    )
    def test_every_row_answers_for_every_law(self, table):
        for row, cells in table.items():
            assert set(cells) <= {*LAWS, support.ANY}
            for law in (*LAWS, "a law from elsewhere"):
                assert support.lookup(table, row, law).how

    def test_of_a_distribution(self):
        assert priors.row(tfd.Normal(0.0, 1.0)) == "normal"
        assert priors.row(tfvn.distributions.ZeroMeanNormal(1.0)) == "normal"
        assert priors.row(None) == "none"
        assert priors.row(tfd.Cauchy(0.0, 1.0)) == "any"
        assert priors.row(tfvn.distributions.LogUniform()) == "log_uniform"
        assert priors.row(tfvn.distributions.ARD()) == "ard"


@pytest.mark.parametrize("posterior", POSTERIORS, ids=describe)
class TestLaws:
    def test_default_estimator_is_supported(self, posterior):
        alias = support.default_estimator(posterior.law)
        assert support.lookup(support.ESTIMATORS, alias, posterior.law).supported

    def test_default_recurrent_estimator_is_supported(self, posterior):
        alias = support.default_estimator(posterior.law, recurrent=True)
        table = support.RECURRENT_ESTIMATORS
        assert support.lookup(table, alias, posterior.law).supported
        assert tfvn.layers.LSTM(2, posterior=posterior).estimator.alias == alias

    @pytest.mark.parametrize("row", support.RECURRENT_ESTIMATORS)
    def test_cells_follow_the_table_of_recurrent_estimators(self, posterior, row):
        cell = support.lookup(support.RECURRENT_ESTIMATORS, row, posterior.law)
        for layer_class in (tfvn.layers.LSTM, tfvn.layers.GRUCell):
            if cell.supported:
                layer = layer_class(2, posterior=posterior, estimator=row)
                assert layer.estimator.alias == row
            else:
                with pytest.raises(ValueError, match=cell.how):
                    layer_class(2, posterior=posterior, estimator=row)

    def test_default_prior_is_supported(self, posterior):
        row = priors.row(posterior.default_prior)
        assert support.lookup(support.PRIORS, row, posterior.law).supported

    @pytest.mark.parametrize("row", priors.aliases())
    def test_closed_forms_are_registered(self, posterior, row):
        posterior, spec = posterior.clone(), KernelSpec((3, 2), (1,))
        layer = tfvn.layers.Dense(2, posterior=posterior, prior=None)
        layer.build((None, 3))
        cell = support.lookup(support.PRIORS, row, posterior.law)
        q, p = layer.posterior_distribution(), priors.make(row, spec)
        if cell.supported and cell is not support.MONTE_CARLO:
            # Correlated weights have one KL, others one each.
            shape = (3, 2) if q.event_shape.rank == 0 else ()
            assert tfd.kl_divergence(q, p).shape == shape
        elif not cell.supported:
            with pytest.raises(NotImplementedError):
                tfd.kl_divergence(q, p)

    @pytest.mark.parametrize("row", support.ESTIMATORS)
    def test_layers_follow_the_table_of_estimators(self, posterior, row):
        cell = support.lookup(support.ESTIMATORS, row, posterior.law)
        if cell.supported:
            layer = tfvn.layers.Dense(2, posterior=posterior, estimator=row)
            assert layer.estimator.alias == row
        else:
            with pytest.raises(ValueError, match=cell.how):
                tfvn.layers.Dense(2, posterior=posterior, estimator=row)

    @pytest.mark.parametrize("row", [row for row in support.PRIORS if row != "none"])
    def test_layers_follow_the_table_of_priors(self, posterior, row):
        prior = tfd.Cauchy(0.0, 1.0) if row == "any" else row
        cell = support.lookup(support.PRIORS, row, posterior.law)
        if cell.supported:
            tfvn.layers.Dense(2, posterior=posterior, prior=prior)
        else:
            with pytest.raises(ValueError, match=cell.how):
                tfvn.layers.Dense(2, posterior=posterior, prior=prior)


TABLE = {
    "first": {"gaussian": support.EXACT, support.ANY: support.refused("it can't")},
    "second": {support.ANY: support.MONTE_CARLO},
}


class TestFunctions:
    def test_lookup(self):
        assert support.lookup(TABLE, "first", "gaussian") is support.EXACT
        assert not support.lookup(TABLE, "first", "uniform").supported
        assert support.lookup(TABLE, "second", "new") is support.MONTE_CARLO

    def test_require(self):
        cell = support.require("prior", TABLE, "first", "gaussian")
        assert cell is support.EXACT
        with pytest.raises(
            ValueError,
            match=r"^The prior 'first' does not combine with a uniform posterior, "
            r"because it can't; expected one of \['second'\]. Received: prior='first'$",
        ):
            support.require("prior", TABLE, "first", "uniform")

    def test_default_estimator(self):
        assert support.default_estimator("gaussian") == "local"
        assert support.default_estimator("bernoulli") == "weights"
        assert support.default_estimator("a law from elsewhere") == "weights"
        assert support.default_estimator("gaussian", recurrent=True) == "weights"


@pytest.mark.parametrize("name", ["ESTIMATORS", "RECURRENT_ESTIMATORS", "PRIORS"])
def test_documentation_shows_the_tables(name):
    table = getattr(support, name)
    lines = [f"| | {' | '.join(LAWS)} |", "| --- |" + " --- |" * len(LAWS)]
    for row in table:
        cells = [support.lookup(table, row, law) for law in LAWS]
        texts = [c.how if c.supported else f"raises: {c.how}" for c in cells]
        lines.append(f"| `{row}` | " + " | ".join(texts) + " |")
    assert "\n".join(lines) in SUPPORT_PAGE.read_text()
