"""One style for all plots, which leaves the user's own style alone."""

import itertools
import runpy
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import tfvn
from tfvn.plots import style

ROOT = Path(__file__).parent.parent.parent
FIGURES = runpy.run_path(str(ROOT / "tools" / "gallery.py"))["FIGURES"]
LOGS = {"accuracy_mean": [0.9, 0.5, 0.1], "log_alpha_a": [-3.0, 1.0, 5.0]}

LABELS = [0, 1, 1, 0]
PROBABILITIES = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]


def linear(color):
    """The components of a colour, without the gamma of sRGB."""
    rgb = np.array(mpl.colors.to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def luminance(rgb):
    return rgb @ [0.2126, 0.7152, 0.0722]


# What colour-blind readers see of linear RGB: Machado et al. (2009), severity 1.
SIGHT = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "full": np.eye(3).tolist(),
}


def lab(rgb):
    """The CIELAB coordinates of linear RGB, in which distances are as the eye sees them."""
    to_xyz = [
        [0.4124, 0.3576, 0.1805],
        [0.2126, 0.7152, 0.0722],
        [0.0193, 0.1192, 0.9505],
    ]
    x, y, z = np.cbrt(np.clip(to_xyz @ rgb, 1e-9, None) / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


class TestColours:
    @pytest.mark.parametrize("color", [*style.PALETTE, style.REFERENCE])
    def test_contrast_with_white_and_black(self, color):
        value = luminance(linear(color))
        assert 1.05 / (value + 0.05) > 3.0
        assert (value + 0.05) / 0.05 > 3.0

    @pytest.mark.parametrize("sight", SIGHT)
    def test_colours_differ_for_everybody(self, sight):
        seen = [lab(np.array(SIGHT[sight]) @ linear(color)) for color in style.PALETTE]
        pairs = itertools.combinations(seen, 2)
        assert min(np.linalg.norm(a - b) for a, b in pairs) > 18

    def test_twenty_five_lines_differ_and_neighbours_in_grey_too(self):
        looks = [style.line_style(index) for index in range(25)]
        assert len({str(look) for look in looks}) == 25
        for first, second in itertools.pairwise(looks[:5]):
            assert first["linestyle"] != second["linestyle"]


class TestGivenAxes:
    def test_keep_the_fonts_and_spines_of_the_user(self):
        with mpl.rc_context({"font.size": 17.0, "lines.linewidth": 5.0}):
            _, ax = plt.subplots()
            tfvn.plots.risk_coverage(LABELS, PROBABILITIES, ax=ax)
            assert ax.xaxis.label.get_size() == 17.0
            assert ax.get_legend().get_texts()[0].get_size() == 17.0
            assert ax.lines[0].get_linewidth() == 5.0
            assert ax.spines["top"].get_visible()
            assert ax.lines[0].get_color() == style.PALETTE[0]

    def test_new_figure_has_our_sizes_and_the_colours_of_the_user(self):
        with mpl.rc_context({"font.size": 17.0, "text.color": "red"}):
            ax = tfvn.plots.risk_coverage(LABELS, PROBABILITIES)
        assert ax.xaxis.label.get_size() == 10.0
        assert not ax.spines["top"].get_visible()
        with plt.style.context("dark_background"):
            ax = tfvn.plots.risk_coverage(LABELS, PROBABILITIES)
        assert mpl.colors.same_color(ax.get_facecolor(), "black")
        assert mpl.colors.same_color(
            ax.get_legend().get_texts()[0].get_color(), "white"
        )

    def test_text_has_the_colour_of_the_axes_and_not_of_the_present_style(self):
        with plt.style.context("dark_background"):
            _, axes = plt.subplots(1, 2)
        tfvn.plots.phase_transition(LOGS, axes[0])
        tfvn.plots.one_draw_accuracies([0.98, 0.981], mean_weights=0.1, ax=axes[1])
        texts = [
            *axes[0].get_legend().get_texts(),
            axes[0].child_axes[0].yaxis.label,
            *axes[0].child_axes[0].get_yticklabels(),
            *axes[1].texts,
        ]
        for text in texts:
            assert mpl.colors.same_color(text.get_color(), "white")

    def test_second_plot_keeps_the_legend_of_a_figure_of_ours(self):
        ax = tfvn.plots.risk_coverage(LABELS, PROBABILITIES)
        tfvn.plots.risk_coverage(LABELS, PROBABILITIES, ax=ax)
        assert {text.get_size() for text in ax.get_legend().get_texts()} == {9.0}

    def test_subfigure(self):
        part, _ = plt.figure(layout="constrained").subfigures(1, 2)
        ax = part.subplots()
        assert tfvn.plots.phase_transition(LOGS, ax) is ax


class TestRoom:
    def test_legend_is_put_above_where_data_are_everywhere(self):
        rng = np.random.default_rng(0)
        x, labels = rng.uniform(size=(2000, 2)), rng.integers(3, size=2000)
        ax = tfvn.plots.toy_scatter(x, labels)
        ax.figure.canvas.draw()
        bottom = ax.get_legend().get_window_extent().y0
        assert ax.transData.transform(x)[:, 1].max() < bottom

    def test_legend_above_is_not_wider_than_the_axes(self):
        rng = np.random.default_rng(0)
        _, ax = plt.subplots(figsize=(2.6, 3))
        x = rng.uniform(size=(2000, 2))
        labels = np.array(["a class", "another class"])[rng.integers(2, size=2000)]
        tfvn.plots.toy_scatter(x, labels, ax=ax)
        legend, axes = ax.get_legend().get_window_extent(), ax.get_window_extent()
        assert legend.x1 <= axes.x1


def rendered(figure):
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[::-1].astype(int)


@pytest.mark.parametrize("name", FIGURES)
class TestGallery:
    @pytest.mark.one_in(4)
    def test_nothing_is_cut_off_and_legends_cover_nothing(self, name):
        figure = FIGURES[name]().figure
        rendered(figure)
        drawn = figure.get_tightbbox()  # in inches
        assert min(drawn.x0, drawn.y0) >= 0
        assert drawn.x1 <= figure.get_figwidth()
        assert drawn.y1 <= figure.get_figheight()
        figure.set_layout_engine("none")
        for ax in figure.axes:
            legend = ax.get_legend()
            if legend is None:
                continue
            box = legend.get_window_extent()
            legend.remove()
            pixels = rendered(figure)
            inside = pixels[int(box.y0) : int(box.y1), int(box.x0) : int(box.x1)]
            background = 255 * np.array(ax.get_facecolor())
            assert (inside == background).all()

    def test_is_in_the_documentation(self, name):
        page = (ROOT / "docs" / "plots.md").read_text()
        assert f"`{name}`" in page
        assert f"plots/{name}.png" in page
        assert (ROOT / "docs" / "plots" / f"{name}.png").is_file()


def test_gallery_has_every_plot_and_is_small():
    assert sorted(FIGURES) == tfvn.plots.__all__
    files = list((ROOT / "docs" / "plots").iterdir())
    assert sorted(path.stem for path in files) == tfvn.plots.__all__
    assert sum(path.stat().st_size for path in files) < 600_000


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"tfvn\[plots\]"):
        tfvn.plots.risk_coverage(LABELS, PROBABILITIES)
