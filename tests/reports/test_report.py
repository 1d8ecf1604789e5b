"""A report shows the figures that NumPy finds, on a page that a browser can read."""

import re
import sys

import browser
import keras
import numpy as np
import pytest

import tfvn

X, Y = (part[:60] for part in tfvn.datasets.load("digits", split="test"))
SEED = 3


def classifier(units=10, activation="softmax"):
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            tfvn.VarianceDense(8, activation="relu", name="hidden"),
            tfvn.KTiedDense(units, activation=activation, name="last"),
        ],
        name="small",
    )


def make(model, x, y, **options):
    options = {"path": None, "verbose": 0, "num_samples": 4, "seed": SEED, **options}
    return tfvn.report(model, x, y, **options)


def auroc(inside, outside):
    """The share of pairs in which the outside score is larger; ties count half."""
    differences = outside[:, None] - inside[None, :]
    return np.mean((differences > 0) + 0.5 * (differences == 0))


@pytest.fixture(scope="module")
def model():
    return classifier()


@pytest.fixture(scope="module")
def made(model):
    return make(model, X, Y, ood=1 - X, names=("digits", "inverted digits"))


@pytest.fixture(scope="module")
def answer(model):
    return tfvn.ensemble_predict(model, X, 4, seed=SEED)


class TestClasses:
    def test_measures(self, made, answer):
        p, rows = answer.mean.astype("float64"), np.arange(len(Y))
        right = p.argmax(axis=1) == Y
        bins = np.ceil(p.max(axis=1) * 15).astype(int)
        gaps = [
            np.abs(right[bins == b].sum() - p.max(axis=1)[bins == b].sum())
            for b in np.unique(bins)
        ]
        expected = {
            "accuracy": right.mean(),
            "nll": -np.log(p[rows, Y]).mean(),
            "brier_score": np.square(p - np.eye(10)[Y]).sum(axis=1).mean(),
            "calibration_error": np.sum(gaps) / len(Y),
            "entropy": -(p * np.log(p)).sum(axis=1).mean(),
            "mutual_information": answer.mutual_information.mean(),
        }
        found = {name: made.measures[name] for name in expected}
        assert found == pytest.approx(expected, rel=1e-4)

    def test_detection(self, model, made, answer):
        outside = tfvn.ensemble_predict(model, 1 - X, 4, seed=SEED)
        for name in ("entropy", "mutual_information"):
            inside, other = (np.maximum(getattr(a, name), 0) for a in (answer, outside))
            expected = pytest.approx(auroc(inside, other), abs=1e-4)
            assert made.measures[f"ood_auroc_{name}"] == expected

    def test_page_shows_them(self, model, made, answer):
        assert f"{made.measures['accuracy']:.2%}" in made.html
        assert f"{made.measures['ood_auroc_entropy']:.3f}" in made.html
        row = int(answer.entropy.argmax())
        best = int(answer.mean[row].argmax())
        first = re.search("<figcaption>(true .*?)</figcaption>", made.html)[1]
        shown = f"true {Y[row]}<br>predicted {best} ({answer.mean[row][best]:.0%})<br>"
        assert first.startswith(shown)
        assert made.summary.total_kl == tfvn.summary(model).total_kl
        assert "hidden, kernel" in made.html
        assert "last, kernel" in made.html

    def test_one_hot_and_labels(self, model):
        labels = [f"<{digit}>" for digit in range(10)]
        hot = np.eye(10)[Y]
        first, second = (make(model, X[:9], y[:9], labels=labels) for y in (Y, hot))
        assert first.measures == second.measures
        assert "true &lt;" in first.html
        assert "true <" not in first.html

    def test_two_classes_with_one_output(self):
        made = make(classifier(1, "sigmoid"), X, Y % 2)
        assert 0 <= made.measures["accuracy"] <= 1
        assert 0 < made.measures["entropy"] < np.log(2)

    def test_limit_takes_examples_at_random(self, model):
        made = make(model, X, Y, limit=10)
        chosen = np.sort(np.random.default_rng(SEED).choice(60, 10, replace=False))
        answer = tfvn.ensemble_predict(model, X[chosen], 4, seed=SEED)
        right = answer.mean.argmax(axis=1) == Y[chosen]
        assert made.measures["accuracy"] == pytest.approx(right.mean())
        assert "10 examples of data" in made.html


