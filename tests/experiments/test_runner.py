"""Running an experiment: pieces that are stored, resumed and judged."""

import dataclasses
import json
from importlib import metadata

import numpy as np
import pytest
import tensorflow as tf

from tfvn.experiments import runner
from tfvn.experiments.experiment import (
    VERDICTS,
    Claim,
    Experiment,
    Results,
    Table,
    judged,
    overall,
)


def make(run, **settings):
    """An experiment that trains nothing."""
    return Experiment(
        name="small",
        paper="Nobody (2000), table 1",
        claim="One is one.",
        data=(),
        minutes=1,
        settings={
            "default": {"seeds": 2, "epochs": 5, **settings},
            "quick": {"epochs": 1, "configurations": ["a"]},
            "full": {"epochs": 100},
        },
        configurations=("a", "b, c"),
        run=run,
        judge=lambda r: [
            Claim("one is one", "1", str(r.mean("a", "one")), "reproduced")
        ],
        table=lambda r: Table(["", "one"], [["a", str(r.mean("a", "one"))]]),
        draw=lambda r, save: None,
    )


def count(piece):
    return {"one": 1.0, "seed": piece.seed, "epochs": piece.settings["epochs"]}


def start(experiment, tmp_path, form="default", **kwargs):
    folder = runner.prepare(experiment, form, output=tmp_path, **kwargs)
    return runner.run(experiment, form, folder, report=lambda line: None)


def test_result_has_everything(tmp_path):
    result = start(make(count), tmp_path)
    assert json.loads((tmp_path / "small" / "result.json").read_text()) == result
    assert set(result) == {
        *("experiment", "paper", "claim", "notes", "form", "settings", "seeds"),
        *("versions", "machine", "seconds", "pieces", "table", "claims", "verdict"),
        "images",
    }
    assert result["settings"] == {"seeds": 2, "epochs": 5}
    assert result["seeds"] == [0, 1]
    assert set(result["versions"]) == {
        *("tfvn", "tensorflow", "keras", "tensorflow-probability", "numpy", "python")
    }
    assert [(p["configuration"], p["seed"]) for p in result["pieces"]] == [
        ("a", 0),
        ("b, c", 0),
        ("a", 1),
        ("b, c", 1),
    ]
    assert result["pieces"][3]["figures"] == {"one": 1.0, "seed": 1, "epochs": 5}
    assert result["claims"][0]["ours"] == "1.0"
    assert result["verdict"] == "reproduced"


@pytest.mark.parametrize(("form", "epochs"), [("quick", 1), ("full", 100)])
def test_forms_have_their_own_settings_and_folders(tmp_path, form, epochs):
    result = start(make(count), tmp_path, form, seeds=1)
    assert (tmp_path / "small" / form / "result.json").is_file()
    assert result["pieces"][0]["figures"]["epochs"] == epochs
    assert len(result["pieces"]) == (1 if form == "quick" else 2)
    # A quick run decides nothing.
    assert result["verdict"] == ("not run" if form == "quick" else "reproduced")


def test_resumed_run_skips_what_has_ended(tmp_path):
    ran = []

    def fail_once(piece):
        ran.append((piece.configuration, piece.seed))
        if len(ran) == 3:
            raise KeyboardInterrupt
        return count(piece)

    experiment = make(fail_once)
    with pytest.raises(KeyboardInterrupt):
        start(experiment, tmp_path)
    with pytest.raises(ValueError, match="must be continued with --resume"):
        start(experiment, tmp_path)
    result = start(experiment, tmp_path, resume=True)
    assert ran == [("a", 0), ("b, c", 0), ("a", 1), ("a", 1), ("b, c", 1)]
    assert len(result["pieces"]) == 4
    # A finished run can be resumed with more seeds, and started anew.
    start(experiment, tmp_path, resume=True, seeds=3)
    assert ran[5:] == [("a", 2), ("b, c", 2)]
    start(experiment, tmp_path, seeds=1)
    assert ran[7:] == [("a", 0), ("b, c", 0)]


