"""Ray, Beam and Spark: docs/engines.md, and examples/ray_inference.py and ray_training.py."""

import importlib.util
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import keras
import numpy as np
import pytest
from pyarrow import parquet

import tfvn

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "ray_inference.py"
TRAINING = ROOT / "examples" / "ray_training.py"
PREPARE, ENSEMBLE, *_ = PYTHON = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs" / "engines.md").read_text(), re.DOTALL
)
ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Beside other tests, workers of the lowest priority would get no time.
    "RAY_worker_niceness": "0",
    "SPARK_LOCAL_IP": "127.0.0.1",
}
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="needs Ray, which the extra `ray` installs",
)


def run(*arguments, folder):
    """Runs Python in a folder, and returns what it prints."""
    paths = os.pathsep.join(map(str, (folder, ROOT)))
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def module_of(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def block_of(*patterns):
    """Returns the block of the page in which all patterns occur."""
    (block,) = [
        text
        for text in PYTHON
        if all(re.search(pattern, text, re.MULTILINE) for pattern in patterns)
    ]
    return block


@pytest.fixture(scope="module")
def example():
    return module_of(EXAMPLE)


class TestSeeds:
    IDS = (0, 1, -1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 10**10, 2**63 - 1, -(2**63))

    def test_are_two_integers_of_32_bits_for_each_id(self, example):
        seeds = example.seeds_of(np.arange(5))
        assert seeds.dtype == np.int32
        np.testing.assert_array_equal(seeds, [[0, 0], [1, 0], [2, 0], [3, 0], [4, 0]])
        assert example.seeds_of(np.array([2**32 + 7])).tolist() == [[7, 1]]

    def test_have_all_bits_of_the_id(self, example):
        halves = example.seeds_of(np.array(self.IDS)).astype("int64")
        found = (halves[:, 1] << 32) | (halves[:, 0] & 0xFFFFFFFF)
        assert tuple(found) == self.IDS

    def test_types_of_ids_do_not_matter(self, example):
        for kind in ("int32", "uint32", "int64"):
            ids = np.array([3, 1, 2], kind)[::-1]
            assert example.seeds_of(ids).tolist() == [[2, 0], [1, 0], [3, 0]]


def test_columns_of_lists_become_the_tensors_of_the_signature(example):
    pixels = np.random.default_rng(0).normal(size=(3, example.SIZE**2))
    column = np.empty(3, object)
    column[:] = list(pixels)
    tensors = example.tensors_of({"id": np.array([5, 6, 7]), "pixels": column})
    assert tensors["inputs"].dtype == "float32"
    images = pixels.reshape(3, example.SIZE, example.SIZE, 1).astype("float32")
    np.testing.assert_array_equal(tensors["inputs"], images)
    np.testing.assert_array_equal(tensors["seed"], [[5, 0], [6, 0], [7, 0]])


def test_an_actor_dies_once_in_a_batch_and_only_in_its_share(
    example, monkeypatch, tmp_path
):
    monkeypatch.setattr(example.Ensemble, "__init__", lambda self, path: None)
    monkeypatch.setattr(example.Ensemble, "__call__", lambda self, batch: "answer")
    monkeypatch.setattr(example.os, "_exit", lambda status: deaths.append(status))
    deaths = []
    actor = example.CrashingEnsemble("", str(tmp_path), 0.3)
    batches = [{"id": np.arange(start, start + 10)} for start in range(0, 10_000, 10)]
    for _ in range(2):
        assert {actor(batch) for batch in batches} == {"answer"}
    assert len(deaths) == len(list(tmp_path.iterdir()))
    assert 250 < len(deaths) < 350


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """What the first two blocks of the page leave in a folder."""
    folder = tmp_path_factory.mktemp("engines")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        scope = {}
        exec(PREPARE, scope)
        (folder / "ensemble.py").write_text(ENSEMBLE)
        exec(ENSEMBLE, scope)
        yield types.SimpleNamespace(folder=folder, **scope)


def expected(page, table):
    """Returns what `ensemble_predict` answers for the rows of a table."""
    x = np.stack(table["pixels"].to_numpy()).reshape(-1, 8, 8, 1)
    seeds = np.array([[i % 2**32, i >> 32] for i in table["id"].to_pylist()])
    seeds = seeds.astype("uint32").view("int32")
    return tfvn.ensemble_predict(page.model, x, num_samples=20, seed=seeds)


def test_ensemble_of_the_page_answers_as_ensemble_predict(page):
    table = parquet.read_table(page.folder / "rows" / "1.parquet")
    columns = {name: table[name].to_numpy() for name in table.column_names}
    ensemble = page.Ensemble(str(page.folder / "saved_models/digits/1"))
    answer = ensemble(columns)
    np.testing.assert_array_equal(answer["id"], columns["id"])
    known = expected(page, table)
    np.testing.assert_allclose(answer["entropy"], known.entropy, atol=1e-5)
    # Rows of another batch, in another order.
    few = ensemble({name: column[[7, 3]] for name, column in columns.items()})
    np.testing.assert_allclose(few["entropy"], known.entropy[[7, 3]], atol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", ["ray", "apache_beam", "pyspark"])
def test_engines_answer_as_ensemble_predict(page, engine):
    if importlib.util.find_spec(engine) is None:
        pytest.skip(f"needs {engine}, which is not installed")
    block = block_of(rf"^(import|from) {engine}", "import Ensemble")
    folder = page.folder / engine
    folder.mkdir()
    for name in ("rows", "saved_models", "ensemble.py"):
        (folder / name).symlink_to(page.folder / name)
    (folder / "block.py").write_text(block)
    run("block.py", folder=folder)
    answers = folder / "answers"
    table = parquet.read_table(list(answers.glob("*.parquet"))).sort_by("id")
    rows = parquet.read_table(page.folder / "rows").sort_by("id")
    assert table["id"].to_pylist() == rows["id"].to_pylist()
    known = expected(page, rows)
    np.testing.assert_allclose(table["entropy"].to_numpy(), known.entropy, atol=1e-5)


@needs_ray
@pytest.mark.exhaustive
def test_answers_with_ray_are_the_same_while_actors_die(tmp_path):
    shown = run(EXAMPLE, "--quick", "--crash", "--share", "0.4", folder=tmp_path)
    assert re.search(r"while [1-9]\d* actors died", shown)
    assert "bitwise equal with crashes: yes" in shown
    assert "NO" not in shown


def test_a_worker_kills_itself_once_and_in_its_epoch_only(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(TRAINING.parent)
    example = module_of(TRAINING)
    monkeypatch.setattr(example.os, "kill", lambda pid, number: kills.append(number))
    kills = []
    for crash in (2, None, 2):
        watch = example.Watch(tmp_path, rank=1, crash=crash)
        for epoch in range(1, 5):
            watch.on_epoch_begin(epoch)
            for batch in range(20):
                watch.on_train_batch_end(batch)
    assert kills == [example.signal.SIGKILL]
    assert (tmp_path / "notes.txt").read_text().splitlines() == [
        "worker 1 starts with epoch 2",
        "worker 1 kills itself in epoch 3",
        *["worker 1 starts with epoch 2"] * 2,
    ]


@needs_ray
@pytest.mark.exhaustive
def test_training_of_the_page_saves_a_model_that_has_learned(tmp_path):
    (tmp_path / "block.py").write_text(block_of("TensorflowTrainer"))
    run("block.py", folder=tmp_path)
    model = keras.models.load_model(tmp_path / "training" / "digits.keras")
    _, (x, y) = tfvn.datasets.load("digits")
    assert (model.predict(x, verbose=0).argmax(axis=1) == y).mean() > 0.5
    # It is removed when all workers have finished.
    assert not list((tmp_path / "training" / "backup").iterdir())


@needs_ray
@pytest.mark.exhaustive
def test_training_with_ray_ends_at_the_same_weights_after_crashes(tmp_path):
    shown = run(TRAINING, "--quick", "--crash", folder=tmp_path)
    for rank, epoch in ((0, 2), (1, 3)):
        assert shown.count(f"worker {rank} kills itself in epoch {epoch}\n") == 1
    assert "went on with the epoch of the crash: yes" in shown
    assert "bitwise equal with crashes: yes" in shown
    assert "NO" not in shown
