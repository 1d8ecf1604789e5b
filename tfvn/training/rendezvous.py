"""Waits until all workers of a run have started, without TensorFlow.

TensorFlow waits too, but for ten minutes or more, in a call that neither Ctrl-C nor SIGTERM
ends. A worker opens its port only in that call, so nobody can look beforehand whether the
others are there. So the workers meet here first, on the ports that TensorFlow will use:
the chief listens on its port, each of the others connects and says who it is, and when all
are there, the chief tells them to go on. Then all give their ports back.
"""

import contextlib
import errno
import json
import selectors
import socket
import time
from typing import Any

from tfvn.training.cluster import Cluster, split_address

# For how long one look for the others may take, and one attempt to reach the chief.
_STEP_SECONDS = 0.25
_CONNECT_SECONDS = 2.0

# The longest message, far above the list of the addresses of a cluster.
_LONGEST = 2**20


def wait_for_all(cluster: Cluster, timeout: float) -> None:
    """Returns when all workers have called this function, or raises.

    Python handles signals in the meantime.

    Args:
        cluster: The workers.
        timeout: After how many seconds to give up.
    """
    deadline = time.monotonic() + timeout
    with contextlib.ExitStack() as stack:
        meeting = (_Chief if cluster.is_chief else _Other)(cluster, stack)
        while not meeting.look():
            if meeting.is_over or time.monotonic() >= deadline:
                meeting.end()
                raise TimeoutError(
                    f"Not all workers have started within {timeout:g} seconds; start "
                    "the same program on each of them, and check that they can reach "
                    f"each other. Received: no answer from {meeting.missing_workers()}"
                )


class _Meeting:
    """One worker's part in the meeting.

    Args:
        cluster: The workers.
        stack: What closes the sockets at the end.
    """

    def __init__(self, cluster: Cluster, stack: contextlib.ExitStack):
        self.cluster = cluster
        self.stack = stack
        self.listener: socket.socket | None = None
        self.missing = [i for i in range(len(cluster.names)) if i != cluster.index]
        # Why nothing happened lately, for the error message.
        self.trouble = ""
        # Whether somebody else has given up.
        self.is_over = False

    def look(self) -> bool:
        """Looks for the others for a moment, and returns whether all are there."""
        # Also a worker that nobody connects to takes its port, so that it cannot be
        # started twice, and a port that is in use is found here and not by TensorFlow.
        return (self.listener is not None or self._listen()) and self._look()

    def _look(self) -> bool:
        raise NotImplementedError

    def end(self) -> None:
        """Tells those who are there that this worker gives up."""

    def _listen(self) -> bool:
        own = self.cluster.describe(self.cluster.index)
        try:
            self.listener = _listener(self.cluster.addresses[self.cluster.index])
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ValueError(
                    "A worker must be able to listen on its own port of `TF_CONFIG`, "
                    f"but: {error}. Received: {own}"
                ) from error
            # Maybe a worker of the run before, which is about to end.
            self._rest(f"another process uses the port of {own}, which is this worker")
            return False
        self.listener.settimeout(0)
        self.stack.callback(self.listener.close)
        return True

    def _rest(self, trouble: str) -> None:
        self.trouble = trouble
        time.sleep(_STEP_SECONDS)

    def missing_workers(self) -> str:
        """Returns the names of those that have not answered."""
        names = ", ".join(self.cluster.describe(index) for index in self.missing)
        return f"{names} ({self.trouble})" if self.trouble else names