class TestNumbers:
    @pytest.mark.exhaustive
    def test_distributions(self):
        x = np.linspace(-1, 1, 40, dtype="float32")[:, None]
        y = x[:, 0] ** 2
        model = tfvn.Sequential([keras.Input((1,)), tfvn.MeanFieldDense(1)])
        model.compile("adam", tfvn.losses.GaussianNLL(scale=0.5))
        made = make(model, x, y, ood=x + 9)
        answer = tfvn.ensemble_predict(model, x, 4, seed=SEED)
        lower, upper = (bound[:, 0] for bound in answer.interval(0.9))
        expected = {
            "coverage": np.mean((lower <= y) & (y <= upper)),
            "width": np.mean(upper - lower),
            "rmse": np.sqrt(np.mean((answer.mean[:, 0] - y) ** 2)),
            "std": answer.std.mean(),
            "epistemic_std": answer.epistemic_std.mean(),
        }
        found = {name: made.measures[name] for name in expected}
        assert found == pytest.approx(expected, rel=1e-4)
        assert made.measures["ood_auroc_epistemic_std"] == 1
        assert "Coverage of intervals" in made.html
        assert "<th>predicted</th>" in made.html.replace(
            ' style="text-align:right"', ""
        )

    def test_numbers_alone(self):
        model = keras.Sequential([keras.Input((3,)), tfvn.MeanFieldDense(2)])
        x, y = np.eye(3, dtype="float32"), np.ones((3, 2))
        made = make(model, x, y, outputs="regression")
        answer = tfvn.ensemble_predict(model, x, 4, seed=SEED, outputs="regression")
        errors = answer.mean - y
        assert made.measures["mae"] == pytest.approx(np.abs(errors).mean(), rel=1e-4)
        assert made.measures["std"] == pytest.approx(answer.std.mean(), rel=1e-4)
        assert "feature 2" in made.html


class TestPage:
    def test_needs_nothing_else(self, made):
        assert "http" not in made.html
        sources = re.findall('(?:src|srcset|href)="(.{0,22})', made.html)
        assert {source.partition(",")[0] for source in sources} == {
            "data:",
            "data:image/png;base64",
        }
        assert made.html.count("<h1>") == 1

    @pytest.mark.skipif(browser.CHROMIUM is None, reason="there is no chromium")
    @pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
    def test_in_a_browser(self, made, tmp_path, width, dark):
        found = browser.inspect(made.html, tmp_path, width, dark)
        assert found["errors"] == []
        assert found["requests"] == []
        assert found["width"] == width
        # Nothing sticks out, so that nobody scrolls sideways.
        assert found["contentWidth"] == width
        assert found["dark"] == dark
        # Four plots, two histograms of posteriors, twelve examples.
        assert len(found["images"]) == 18
        for image in found["images"]:
            assert image["width"] > 0
            assert image["shown"] > 60
            assert image["colors"] > 3
            assert len(image["alt"]) > 10

    def test_files_and_notebooks(self, model, tmp_path, capsys):
        path = tmp_path / "page.html"
        made = make(model, X[:5], Y[:5], path=path, verbose=1)
        assert path.read_text("utf-8") == made.html
        assert capsys.readouterr().out.splitlines()[-1].startswith(f"Wrote {path} (")
        assert "accuracy" in repr(made)
        assert '<iframe srcdoc="&lt;!doctype html&gt;' in made._repr_html_()

    def test_models_without_random_weights(self):
        layers = [keras.layers.Dropout(0.5), keras.layers.Dense(3, "softmax")]
        model = keras.Sequential([keras.Input((4,)), *layers])
        made = make(model, np.ones((5, 4)), np.zeros(5))
        assert "Posteriors" not in made.html
        assert "No layer has random weights" in made.html


class TestRefusals:
    @pytest.mark.parametrize(
        ("x", "y", "message"),
        [
            (X, Y[:5], "as many targets; .* Received: shapes"),
            (X, Y + 5, "an integer from 0 to 9, .* such as \\[10, 11, 12\\]"),
            (X, Y + 0.5, "an integer from 0 to 9"),
            (X[:, :4], Y, "with examples of shapes"),
            (X[:0], Y[:0], "at least one"),
            (np.array([[1], [1, 2]], object), Y[:2], "several lengths"),
        ],
        ids=["rows", "labels", "floats", "shape", "empty", "ragged"],
    )
    def test_data(self, model, x, y, message):
        with pytest.raises(ValueError, match=message):
            make(model, x, y)

    def test_names_of_some_classes(self, model):
        with pytest.raises(ValueError, match="a name for each of 10 classes"):
            make(model, X[:3], Y[:3], labels=["zero", "one"])

    def test_several_outputs(self):
        inputs = keras.Input((4,))
        outputs = [tfvn.KTiedDense(2, activation="softmax")(inputs) for _ in range(2)]
        model = keras.Model(inputs, outputs)
        with pytest.raises(ValueError, match=r"one output .*Received: a model with 2"):
            make(model, np.ones((3, 4)), np.zeros(3))

    def test_several_answers_for_an_example(self):
        layer = tfvn.KTiedDense(3, activation="sigmoid")
        model = keras.Sequential([keras.Input((4,)), layer])
        with pytest.raises(
            ValueError, match=r"Received: predictions of shape \(3, 3\)"
        ):
            make(model, np.ones((3, 4)), np.zeros((3, 3)))

    def test_no_matplotlib(self, model, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        with pytest.raises(ImportError, match=r'pip install "tfvn\[plots\]"'):
            make(model, X, Y)
