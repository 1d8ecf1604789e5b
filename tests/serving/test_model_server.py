"""The real server, where it is installed: `tensorflow_model_server` on the PATH."""

import pathlib
import re
import shutil
import socket
import subprocess
import time

import numpy as np
import pytest
from clients import GrpcClient, RefusedError, RestClient
from conftest import NUM_SAMPLES

BINARY = shutil.which("tensorflow_model_server")

pytestmark = pytest.mark.skipif(BINARY is None, reason="no tensorflow_model_server")

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "serving.md"
(BATCHING,) = re.findall(
    r"```proto\n(max_batch_size.*?)```", PAGE.read_text(), re.DOTALL
)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module", params=["alone", "batching"])
def server(request, export, tmp_path_factory):
    """The addresses of a server of the export."""
    grpc_port, rest_port = free_port(), free_port()
    options = []
    if request.param == "batching":
        parameters = tmp_path_factory.mktemp("server") / "batching.txt"
        parameters.write_text(BATCHING)
        options = ["--enable_batching", f"--batching_parameters_file={parameters}"]
    process = subprocess.Popen(
        [
            BINARY,
            f"--port={grpc_port}",
            f"--rest_api_port={rest_port}",
            "--model_name=irises",
            f"--model_base_path={export.parent}",
            *options,
        ]
    )
    client = RestClient(f"http://127.0.0.1:{rest_port}", "irises", is_row=True)
    try:
        for _ in range(120):
            try:
                client.get("/versions/1")
                break
            except (OSError, RefusedError):
                time.sleep(0.5)
        yield f"127.0.0.1:{grpc_port}", f"http://127.0.0.1:{rest_port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def doors(server):
    grpc_address, rest_address = server
    client = GrpcClient(grpc_address, "irises")
    yield [
        client,
        RestClient(rest_address, "irises", is_row=True),
        RestClient(rest_address, "irises", is_row=False),
    ]
    client.channel.close()


def test_answers_as_the_loader_does(doors, loaded, rows):
    inputs = {"inputs": rows, "seed": np.arange(10, dtype="int32").reshape(5, 2)}
    expected = loaded(inputs, "seeded")
    for client in doors:
        answer = client.predict(inputs, "seeded")
        assert set(answer) == set(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(answer[name], value, atol=1e-5)


def test_fresh_noise(doors, rows):
    for client in doors:
        (first,) = client.predict({"inputs": rows}, "samples").values()
        (second,) = client.predict({"inputs": rows}, "samples").values()
        assert first.shape == (5, NUM_SAMPLES, 3)
        assert not np.any(first == second)


@pytest.mark.parametrize(
    "value", [np.zeros((2, 5)), np.zeros(4), np.full((2, 4), np.nan)], ids=str
)
def test_refusals(doors, value):
    for client in doors:
        with pytest.raises(RefusedError):
            client.predict({"inputs": value.astype("float32")})
