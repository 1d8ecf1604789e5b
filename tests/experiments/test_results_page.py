"""The page of results is what the JSON files say."""

import json
import pathlib
import runpy

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "results.py"))
RESULT = {
    "experiment": "toy",
    "paper": "Nobody (2000)",
    "claim": "One is one.",
    "notes": "Nothing differs.",
    "form": "default",
    "settings": {"seeds": 1, "batch_size": 9},
    "seeds": [0],
    "versions": {"tfvn": "1.0"},
    "machine": "2 CPU cores",
    "seconds": 90.0,
    "pieces": [],
    "table": {"header": ["", "P(|w| < 1)"], "rows": [["a", "0.5"]]},
    "claims": [{"claim": "c", "paper": "p", "ours": "o", "verdict": "reproduced"}],
    "verdict": "reproduced",
    "images": ["line.png"],
}


def test_page_is_written_from_the_files():
    page = (ROOT / "docs" / "RESULTS.md").read_text("utf-8")
    assert TOOL["written"](page, TOOL["render"](TOOL["load"]())) == page, (
        "run `python tools/results.py`"
    )


def test_published_results_are_of_experiments_and_small():
    for file in (ROOT / "docs" / "results").glob("*.json"):
        result = json.loads(file.read_text("utf-8"))
        assert result["experiment"] == file.stem
        assert result["form"] != "quick"
        assert file.stat().st_size < 200_000
        for image in result["images"]:
            assert (file.parent / image).is_file()


def test_a_section_shows_figures_settings_and_seeds():
    text = TOOL["render"]({"toy": RESULT})
    assert "| `toy` | Neklyudov et al. (2019), figure 1 | [reproduced](#toy) |" in text
    assert "| c | p | o | reproduced |" in text
    assert "| a | 0.5 |" in text
    assert "P(\\|w\\| < 1)" in text
    assert "`tfvn reproduce toy --seeds 1`: batch size 9; 1 seed, 1.5 minutes" in text
    assert "![toy: line](results/line.png)" in text
    assert (
        "| `structures` | Nalisnick and Smyth (2018), sections 3 and 5 | not run |"
        in text
    )


def test_a_few_seconds_are_not_zero_minutes():
    text = TOOL["render"]({"toy": {**RESULT, "seconds": 2.0}})
    assert "1 seed, less than 0.1 minutes" in text


def test_a_run_is_added(tmp_path, monkeypatch):
    run, results = tmp_path / "run", tmp_path / "results"
    run.mkdir()
    (run / "line.png").write_bytes(b"image")
    (run / "result.json").write_text(json.dumps(RESULT))
    monkeypatch.setitem(TOOL["add"].__globals__, "RESULTS", results)
    TOOL["add"](run)
    assert (results / "toy.line.png").read_bytes() == b"image"
    assert TOOL["load"]()["toy"]["images"] == ["toy.line.png"]


def test_a_quick_run_is_refused(tmp_path):
    text = json.dumps({**RESULT, "form": "quick"})
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(SystemExit, match="A quick run has no results"):
        TOOL["add"](tmp_path)
