"""What an editor completes and what a type checker refuses, without running the library."""

import runpy
import subprocess
import sys
from pathlib import Path

import jedi
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("user")
    project = jedi.Project(elsewhere, added_sys_path=[str(ROOT)])

    def names(code):
        script = jedi.Script(f"import tfvn\n{code}", project=project)
        return [completion.name for completion in script.complete()]

    return names


class TestEditor:
    @pytest.mark.parametrize(
        ("code", "wanted"),
        [
            ("tfvn.VarianceDense(500, nois", "noise="),
            ("tfvn.VarianceDense(500, activa", "activation="),
            ("tfvn.KTiedLSTM(5, return_seq", "return_sequences="),
            ("tfvn.KTiedLSTM(5, ran", "rank="),
            ("tfvn.NoisyConv2D(4, 3, prior_", "prior_scale="),
            ("tfvn.layers.Dense(5, poster", "posterior="),
            ("tfvn.layers.GRUCell(5, reset_", "reset_after="),
            ("tfvn.VarianceDense(5).kl_div", "kl_divergence"),
            ("tfvn.GaussianDropoutEins", "GaussianDropoutEinsumDense"),
        ],
    )
    def test_completes(self, complete, code, wanted):
        assert wanted in complete(code)

    def test_does_not_offer_what_a_preset_has_fixed(self, complete):
        assert "posterior=" not in complete("tfvn.VarianceDense(500, poster")


USER = """\
import tfvn

tfvn.VarianceDense(500, "relu", noise="uniform", name="first", dtype="float32")
tfvn.VarianceDense(units=5, wrong=1)
tfvn.layers.Dense(5, posteriour="k_tied")
tfvn.MeanFieldLSTM("five")
tfvn.MeanFieldDense(5, posterior="k_tied")
tfvn.KTiedConv2D(4, 3, rank=1).kl_divergence()
tfvn.NoisyDense(5, structure="ard", nois="gaussian")
"""


def test_type_checker(tmp_path):
    (tmp_path / "user.py").write_text(USER)
    # Without the packages that have no types, which is most of the time.
    options = ["--no-site-packages", "--ignore-missing-imports", "--config-file="]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "user.py"],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = run.stdout.splitlines()
    errors = [x for x in lines if x.startswith("user.py:") and " error: " in x]
    found = {int(line.split(":")[1]): line for line in errors}
    assert sorted(found) == [4, 5, 6, 7, 9], run.stdout + run.stderr
    assert 'Unexpected keyword argument "wrong" for "VarianceDense"' in found[4]
    assert 'did you mean "posterior"' in found[5]
    assert '"str"; expected "int"' in found[6]


def test_stub_is_fresh():
    render = runpy.run_path(str(ROOT / "tools" / "stubs.py"))["render"]
    stub = (ROOT / "tfvn" / "layers" / "__init__.pyi").read_text()
    assert stub == render(), "run `make stubs`"