def test_other_settings_are_not_mixed(tmp_path):
    start(make(count), tmp_path)
    with pytest.raises(ValueError, match="only with the settings it was started with"):
        start(make(count, epochs=6), tmp_path, resume=True)


def test_resuming_keeps_the_number_of_seeds(tmp_path):
    start(make(count), tmp_path, seeds=3)
    assert start(make(count), tmp_path, resume=True)["seeds"] == [0, 1, 2]


def test_other_versions_are_not_mixed(tmp_path, monkeypatch):
    result = start(make(count), tmp_path, seeds=1)
    monkeypatch.setattr(
        runner, "versions", lambda: {**result["versions"], "keras": "9"}
    )
    with pytest.raises(ValueError, match=r"keras \S+ instead of 9"):
        start(make(count), tmp_path, resume=True, seeds=2)
    assert start(make(count), tmp_path)["versions"]["keras"] == "9"


def test_versions_need_no_installed_distributions(tmp_path, monkeypatch):
    """`tensorflow-cpu` is TensorFlow too."""

    def version(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    assert start(make(count), tmp_path)["versions"]["tensorflow"] == tf.__version__


@pytest.mark.parametrize("content", ["", '{"figures": ', "\0\0\0"])
def test_damaged_piece_is_named_before_anything_runs(tmp_path, content):
    start(make(count), tmp_path)
    piece = tmp_path / "small" / "pieces" / "a-seed1.json"
    piece.write_text(content)
    with pytest.raises(ValueError, match=r"a-seed1.json is damaged.*remove it"):
        runner.prepare(make(count), resume=True, output=tmp_path)
    piece.unlink()
    assert len(start(make(count), tmp_path, resume=True)["pieces"]) == 4


@pytest.mark.parametrize("name", ["settings.json", "result.json"])
def test_damaged_folder_is_named(tmp_path, name):
    start(make(count), tmp_path)
    (tmp_path / "small" / name).write_text("{")
    with pytest.raises(ValueError, match=rf"{name} is damaged.*remove its folder"):
        start(make(count), tmp_path, resume=name == "settings.json")


def test_run_with_more_seeds_is_interrupted_until_it_ends(tmp_path):
    def fail(piece):
        raise KeyboardInterrupt

    start(make(count), tmp_path, seeds=1)
    with pytest.raises(KeyboardInterrupt):
        start(make(fail), tmp_path, resume=True, seeds=2)
    with pytest.raises(ValueError, match="must be continued with --resume"):
        start(make(count), tmp_path, seeds=2)


def test_two_runs_in_a_folder_are_refused(tmp_path):
    with (
        runner.locked(tmp_path / "small"),
        pytest.raises(ValueError, match="is running in it"),
        runner.locked(tmp_path / "small"),
    ):
        raise AssertionError("the second run has started")
    with runner.locked(tmp_path / "small"):
        pass


def test_starting_anew_removes_only_its_own_files(tmp_path):
    start(make(count), tmp_path, "quick")
    start(make(count), tmp_path)
    (tmp_path / "small" / "mine.txt").write_text("notes")
    start(make(count), tmp_path)
    assert (tmp_path / "small" / "mine.txt").is_file()
    assert (tmp_path / "small" / "quick" / "result.json").is_file()


def test_each_piece_starts_from_its_seed(tmp_path):
    experiment = make(lambda piece: {"one": float(np.random.rand())})
    values = [p["figures"]["one"] for p in start(experiment, tmp_path)["pieces"]]
    assert values[0] == values[1] != values[2] == values[3]


def test_figures_without_a_number_are_null(tmp_path):
    strange = {"one": np.float32(0.5), "inf": float("inf"), "list": np.array([np.nan])}
    result = start(make(lambda piece: strange), tmp_path)
    figures = result["pieces"][0]["figures"]
    assert figures == {"one": 0.5, "inf": None, "list": [None]}


def test_images_are_drawn(tmp_path):
    import tfvn

    def draw(results, save):
        save("line", tfvn.plots.curves({"a": results.all("a", "seed")}))

    experiment = dataclasses.replace(make(count), draw=draw)
    assert start(experiment, tmp_path)["images"] == ["line.png"]
    assert (tmp_path / "small" / "line.png").stat().st_size > 1000


def test_closing_table(tmp_path):
    lines = runner.closing_lines(start(make(count), tmp_path))
    assert lines[-2].split() == ["claim", "paper", "ours", "verdict"]
    assert lines[-1].split() == ["one", "is", "one", "1", "1.0", "reproduced"]


@pytest.mark.parametrize("columns", [60, 80, 300])
def test_closing_table_fits_the_terminal(tmp_path, monkeypatch, columns):
    claim = Claim("word " * 30, "word " * 30, "word " * 30, "contradicted")
    experiment = dataclasses.replace(make(count), judge=lambda _: [claim])
    result = start(experiment, tmp_path)
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = runner.closing_lines(result)
    assert 50 <= max(map(len, lines)) <= min(columns, 120)


def test_long_cells_are_broken():
    rows = [["word " * 20, "b", "c", "d"], ["a", "b", "c", "d"]]
    lines = runner._wrapped(rows, (34, 30, 34, 12))
    assert max(len(line[0]) for line in lines) <= 34
    assert lines[-1] == ["a", "b", "c", "d"]
    assert lines[-2] == ["", "", "", ""]


class TestResults:
    results = Results({"a": {0: {"x": {"y": 1.0}}, 1: {"x": {"y": 2.0}}}, "b": {0: {}}})

    def test_mean_over_seeds(self):
        assert self.results.mean("a", "x", "y") == 1.5
        assert self.results.all("a", "x", "y") == [1.0, 2.0]
        assert self.results.first("a", "x", "y") == 1.0

    @pytest.mark.parametrize(
        "keys", [("b", "x", "y"), ("c", "x"), ("a", "x", "y", "z")]
    )
    def test_missing_figures_are_nan(self, keys):
        assert np.isnan(self.results.mean(*keys))
        assert self.results.first(*keys) is None

    def test_a_seed_without_a_number_is_not_left_out(self):
        """A network that diverged has `null` in the file, and must not be forgotten."""
        results = Results({"a": {0: {"x": 1.0}, 1: {"x": None}, 2: {"x": 3.0}}})
        assert np.isnan(results.mean("a", "x"))
        assert results.text(str, "a", "x") == "no number in 1 of 3 seeds"
        assert (
            judged(holds=True, in_direction=True, figures=[results.mean("a", "x")])
            == "not run"
        )

    def test_a_list_has_nan_where_it_has_no_number(self):
        results = Results({"a": {0: {"curve": [1.0, None]}}})
        np.testing.assert_array_equal(results.first("a", "curve"), [1.0, np.nan])


@pytest.mark.parametrize(
    ("holds", "direction", "figures", "verdict"),
    [
        (True, True, [1.0], "reproduced"),
        (False, True, [1.0], "in direction"),
        (False, False, [1.0], "contradicted"),
        (True, True, [1.0, float("nan")], "not run"),
    ],
)
def test_judged(holds, direction, figures, verdict):
    assert judged(holds, direction, figures) == verdict
    assert verdict in VERDICTS


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        (["reproduced", "reproduced"], "reproduced"),
        (["reproduced", "in direction"], "in direction"),
        (["reproduced", "not run"], "not run"),
        (["in direction", "not run"], "not run"),
        (["reproduced", "contradicted", "not run"], "contradicted"),
        (["not run"], "not run"),
        ([], "not run"),
    ],
)
def test_overall(verdicts, worst):
    assert overall(verdicts) == worst
