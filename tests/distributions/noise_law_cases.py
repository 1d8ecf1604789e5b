"""Laws of multiplicative noise, SciPy's of the same, and the priors of a weight."""

import numpy as np
import pytest
from scipy import stats
from tensorflow_probability import distributions as tfd

from tfvn.distributions import (
    ExactHorseshoe,
    GeneralizedHyperbolic,
    ScaleMixture,
    noise_law,
)

COUNT = 20_000


class InverseNakagamiLaw:
    """What SciPy does not have, by its inverse gamma."""

    def __init__(self, m, omega):
        self.square = stats.invgamma(m, scale=m / omega)

    def cdf(self, x):
        return self.square.cdf(np.square(x))

    def pdf(self, x):
        return self.square.pdf(np.square(x)) * 2 * max(x, 0.0)


# Of each law with a density: the law, SciPy's, and the class of its marginal.
LAWS = {
    "gaussian": (noise_law("gaussian"), stats.norm(1, 0.5), ScaleMixture),
    "narrow gaussian": (
        noise_law("gaussian", stddev=0.02),
        stats.norm(1, 0.02),
        ScaleMixture,
    ),
    "wide gaussian": (
        noise_law("gaussian", stddev=2.0),
        stats.norm(1, 2),
        ScaleMixture,
    ),
    "zero-mean gaussian": (
        noise_law("gaussian", mean=0.0, stddev=1.5),
        stats.norm(0, 1.5),
        GeneralizedHyperbolic,
    ),
    "rayleigh": (
        noise_law("rayleigh", scale=1.2),
        stats.rayleigh(scale=1.2),
        tfd.Laplace,
    ),
    "inverse_nakagami": (
        noise_law("inverse_nakagami", concentration=1.5, spread=0.8),
        InverseNakagamiLaw(1.5, 0.8),
        tfd.StudentT,
    ),
    "half_cauchy": (
        noise_law("half_cauchy", scale=0.6),
        stats.halfcauchy(scale=0.6),
        ExactHorseshoe,
    ),
    "gamma": (tfd.Gamma(2.0, 3.0), stats.gamma(2, scale=1 / 3), ScaleMixture),
    "uniform": (tfd.Uniform(0.0, 2.0), stats.uniform(0, 2), ScaleMixture),
}
with_each_law = pytest.mark.parametrize("name", LAWS)
