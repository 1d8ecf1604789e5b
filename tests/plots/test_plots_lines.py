"""Curves by name."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import tfvn


def test_values_are_drawn_over_epochs(legend):
    ax = tfvn.plots.curves({"a": [3.0, 2.0, 1.0], "b": [4.0, 4.0]}, ylabel="loss")
    assert ax.lines[0].get_xdata().tolist() == [1, 2, 3]
    assert ax.lines[1].get_ydata().tolist() == [4.0, 4.0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("epoch", "loss")
    assert legend(ax) == ["a", "b"]


def test_ticks_of_epochs_are_whole_numbers():
    ax = tfvn.plots.curves({"a": [1.0, 2.0, 3.0]})
    assert all(tick == round(tick) for tick in ax.get_xticks())
    ax = tfvn.plots.curves({"a": ([0.0, 1.0], [1.0, 2.0])})
    assert 0.2 in ax.get_xticks().round(6)


def test_pairs_have_their_own_x():
    curves = {"a": ([0.1, 10.0], [1.0, 2.0])}
    ax = tfvn.plots.curves(curves, xlabel="bound", xscale="log")
    assert ax.lines[0].get_xdata().tolist() == [0.1, 10.0]
    assert ax.get_xscale() == "log"


def test_points_that_are_not_finite_are_left_out():
    ax = tfvn.plots.curves({"a": [np.nan, 2.0, np.inf, 1.0]})
    assert ax.lines[0].get_xdata().tolist() == [2, 4]
    assert ax.lines[0].get_ydata().tolist() == [2.0, 1.0]


def test_a_single_point_is_a_marker():
    assert tfvn.plots.curves({"a": [np.nan, 2.0]}).lines[0].get_marker() == "."


def test_axes_of_the_user():
    axes = plt.subplots()[1]
    assert tfvn.plots.curves({"a": [1.0, 2.0]}, ax=axes) is axes


@pytest.mark.parametrize(
    "curves",
    [
        {},
        [1.0, 2.0],
        {"a": [np.nan]},
        {"a": ([1.0, 2.0], [1.0])},
        {"a": "text"},
        {"a": np.ones((2, 2))},
    ],
)
def test_mistakes(curves):
    with pytest.raises(ValueError, match="Received: "):
        tfvn.plots.curves(curves)


def test_unknown_scale():
    with pytest.raises(ValueError, match="`yscale` must be one of"):
        tfvn.plots.curves({"a": [1.0]}, yscale="square")
