"""Metrics of predictive distributions against integrals, SciPy and by hand."""

import itertools

import keras
import numpy as np
import pytest
from mpmath import mp
from scipy import integrate, stats

import tfvn
from tfvn import likelihoods, metrics

RNG = np.random.default_rng(0)
ROWS, DRAWS = 3, 4


def answer_of(likelihood, rows=ROWS, draws=DRAWS):
    outputs = 0.5 * RNG.normal(size=(rows, draws, likelihood.parameters))
    return tfvn.PredictiveDistribution.of_draws(likelihood, outputs)


def value(metric, *args, **kwargs):
    metric.update_state(*args, **kwargs)
    return float(metric.result())


class TestCRPS:
    @pytest.mark.parametrize(
        "likelihood",
        [
            likelihoods.Normal(),
            likelihoods.Normal(0.2),
            likelihoods.Laplace(),
            likelihoods.StudentT(4.0),
            likelihoods.LogNormal(),
        ],
        ids=str,
    )
    @pytest.mark.one_in(2)
    def test_against_quadrature(self, likelihood):
        answer = answer_of(likelihood, rows=2)
        y = np.array([0.3, 2.0])
        expected = []
        for row in range(2):
            one = tfvn.PredictiveDistribution.of_draws(
                likelihood, answer.outputs[row : row + 1]
            )
            # One evaluation for all nodes.
            many = tfvn.PredictiveDistribution.of_draws(
                likelihood, np.repeat(one.outputs, 40, axis=0)
            )
            low, high = (float(one.quantile(q)[0, 0]) for q in (1e-9, 1 - 1e-9))
            nodes, weights = np.polynomial.legendre.leggauss(40)
            total = 0.0
            tails = [1e-7, 1e-5, 1e-3, 0.03]
            levels = [*tails, 0.2, 0.5, 0.8, *(1 - np.array(tails))]
            cuts = np.unique([low, *one.quantile(levels)[:, 0, 0], high, y[row]])
            for start, end in itertools.pairwise(cuts):
                x = start + 0.5 * (end - start) * (nodes + 1)
                step = (x >= y[row])[:, None]
                squares = (many.cdf(x) - step) ** 2
                total += 0.5 * (end - start) * float(weights @ squares[:, 0])
            expected.append(total)
        found = value(metrics.CRPS(), y, answer)
        assert found == pytest.approx(np.mean(expected), rel=2e-4)

    def test_one_normal_in_closed_form(self):
        answer = tfvn.PredictiveDistribution.of_draws("normal", [[[1.0, np.log(2.0)]]])
        z = (0.3 - 1.0) / 2.0
        expected = 2.0 * (
            z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - np.pi**-0.5
        )
        assert value(metrics.CRPS(), [0.3], answer) == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize(
        "draws",
        [
            [(1.0, 2.0)],
            [(0.0, 1.0), (0.5, 1.0)],
            [(0.0, 1.0), (0.5, 1.0 + 1e-9), (-2.0, 0.999)],
            [(0.0, 1.0), (0.2, 1e-4), (3.0, 20.0)],
            [(0.0, 1e-3), (40.0, 2e-3)],
        ],
    )
    def test_laplace_mixtures_are_exact(self, draws):
        outputs = [[(location, np.log(scale)) for location, scale in draws]]
        answer = tfvn.PredictiveDistribution.of_draws("laplace", outputs)
        target = 0.3

        def square(x):
            cdf = 0
            for location, scale in draws:
                half = mp.exp(-abs(x - location) / scale) / 2
                cdf += (half if x < location else 1 - half) / len(draws)
            return (cdf - (x >= target)) ** 2

        with mp.workdps(20):
            # Close around each kink, because the scales differ by so much.
            cuts = {target, -900.0, 900.0}
            for (at, _), (_, scale) in itertools.product(draws, draws):
                cuts |= {at + sign * k * scale for sign in (-1, 1) for k in (0, 3, 30)}
            expected = mp.quad(square, sorted(cuts))
        found = value(metrics.CRPS(), [target], answer)
        assert found == pytest.approx(float(expected), rel=1e-6)

    def test_counts(self):
        answer = answer_of(likelihoods.Poisson())
        y = np.array([0.0, 3.0, 8.0])
        rates = np.exp(answer.outputs[..., 0])
        k = np.arange(200)
        cdf = stats.poisson(rates[..., None]).cdf(k).mean(1)
        expected = ((cdf - (k >= y[:, None])) ** 2).sum(-1).mean()
        assert value(metrics.CRPS(), y, answer) == pytest.approx(expected, rel=1e-6)

    def test_large_counts(self, monkeypatch):
        """Far from the targets too, and without as many steps as there are counts."""
        rates = np.array([[2000.0, 3000.0], [1.0, 2.0], [0.1, 900.0], [5.0, 6.0]])
        answer = tfvn.PredictiveDistribution.of_draws(
            "poisson", np.log(rates)[..., None]
        )
        y = np.array([2500.5, 40.0, 0.0, -3.0])
        k = np.arange(-10, 5000)
        cdf = stats.poisson(rates[..., None]).cdf(k).mean(1)
        expected = ((cdf - (k >= y[:, None])) ** 2).sum(-1).mean()
        steps = []
        of_rows = tfvn.likelihoods.Poisson.from_parts
        monkeypatch.setattr(
            tfvn.likelihoods.Poisson,
            "from_parts",
            lambda *args: (steps.append(1), of_rows(*args))[1],
        )
        assert value(metrics.CRPS(), y, answer) == pytest.approx(expected, rel=1e-6)
        assert len(steps) < 500

    def test_draws_are_those_of_a_distribution(self):
        draws, y = RNG.normal(size=(2, 5)), np.array([0.3, -2.0])
        expected = []
        for row, target in zip(draws, y, strict=True):

            def square(x, row=row, target=target):
                return (np.mean(row <= x) - (x >= target)) ** 2

            points = [*row, target]
            expected.append(integrate.quad(square, -5, 5, points=points, limit=200)[0])
        found = value(metrics.CRPS(), y, draws)
        assert found == pytest.approx(np.mean(expected), rel=1e-4)

    def test_many_draws_are_the_mixture(self):
        answer = answer_of(likelihoods.Normal())
        repeated = tfvn.PredictiveDistribution.of_draws(
            "normal", np.tile(answer.outputs, (1, 5_000, 1)), seed=1
        )
        y = np.zeros(ROWS)
        exact = value(metrics.CRPS(), y, answer)
        assert value(metrics.CRPS(), y, repeated.samples) == pytest.approx(
            exact, rel=0.03
        )


