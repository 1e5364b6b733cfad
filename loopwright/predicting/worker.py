"""A separate program that answers requests, one JSON object a line, while this one lives."""

import json
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Worker:
    """A program that gets one request at a time, and is restarted where it has ended."""

    def __init__(self, command: Sequence[str | Path], seconds: float | None = None) -> None:
        """Store its command and its time limit for an answer, in seconds."""
        self._command, self._seconds = command, seconds
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: dict[str, object]) -> dict[str, Any]:
        """Return its answer; {"error": reason} if it ended or took too long."""
        process = self._process = self._process or subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            line = self._answer(process, json.dumps(request).encode() + b"\n")
        except BaseException:
            # A late answer would be taken for the answer to the next request.
            self._end(process)
            raise
        if line is None:
            self._end(process)
            return {"error": f"no answer in {self._seconds:g} s"}
        if not line:
            self._process = None
            return {"error": f"its worker ended (exit {process.wait()})"}
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _answer(self, process: subprocess.Popen[bytes], request: bytes) -> bytes | None:
        """Return a line, b"" at the program's end, None after the time limit."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(request)
            process.stdin.flush()
        except BrokenPipeError:
            return b""
        if self._seconds is not None:
            readable, _, _ = select.select([process.stdout], [], [], self._seconds)
            if not readable:
                return None
        return process.stdout.readline()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        process.kill()
        process.communicate()
