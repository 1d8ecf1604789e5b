"""The workers of a run, as the environment variable `TF_CONFIG` describes them."""

import dataclasses
import json
import os
from typing import Any

# What an error message shows of the variable when something is wrong with it.
_EXAMPLE = (
    '{"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}, '
    '"task": {"type": "worker", "index": 0}}'
)

# The kinds of tasks that train together. TensorFlow counts the chief as the first worker.
_JOBS = ("chief", "worker")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers of a run, the chief first, and which of them this process is.

    Attributes:
        names: Their names: `"chief 0"`, `"worker 0"`, ...
        addresses: Their addresses, `"host:port"`.
        index: The place of this process in both.
    """

    names: tuple[str, ...]
    addresses: tuple[str, ...]
    index: int

    @classmethod
    def from_environment(cls) -> "Cluster":
        """Reads the environment variable `TF_CONFIG`, or raises if it is wrong."""
        text = os.environ.get("TF_CONFIG", "")
        if not text.strip():
            raise ValueError(
                "Set the environment variable `TF_CONFIG` on every worker, for instance "
                f"to {_EXAMPLE}. Received: TF_CONFIG={text!r}"
            )
        try:
            config = json.loads(text)
        except json.JSONDecodeError as error:
            raise _wrong(f"be JSON, but {error}", text) from error
        return cls._from_config(config, text)

    @classmethod
    def _from_config(cls, config: Any, text: str) -> "Cluster":
        parts = config if isinstance(config, dict) else {}
        jobs, task = parts.get("cluster"), parts.get("task")
        if not isinstance(jobs, dict) or not isinstance(task, dict):
            raise _wrong('have the entries "cluster" and "task"', text)
        if not set(jobs) <= {*_JOBS, "evaluator"}:
            # Parameter servers belong to another strategy.
            raise _wrong('list nothing but "chief", "worker" and "evaluator"', text)
        names, addresses = [], []
        for job in _JOBS:
            listed = jobs.get(job, [])
            if not isinstance(listed, list) or not all(map(_is_address, listed)):
                raise _wrong(f'list addresses "host:port" under "{job}"', text)
            names += [f"{job} {index}" for index in range(len(listed))]
            addresses += listed
        if len(set(addresses)) != len(addresses):
            raise _wrong("list each address once", text)
        if len(jobs.get("chief", [])) > 1:
            raise _wrong("list at most one chief", text)
        # TensorFlow, too, takes the index as a string.
        own = f"{task.get('type')} {task.get('index')}"
        if own not in names:
            raise _wrong(
                f'say in "task" which of the workers this is, one of {names}', text
            )
        return cls(tuple(names), tuple(addresses), names.index(own))

    @property
    def is_chief(self) -> bool:
        """Whether this process is the chief, who writes what is written once."""
        return self.index == 0

    def describe(self, index: int) -> str:
        """Returns the name and the address of a worker.

        Args:
            index: Its place among the workers.
        """
        return f"{self.names[index]} at {self.addresses[index]}"


def split_address(address: str) -> tuple[str, int]:
    """Returns the host and the port of an address.

    Args:
        address: `"host:port"`; an IPv6 host is in brackets.
    """
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_address(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    host, _, port = value.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) < 2**16


def _wrong(expected: str, text: str) -> ValueError:
    return ValueError(
        f"The environment variable `TF_CONFIG` must {expected}; for instance "
        f"{_EXAMPLE}. Received: TF_CONFIG={text!r}"
    )
