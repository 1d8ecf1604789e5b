"""The verdicts of each experiment, from made-up figures that hold or miss."""

import pytest

from tfvn import experiments
from tfvn.experiments.experiment import Results, Table

VARIANCE = "variance"


def modes(mean_weights=0.1, one_sample=0.98, ensemble=0.993):
    """The accuracies of a network, the same in both modes of batch normalization."""
    figures = {"mean_weights": mean_weights, "one_sample": one_sample}
    figures["ensemble"] = ensemble
    return {"moving": dict(figures), "batch": dict(figures)}


def bounds(elbo):
    bound = {"elbo": elbo, "data_term": elbo, "kl": 0.0}
    return {"moving": bound, "batch": bound}


def parameterizations(elbos=(-4, -17, -31, -600, -230), log_alpha=11.0, **changes):
    means = {"zero-mean": 0.1, "layer": 0.11, "neuron": 0.12, "weight": 0.97}
    means["additive"] = 0.99
    means.update(changes)
    return {
        column: {
            "bound": bounds(float(elbo)),
            "accuracy": modes(mean_weights=means[column]),
            "log_alpha": log_alpha,
        }
        for column, elbo in zip(means, elbos, strict=True)
    }


def variance(gap=0.001, mean_weights=0.1, dense1=7.0, conv1=-3.0, gain=0.01):
    alphas = {"log_alpha_conv1": conv1, "log_alpha_conv2": -2.0}
    alphas |= {"log_alpha_dense1": dense1, "log_alpha_dense2": -4.0}
    ours = {
        "accuracy": modes(mean_weights, ensemble=0.994 - gap),
        "draws": [0.98, 0.982],
        "ensemble_of_all_draws": 0.981 + gain,
        **alphas,
    }
    dropout = {"accuracy": modes(0.994, ensemble=0.994), "draws": [0.99]}
    return {"dropout": dropout, "variance": ours, "zero-mean": ours}


def tanh(conv2=0.993, dense1=0.992, both=0.975, with_beta=(0.992, 0.975)):
    rows = {"deterministic": 0.994, "conv2": conv2, "dense1": dense1}
    rows["conv2 and dense1"] = both
    names = ("dense1, with beta", "conv2 and dense1, with beta")
    rows.update(zip(names, with_beta, strict=True))
    return {name: {"accuracy": modes(ensemble=e)} for name, e in rows.items()}


def noise(bernoulli=0.988, uniform=0.986):
    rows = {"gaussian, local": 0.993, "bernoulli, weights": bernoulli}
    rows["uniform, weights"] = uniform
    return {name: {"accuracy": modes(ensemble=e)} for name, e in rows.items()}


def transition(
    mean_weights=0.1,
    zero_mean=0.992,
    ard=0.1,
    log_alpha=8.0,
    ensemble=0.993,
    student_t=4,
    last=3.5,
):
    names = experiments.get("phase-transition").configurations
    means = dict.fromkeys(names, mean_weights)
    means["ARD, fewer images"] = ard
    epochs = {name: student_t if "Student" in name else 3 for name in names}
    return {
        name: {
            "accuracy": modes(mean_weights=mean, ensemble=ensemble),
            "zero_mean": zero_mean,
            "log_alpha": log_alpha,
            "history": {"log_alpha_dense1": [0.0] * (epochs[name] - 1) + [last]},
        }
        for name, mean in means.items()
    }


def approximation(absolute=0.0094, gradient=0.04, falling=1.0):
    largest = {"absolute": absolute, "relative": 0.03, "gradient": gradient}
    figures = {n: {"largest": e, "log_alpha": -3.5} for n, e in largest.items()}
    return {"grid": {**figures, "share_of_falling_steps": falling}}


def evidence(step=4.6052, part=2.3026, routes=(0.5, 0.67, 0.33), proper=1e-6):
    def figures(growth, near, answers):
        curve = [0.0, 1.0, 1.0 + growth]
        return {
            "decades": [1, 2, 3],
            "evidence": curve,
            "near_zero": [0.0, near],
            "right_tail": [0.0, near],
            "probability_below_one": dict(zip("abc", answers, strict=True)),
        }

    usual = figures(proper, proper, (0.7, 0.7, 0.7))
    return {
        "log-uniform": figures(step, part, routes),
        "Normal": usual,
        "Cauchy": usual,
    }


def family(p=0.2, gaussian="1000.0", nakagami="1.0", bernoulli="inf"):
    growths = {"gaussian": gaussian, "inverse_nakagami": nakagami}
    growths["bernoulli"] = bernoulli
    names = experiments.get("noise-family").configurations
    return {
        name: {
            "p_values": {"variance": 0.3, "weight": p},
            "moments": {"Var[xi^-2]": "inf"},
            "growth": {"E[xi^2] = 0.8": growths.get(name, "100.0")},
        }
        for name in names
    }