class TestIntervals:
    def test_coverage_and_width(self):
        answer = answer_of(likelihoods.Normal(), rows=200)
        y = answer.mean[:, 0] + answer.std[:, 0] * RNG.normal(size=200)
        lower, upper = answer.interval(0.7)
        inside = np.mean((lower[:, 0] <= y) & (y <= upper[:, 0]))
        for prediction in (answer, (lower, upper)):
            found = value(metrics.IntervalCoverage(0.7), y, prediction)
            assert found == pytest.approx(inside)
            found = value(metrics.IntervalWidth(0.7), y, prediction)
            assert found == pytest.approx((upper - lower).mean(), rel=1e-6)
        draws = RNG.normal(size=(200, 30))
        low, high = np.quantile(draws, [0.15, 0.85], axis=1)
        found = value(metrics.IntervalCoverage(0.7), y, draws)
        assert found == pytest.approx(np.mean((low <= y) & (y <= high)))

    def test_honest_intervals_cover_what_they_say(self):
        """Targets drawn from the prediction: within 4 binomial errors."""
        rows = 4_000
        outputs = np.repeat(RNG.normal(size=(1, 3, 2)), rows, axis=0)
        answer = tfvn.PredictiveDistribution.of_draws("normal", outputs, seed=1)
        y = answer.samples[np.arange(rows), RNG.integers(3, size=rows)]
        error = np.sqrt(0.9 * 0.1 / rows)
        assert abs(value(metrics.IntervalCoverage(0.9), y, answer) - 0.9) < 4 * error
        assert value(metrics.QuantileCalibrationError(), y, answer) < 4 * error
        nll = value(metrics.PredictiveNLL(), y, answer)
        assert nll == pytest.approx(-answer.log_prob(y).mean(), rel=1e-6)
        shifted = value(metrics.QuantileCalibrationError(), y + answer.std, answer)
        assert shifted > 0.15

    def test_honest_counts_are_calibrated(self):
        rows = 4_000
        outputs = np.full((rows, 1, 1), np.log(1.5))
        answer = tfvn.PredictiveDistribution.of_draws("poisson", outputs)
        y = RNG.poisson(1.5, size=rows)
        metric = metrics.QuantileCalibrationError()
        assert value(metric, y, answer) < 4 * 0.5 / np.sqrt(rows)

    def test_weights_and_batches(self):
        answer = answer_of(likelihoods.Normal(), rows=4)
        y, weight = np.zeros(4), np.array([1.0, 2.0, 0.0, 5.0])
        expected = np.average(-answer.log_prob(y)[:, 0], weights=weight)
        metric = metrics.PredictiveNLL()
        for rows in (slice(0, 3), slice(3, 4)):
            part = tfvn.PredictiveDistribution.of_draws("normal", answer.outputs[rows])
            metric.update_state(y[rows], part, sample_weight=weight[rows])
        assert float(metric.result()) == pytest.approx(expected, rel=1e-6)
        metric.reset_state()
        assert float(metric.result()) == 0.0

    def test_counts_beyond_float32(self):
        metric = metrics.IntervalCoverage(0.9)
        metric.weight.assign(2.0**24)
        metric.sums.assign([2.0**24])
        bounds = (np.zeros(1), np.ones(1))
        for _ in range(4):
            metric.update_state([2.0], bounds)
        assert float(metric.weight) == 2**24 + 4


