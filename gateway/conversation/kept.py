"""The epoch that this machine has known, kept in its data folder: Redis can't say itself that it is not what it was."""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path

from gateway.logs import log

logger = logging.getLogger(__name__)

LONGEST = 64


class KeptEpoch:
    """Of one key prefix: `epochs/<prefix>` in the data folder, for us alone. A folder that can't be used is told, once."""

    def __init__(self, data: Path, prefix: str) -> None:
        self._file = data / "epochs" / prefix
        self._told = False

    def read(self) -> str:
        """`""`: this machine has known none, as far as one can see."""
        try:
            words = self._file.read_text("utf-8", errors="replace")[:LONGEST].split()
        except FileNotFoundError:
            return ""
        except OSError as error:
            self._tell(error)
            return ""
        return words[0] if words else ""

    def write(self, epoch: str) -> None:
        """Whole or not at all, also when the power goes; nothing where it stands there already."""
        if self.read() == epoch:
            return
        try:
            for folder in (self._file.parents[1], self._file.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            beside = self._file.parent / f".{secrets.token_hex(4)}"
            try:
                with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                    file.write(f"{epoch}\n")
                    file.flush()
                    os.fsync(file.fileno())
                beside.replace(self._file)
            finally:
                beside.unlink(missing_ok=True)
        except OSError as error:
            self._tell(error)

    def _tell(self, error: OSError) -> None:
        if self._told:
            return
        self._told = True
        advice = "should redis come back empty, a process that starts here can't see it: make the data folder writable"
        log(logger, "epoch not kept", logging.WARNING, file=self._file, reason=error.strerror, advice=advice)
