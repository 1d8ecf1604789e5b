"""The benchmark of growing layers: what it calculates, that it continues, and that it runs."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def scale(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    # Imported anew, because `--quick` changes the sweeps.
    for name in ("scale", "scale_report"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("scale")


@pytest.fixture
def report(scale):
    return importlib.import_module("scale_report")


def test_bytes_and_time_of_an_all_reduce(report):
    width = 16_384
    point = report.Point(width=width)
    assert report.gradient_bytes(point._replace(layer="keras")) == 4 * width**2
    assert report.gradient_bytes(point) == 4 * (width**2 + 2 * (width + width))
    assert report.gradient_bytes(point._replace(layer="mean_field")) == 8 * width**2
    assert report.all_reduce_seconds(1000, 1, 10.0) == 0.0
    # Of two workers, each sends half of the numbers to be added and half of the sums.
    assert report.all_reduce_seconds(1000, 2, 10.0) == 100.0
    assert report.all_reduce_seconds(1000, 512, 10.0) == pytest.approx(199.6, abs=0.1)


def test_exponent_of_a_power(report):
    assert report.exponent([1, 2, 4], [3.0, 12.0, 48.0]) == pytest.approx(2.0)


def test_a_sweep_changes_one_factor(report):
    base = report.Point()
    points = report.sweep("rank", base)
    assert list(points) == ["k_tied"]
    assert [p.rank for p in points["k_tied"]] == list(report.SWEEPS["rank"][0])
    assert {p._replace(rank=2) for p in points["k_tied"]} == {base}


def test_continues_after_an_interruption(scale, tmp_path, monkeypatch):
    path, measured = tmp_path / "new" / "scale.json", []

    def in_process(point, epochs):
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured.append(point)
        return {"seconds": float(len(measured)), "epochs": epochs}

    monkeypatch.setattr(scale, "in_process", in_process)
    points = [scale.Point(width=1), scale.Point(width=2)]
    with pytest.raises(KeyboardInterrupt):
        scale.measure_all(points, path, rounds=2, epochs=5)
    # Every point once before any twice.
    assert [point.width for point in measured] == [1, 2, 1]
    assert len(json.loads(path.read_text())[str(points[0])]) == 2
    measured[:] = []
    results = scale.measure_all(points, path, rounds=2, epochs=5)
    assert [point.width for point in measured] == [2]
    assert results == json.loads(path.read_text())
    assert [len(record) for record in results.values()] == [2, 2]


def test_tables_and_plot(report, tmp_path, capsys):
    base = report.Point()
    results = {}
    for factor in report.SWEEPS:
        for layer, points in report.sweep(factor, base).items():
            for point in points:
                # Time grows as the square of the width, memory as the width.
                cost = (2.0 if layer == "mean_field" else 1.0) * point.width**2 * 1e-6
                figures = {"seconds": 2 * cost, "cpu_seconds": cost, "loaded_gib": 1.0}
                figures["peak_gib"] = 1.0 + point.width * 1e-3
                results[str(point)] = [{**figures, "seconds": 5 * cost}, figures]
    figure = tmp_path / "new" / "scale.png"
    report.report_sweeps(results, base, figure)
    report.report_calculation(results, base, 100.0)
    report.report_big(
        results, [base._replace(layer="keras"), base._replace(width=2048)]
    )
    shown = capsys.readouterr().out
    assert figure.stat().st_size > 10_000
    assert "| 0.524, 2.1, 8.39, 33.6 | 2.00 | 2.00 |" in shown
    assert "| 0.512, 1.02, 2.05, 4.1 | 1.00 | 1.00 |" in shown
    # 4096 * 4100 float32 gradients: 67 MB at 12.5 GB/s, of which a ring moves twice 7 / 8.
    assert "| 4,096 | 8 | 0.0672, 0.134 | 0.0094, 0.0188 | 16.8, 33.6 | 2.00 |" in shown
    assert "| 16,384 | 8 | 1.07, 2.15 | 0.15, 0.301 |  |  |" in shown
    assert "| k_tied 2,048 | 3.05 | 1.51 | 8.39 | 4.00 | 4.19 | 4.00 |" in shown


def test_quick_options(scale, tmp_path, monkeypatch, capsys):
    def in_process(point, epochs):
        seconds = float(point.width * epochs)
        figures = dict.fromkeys(("seconds", "cpu_seconds"), seconds)
        return {**figures, "loaded_gib": 1.0, "peak_gib": 1.5}

    monkeypatch.setattr(scale, "in_process", in_process)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["scale.py", "--quick"])
    scale.main()
    shown = capsys.readouterr().out
    assert "| width | mean_field | 8, 16 | 8, 16 | 1.00 | 1.00 |" in shown
    assert "| keras 16 | 1.50 | 1.00 |" in shown
    assert "| 16 | 512 | " in shown
    folder = tmp_path / "results" / "benchmarks"
    assert sorted(path.name for path in folder.iterdir()) == ["scale.json", "scale.png"]


@pytest.mark.exhaustive
def test_runs(tmp_path):
    output, figure = tmp_path / "scale.json", tmp_path / "scale.png"
    command = [sys.executable, ROOT / "benchmarks" / "scale.py", "--quick"]
    command += ["--output", output, "--figure", figure]

    def run():
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout

    shown = run()
    for figures in json.loads(output.read_text()).values():
        (point,) = figures
        assert point["seconds"] > 0
        assert point["peak_gib"] >= point["loaded_gib"] > 0.1
    assert figure.stat().st_size > 10_000
    assert "| width | mean_field | 8, 16 |" in shown
    assert "| k_tied 16 |" in shown
    assert "Calculated, not measured" in shown
    # Nothing is measured twice.
    assert "round 1" in shown
    assert "round 1" not in run()