class _Chief(_Meeting):
    """The part of the worker to which the others connect."""

    def __init__(self, cluster: Cluster, stack: contextlib.ExitStack):
        super().__init__(cluster, stack)
        self.selector = stack.enter_context(selectors.DefaultSelector())
        self.stack.callback(self._close_all)
        self.said: dict[socket.socket, bytes] = {}
        self.workers: dict[int, socket.socket] = {}

    def _listen(self) -> bool:
        if not super()._listen():
            return False
        self.trouble = ""
        self.selector.register(self.listener, selectors.EVENT_READ)  # type: ignore[arg-type]
        return True

    def _look(self) -> bool:
        if self.missing:
            for key, _ in self.selector.select(_STEP_SECONDS):
                if key.fileobj is self.listener:
                    self._accept()
                else:
                    self._read(key.fileobj)
            return False
        for worker in self.workers.values():
            _send(worker, {"go": True})
        # Whoever has gone just now will be missed by TensorFlow, which all the others,
        # who have their message, are about to wait for.
        return True

    def end(self) -> None:
        # They would wait for the chief, whom nobody has to look for.
        for worker in self.workers.values():
            _send(worker, {"over": True})

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it has gone again
            connection, _ = self.listener.accept()  # type: ignore[union-attr]
            connection.settimeout(0)
            self.said[connection] = b""
            self.selector.register(connection, selectors.EVENT_READ)

    def _read(self, connection: Any) -> None:
        try:
            received = connection.recv(4096)
        except OSError:
            received = b""
        said = self.said[connection] + received
        self.said[connection] = said
        if not received or len(said) > _LONGEST:
            self._drop(connection)
        elif said.endswith(b"\n"):
            if connection in self.workers.values():
                # After its introduction a worker says only that it gives up.
                self.is_over = True
            else:
                self._welcome(connection, said)

    def _welcome(self, connection: socket.socket, said: bytes) -> None:
        message = _parsed(said)
        own = _introduction(self.cluster)
        if message.get("cluster") != own["cluster"]:
            # Somebody else, or a worker whose list of workers differs.
            if "cluster" in message:
                _send(connection, {"other": own["cluster"]})
            self._drop(connection)
            return
        index = int(message["index"])
        if index in self.workers:
            # It was started again before anybody noticed that it had ended.
            self._drop(self.workers[index])
        self.workers[index] = connection
        self._tell()

    def _drop(self, connection: socket.socket) -> None:
        del self.said[connection]
        self.selector.unregister(connection)
        connection.close()
        self.workers = {i: c for i, c in self.workers.items() if c is not connection}
        self._tell()

    def _tell(self) -> None:
        """Tells those who are there who is missing."""
        everybody = range(1, len(self.cluster.names))
        self.missing = [index for index in everybody if index not in self.workers]
        for worker in self.workers.values():
            _send(worker, {"missing": self.missing})

    def _close_all(self) -> None:
        for connection in self.said:
            connection.close()


class _Other(_Meeting):
    """The part of a worker that is not the chief."""

    def __init__(self, cluster: Cluster, stack: contextlib.ExitStack):
        super().__init__(cluster, stack)
        self.connection: socket.socket | None = None
        self.stack.callback(self._close)
        self.heard = b""

    def _look(self) -> bool:
        if self.connection is None and not self._connect():
            return False
        try:
            received = self.connection.recv(4096)  # type: ignore[union-attr]
        except TimeoutError:
            return False
        except OSError as error:
            return self._start_again(_reason(error))
        self.heard += received
        if not received or len(self.heard) > _LONGEST:
            return self._start_again("it closed the connection")
        *lines, self.heard = self.heard.split(b"\n")
        return any(self._understand(line) for line in lines)

    def end(self) -> None:
        # The chief would count this worker, too, as one that never came.
        if self.connection is not None:
            _send(self.connection, {"over": True})

    def _understand(self, line: bytes) -> bool:
        message = _parsed(line)
        if "other" in message:
            raise ValueError(
                "All workers must have the same cluster in `TF_CONFIG`. Received: "
                f"{_introduction(self.cluster)['cluster']}, where the chief has "
                f"{message['other']}"
            )
        if "missing" in message:
            self.missing = [i for i in message["missing"] if i != self.cluster.index]
            self.trouble = ""
        elif "over" in message:
            self.is_over = True
        elif "go" not in message:
            self._start_again("its port belongs to a run that has already started")
        return "go" in message

    def _connect(self) -> bool:
        self.missing = [0]
        try:
            self.connection = socket.create_connection(
                split_address(self.cluster.addresses[0]), _CONNECT_SECONDS
            )
        except OSError as error:
            self._rest(_reason(error))
            return False
        self.connection.settimeout(_STEP_SECONDS)
        self.heard = b""
        return _send(self.connection, _introduction(self.cluster))

    def _start_again(self, trouble: str) -> bool:
        self._close()
        self.connection = None
        self._rest(trouble)
        return False

    def _close(self) -> None:
        if self.connection is not None:
            self.connection.close()


def _listener(address: str) -> socket.socket:
    """Returns a socket that listens on a port of this machine."""
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The name may be that of a gateway, so listen on all networks, as TensorFlow does.
    is_local = host in ("localhost", "::1") or host.startswith("127.")
    return socket.create_server((host if is_local else "", port), family=family)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _introduction(cluster: Cluster) -> dict[str, Any]:
    everybody = [cluster.describe(index) for index in range(len(cluster.names))]
    return {"index": cluster.index, "cluster": everybody}


def _send(connection: socket.socket, message: dict[str, Any]) -> bool:
    """Sends a line, and returns whether the other end still seemed to be there."""
    try:
        connection.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        return False  # the next `recv` says so, too
    return True


def _parsed(line: bytes) -> dict[str, Any]:
    """Returns a message, or nothing if it is none: any program may use the port."""
    try:
        message = json.loads(line)
    except (UnicodeDecodeError, json.JSONDecodeError):
        return {}
    return message if isinstance(message, dict) else {}
