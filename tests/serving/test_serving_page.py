"""docs/serving.md: what it shows is run against the protocol fixture, as far as it goes.

Not run are the lines that start a server with docker, and Kubernetes and Prometheus: their
files are only read as YAML.
"""

import json
import pathlib
import re
import shlex
import shutil
import subprocess
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
import yaml
from clients import RefusedError, RestClient
from google.protobuf import text_format
from protocol_fixture import ProtocolFixture
from tensorflow_serving.config import model_server_config_pb2

import tfvn
from tfvn import cli

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "serving.md").read_text("utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def commands(program):
    """Returns the commands of the page that call a program, each on one line."""
    lines = "".join(blocks("sh")).replace("\\\n", "").splitlines()
    return [line for line in lines if line.startswith(program)]


def model_config():
    (text,) = [block for block in blocks("proto") if block.startswith("model_config")]
    config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    (found,) = config.model_config_list.config
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """What the first program of the page leaves behind, served by two fixtures."""
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("builtins.print", lambda *_: None)
        keras.utils.set_random_seed(1)
        scope = {}
        exec(blocks("python")[0], scope)
        # The second version has learnt for longer, and has other answers.
        scope["model"].fit(scope["x_train"], scope["y_train"], verbose=0)
        base = folder / "saved_models" / "digits"
        tfvn.export_ensemble(scope["model"], base, num_samples=20)
    with ProtocolFixture(base, config=model_config()) as fixture:
        yield types.SimpleNamespace(
            folder=folder, scope=scope, fixture=fixture, base=base
        )


def localized(text, fixture):
    """Returns a text of the page with the addresses of a fixture."""
    text = text.replace("http://localhost:8501", fixture.rest_address)
    text = text.replace("localhost:8501", fixture.rest_address)
    return text.replace("localhost:8500", fixture.grpc_address)


def test_config_file_decides_what_is_served(page):
    config = model_config()
    assert config.base_path == f"/models/{config.name}"
    assert set(page.fixture.models) == {1, 2}
    assert dict(config.version_labels) == {"stable": 1, "canary": 2}
    client = RestClient(page.fixture.rest_address, "digits", is_row=True)
    row = {"inputs": page.scope["x_test"][0].tolist(), "seed": [3, 4]}
    found = {
        where: client._open(
            f"/{where}:predict",
            json.dumps({"signature_name": "seeded", "instances": [row]}).encode(),
        )["predictions"][0]["mean"]
        for where in ("labels/stable", "versions/1", "labels/canary", "versions/2")
    }
    assert found["labels/stable"] == found["versions/1"]
    assert found["labels/canary"] == found["versions/2"]
    assert found["labels/stable"] != found["labels/canary"]
    # An error, and never another version.
    for where, code in (("labels/best", 400), ("versions/3", 404)):
        with pytest.raises(RefusedError) as refusal:
            client._open(f"/{where}:predict", b'{"instances": [[1]]}')
        assert refusal.value.code == code


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
def test_curl(page):
    image, *others = commands("IMAGE=")
    assert not others
    asked = commands("curl")
    assert len(asked) == 9
    script = "\n".join(
        line.replace("curl ", "curl -sSf ", 1) + "\necho" for line in asked
    )
    run = subprocess.run(
        ["bash", "-ec", localized(f"{image}\n{script}", page.fixture)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answers) == 9
    kinds = [next(iter(answer)) for answer in answers]
    assert kinds[:2] == ["model_version_status", "model_spec"]
    assert set(kinds[2:]) == {"predictions", "outputs"}


def test_grpc(page, capsys):
    (block,) = [block for block in blocks("python") if "import grpc" in block]
    block = localized(block, page.fixture)
    choices = re.findall(r"`(request\.model_spec\.version\S* = \S+)`", PAGE)
    assert len(choices) == 2
    for choice in ("", *choices):
        before, name, after = block.partition('request.model_spec.name = "digits"\n')
        exec(f"{before}{name}{choice}\n{after}", {})
        assert capsys.readouterr().out == "(1, 20, 10)\n"
    with pytest.raises(Exception, match="Unrecognized servable version label"):
        exec(f"{before}{name}request.model_spec.version_label = 'x'\n{after}", {})


def test_predict(page, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saved_models").symlink_to(page.folder / "saved_models")
    x = page.scope["x_test"][:3]
    np.save("images.npy", x)
    np.savez("test.npz", x=x, y=np.zeros(3))
    np.savetxt("digits.csv", x.reshape(3, 64), delimiter=",")
    (tmp_path / "scans").mkdir()
    for name, pixels in zip("ab", x, strict=False):
        content = tf.io.encode_png((pixels * 255).astype("uint8")).numpy()
        (tmp_path / "scans" / f"{name}.png").write_bytes(content)
    shown = []
    for line in commands("tfvn predict"):
        assert cli.main(shlex.split(line)[1:]) == 0
        shown.append(capsys.readouterr().out)
    assert len(shown) == 4
    (example,) = re.findall(r"^file   class 1.*$", PAGE, flags=re.MULTILINE)
    assert shown[1].splitlines()[0].split() == example.split()
    assert len((tmp_path / "answer.csv").read_text().splitlines()) == 4
    assert len(json.loads(shown[3])["rows"]) == 3


def test_going_back(page, tmp_path, monkeypatch):
    shutil.copytree(page.folder / "saved_models", tmp_path / "saved_models")
    monkeypatch.chdir(tmp_path)
    (rename,) = commands("mv ")
    base = tmp_path / "saved_models" / "digits"
    with ProtocolFixture(base) as fixture:
        assert set(fixture.models) == {2}
        subprocess.run(shlex.split(rename), check=True)
        fixture.poll()
        assert set(fixture.models) == {1}
    # As the page says, the number is given again.
    assert tfvn.export_ensemble(page.scope["model"], base, 2).name == "2"


def test_monitoring(page, monkeypatch):
    (block,) = [block for block in blocks("python") if "def alerts" in block]
    shown = []
    exec(localized(block, page.fixture), {**page.scope, "print": shown.append})
    unseen, broken = shown
    assert not any(unseen.values())
    assert all(broken.values())


def test_batching_parameters_are_those_of_the_manifest():
    (text,) = [block for block in blocks("proto") if block.startswith("max_batch_size")]
    for line in text.splitlines():
        assert re.fullmatch(r"\w+ \{ value: \d+ \}", line)
    config, *_ = yaml.safe_load_all(blocks("yaml")[0])
    assert config["data"]["batching.txt"] == text


def test_manifests(page):
    manifest, kserve, rules = blocks("yaml")
    config, deployment, service = yaml.safe_load_all(manifest)
    assert [x["kind"] for x in (config, deployment, service)] == [
        "ConfigMap",
        "Deployment",
        "Service",
    ]
    pod = deployment["spec"]["template"]
    wanted = deployment["spec"]["selector"]["matchLabels"]
    assert wanted == pod["metadata"]["labels"] == service["spec"]["selector"]
    (container,) = pod["spec"]["containers"]
    # What the probe asks for is there.
    probe = container["readinessProbe"]["httpGet"]
    client = RestClient(page.fixture.rest_address, "digits", is_row=True)
    assert client._open(probe["path"].removeprefix("/v1/models/digits"))["metadata"]
    ports = [port["containerPort"] for port in container["ports"]]
    assert ports == [port["port"] for port in service["spec"]["ports"]]
    assert probe["port"] in ports
    # Files that the options name are in the config.
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    assert set(mounts) == {volume["name"] for volume in pod["spec"]["volumes"]}
    files = {f"{mounts['config']}/{name}" for name in config["data"]}
    assert files == {x.split("=")[1] for x in container["args"] if "=" in x}
    (volume,) = [v for v in pod["spec"]["volumes"] if v["name"] == "config"]
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    assert yaml.safe_load(kserve)["kind"] == "InferenceService"
    (group,) = yaml.safe_load(rules)["groups"]
    assert [rule["alert"] for rule in group["rules"]] == [
        "SlowAnswers",
        "FailedRequests",
    ]