@pytest.mark.parametrize(
    "metric",
    [
        metrics.CRPS(name="mine"),
        metrics.PredictiveNLL(),
        metrics.IntervalCoverage(0.8),
        metrics.IntervalWidth(0.8),
        metrics.QuantileCalibrationError(5),
    ],
    ids=lambda metric: type(metric).__name__,
)
class TestAll:
    def test_config(self, metric):
        copy = keras.metrics.deserialize(keras.metrics.serialize(metric))
        assert copy.get_config() == metric.get_config()

    def test_what_is_no_prediction_is_refused(self, metric):
        y = np.zeros(3)
        for wrong in (
            keras.ops.zeros((3, 2)),  # outputs of a pass, not two draws
            np.zeros(3),
            np.zeros((3, 5, 2)),
            [[0.0, 1.0]] * 3,
        ):
            words = "`tfvn.ensemble_predict` returns"
            if isinstance(wrong, np.ndarray) and wrong.ndim == 3 and metric.takes_draws:
                words = r"`y_true` must have the shape \(3, 2\)"
            with pytest.raises(ValueError, match=words):
                metric.update_state(y, wrong)

    @pytest.mark.parametrize(
        "family",
        [
            "poisson",
            pytest.param("normal", marks=pytest.mark.exhaustive),
            pytest.param("laplace", marks=pytest.mark.exhaustive),
        ],
    )
    def test_what_has_no_weight_is_not_looked_at(self, metric, family):
        size = likelihoods.get(family).parameters
        outputs = np.random.default_rng(1).normal(size=(3, 4, size))
        y = np.array([0.0, np.nan, 2.0])
        kept = tfvn.PredictiveDistribution.of_draws(family, outputs[[0, 2]])
        answer = tfvn.PredictiveDistribution.of_draws(family, outputs)
        metric.reset_state()
        expected = value(metric, y[[0, 2]], kept, sample_weight=[1.0, 3.0])
        metric.reset_state()
        found = value(metric, y, answer, sample_weight=[1.0, 0.0, 3.0])
        assert found == pytest.approx(expected, rel=1e-6)
        metric.reset_state()
        assert value(metric, y, answer, sample_weight=np.zeros(3)) == 0.0

    def test_targets_that_are_missing_are_refused(self, metric):
        answer = answer_of(likelihoods.Normal())
        y = np.array([0.0, np.nan, 1.0])
        metric.reset_state()
        if isinstance(metric, metrics.IntervalWidth):  # which looks at no targets
            assert value(metric, y, answer) > 0
            return
        with pytest.raises(
            ValueError, match=r"`y_true` must not contain NaN.*in row 1"
        ):
            metric.update_state(y, answer)
        assert float(metric.weight) == 0.0

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
    def test_weights_that_are_none_are_refused(self, metric, bad):
        answer = answer_of(likelihoods.Normal())
        with pytest.raises(
            ValueError, match=r"`sample_weight` must have finite.*least 0"
        ):
            metric.update_state(np.zeros(3), answer, sample_weight=[1.0, bad, 1.0])

    def test_weights_of_steps(self, metric):
        outputs = np.random.default_rng(1).normal(size=(2, 5, 4, 2))
        answer = tfvn.PredictiveDistribution.of_draws("normal", outputs)
        flat = np.moveaxis(outputs, 1, 2).reshape(8, 5, 2)
        y, weight = np.linspace(-1.0, 1.0, 8), np.arange(8.0)
        metric.reset_state()
        steps = tfvn.PredictiveDistribution.of_draws("normal", flat)
        expected = value(metric, y, steps, sample_weight=weight)
        y, weight = y.reshape(2, 4), weight.reshape(2, 4)
        metric.reset_state()
        found = value(metric, y, answer, sample_weight=weight)
        assert found == pytest.approx(expected, rel=1e-6)
        for shape in ((4,), (1, 4), (2, 3), (8,), (2, 4, 2)):
            with pytest.raises(ValueError, match=r"`sample_weight`.*\(2, 4, 1\).*Rec"):
                metric.update_state(y, answer, sample_weight=np.ones(shape))

    def test_not_in_compile(self, metric):
        model = keras.Sequential([keras.Input((2,)), tfvn.layers.NormalHead(1)])
        model.compile("sgd", tfvn.losses.GaussianNLL(), metrics=[metric])
        with pytest.raises(ValueError, match="does not work in `compile`"):
            model.evaluate(np.zeros((3, 2)), np.zeros(3), verbose=0)


@pytest.mark.parametrize("shape", [(2,), (2, 1), (2, 3), (2, 3, 1)])
def test_shapes_of_weights(shape):
    draws = np.random.default_rng(1).normal(size=(2, 5, 3))
    y, weight = np.zeros((2, 3)), np.arange(np.prod(shape)).reshape(shape)
    each = [
        [value(metrics.CRPS(), [0.0], draws[i : i + 1, :, j]) for j in range(3)]
        for i in range(2)
    ]
    full = np.broadcast_to(weight.reshape(2, -1), (2, 3))
    found = value(metrics.CRPS(), y, draws, sample_weight=weight)
    assert found == pytest.approx(np.average(each, weights=full), rel=1e-5)


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"`level` must be a finite.*level=90"):
        metrics.IntervalCoverage(90)
    with pytest.raises(ValueError, match=r"`num_levels`.*Received: num_levels=0"):
        metrics.QuantileCalibrationError(0)
    with pytest.raises(ValueError, match=r"`num_levels`.*Received: num_levels=2.5"):
        metrics.QuantileCalibrationError(2.5)