def trained(accuracy=0.95, lstm=0.8):
    names = experiments.get("structures").configurations
    return {
        name: {"ensemble": {"accuracy": lstm if "LSTM" in name else accuracy}}
        for name in names
    }


def toy(ensemble=0.99, mean_weights=0.25):
    return {VARIANCE: {"ensemble": ensemble, "mean_weights": mean_weights}}


R, D, C = "reproduced", "in direction", "contradicted"
CASES = [
    ("toy", toy(), [R, R]),
    ("toy", toy(0.95, 0.4), [D, D]),
    ("toy", toy(0.6, 0.9), [C, C]),
    ("lenet5-parameterizations", parameterizations(), [R, R, R, R, R]),
    (
        "lenet5-parameterizations",
        parameterizations((-40, -17, -31, -600, -230), 7.0, neuron=0.4, weight=0.93),
        [D, D, D, D, R],
    ),
    (
        "lenet5-parameterizations",
        parameterizations((-900, -17, -31, -600, -230), 1.0, layer=0.99, weight=0.1),
        [C, C, C, C, R],
    ),
    ("lenet5-variance", variance(), [R, R, R, R]),
    ("lenet5-variance", variance(0.006, 0.4, 3.0, 1.0, 0.001), [D, D, D, D]),
    ("lenet5-variance", variance(0.03, 0.9, -3.0, 1.0, -0.001), [C, C, C, C]),
    ("lenet5-variance", variance(conv1=9.0), [R, R, C, R]),
    ("lenet5-tanh", tanh(), [R, R, R, R]),
    ("lenet5-tanh", tanh(conv2=0.986, both=0.99), [D, D, D, R]),
    ("lenet5-tanh", tanh(conv2=0.9, both=0.995), [C, C, C, D]),
    # Networks that guess do not show that a second variance layer costs something.
    ("lenet5-tanh", tanh(dense1=0.11, both=0.1), [C, C, R, R]),
    ("lenet5-tanh", tanh(with_beta=(0.986, 0.99)), [R, R, D, D]),
    ("lenet5-noise", noise(), [R, R]),
    ("lenet5-noise", noise(0.97, 0.994), [D, C]),
    ("phase-transition", transition(), [R, R, R, R]),
    ("phase-transition", transition(0.4, 0.985, 0.3, student_t=3), [D, D, D, D]),
    ("phase-transition", transition(0.9, 0.2, 0.9, -3.0, student_t=2), [C, C, C, C]),
    ("phase-transition", transition(zero_mean=0.1, ensemble=0.1), [C, C, C, R]),
    # Without a single transition there is nothing to compare.
    ("phase-transition", transition(log_alpha=1.0, last=1.0), [R, R, R, C]),
    ("kl-approximation", approximation(), [R, R]),
    ("kl-approximation", approximation(0.02, falling=0.999), [D, D]),
    ("kl-approximation", approximation(0.2, falling=0.5), [C, C]),
    ("not-bayesian", evidence(), [R, R, R, R]),
    ("not-bayesian", evidence(1.0, 1.0, (0.5, 0.55, 0.5), 5e-3), [D, D, D, D]),
    ("not-bayesian", evidence(0.0, 0.0, (0.5, 0.5, 0.5), 0.1), [C, C, C, C]),
    ("noise-family", family(), [R, R, R, C]),
    ("noise-family", family(1e-5, "1.0", "1000.0", "1.0"), [D, D, C, R]),
    ("structures", trained(), [R]),
    ("structures", trained(lstm=0.7), [D]),
    ("structures", trained(lstm=0.5), [C]),
]


@pytest.mark.parametrize(("name", "figures", "expected"), CASES)
def test_verdicts(name, figures, expected):
    results = Results({c: {0: value} for c, value in figures.items()})
    claims = experiments.get(name).judge(results)
    assert [claim.verdict for claim in claims] == expected


def test_every_experiment_is_judged_here():
    assert {name for name, _, _ in CASES} == set(experiments.names())


@pytest.mark.parametrize("name", experiments.names())
def test_without_figures_nothing_was_run(name):
    claims = experiments.get(name).judge(Results({}))
    assert {claim.verdict for claim in claims} == {"not run"}


@pytest.mark.parametrize("name", experiments.names())
def test_table_has_a_cell_for_each_column(name):
    figures = next(figures for case, figures, _ in CASES if case == name)
    results = Results({c: {0: value} for c, value in figures.items()})
    if name == "toy":
        figures[VARIANCE]["one_sample"] = 0.5
    if name == "noise-family":
        for value in figures.values():
            value["moments"] = dict.fromkeys(("a", "b", "c"), "1.0")
    table = experiments.get(name).table(results)
    assert isinstance(table, Table)
    assert {len(row) for row in table.rows} == {len(table.header)}
