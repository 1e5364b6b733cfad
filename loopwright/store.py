"""The results store: every point that was measured, here or elsewhere, and on what machine.

SQLite, append-only: triggers refuse to change or delete a row. A record is one answer of the
harness (one point in one process) as it came, so that what is concluded can be concluded anew.
"""

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from loopwright import hosts, paths
from loopwright.errors import InputError
from loopwright.facts import Facts
from loopwright.recognise import recognise

SCHEMA = 1
_APPLICATION = 0x6C777274  # "lwrt": says of a SQLite file that it is one of these
_PATIENCE = 30  # s to wait for another writer

_TABLES = f"""
CREATE TABLE machine (
    id INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    isa TEXT NOT NULL,
    microarch TEXT NOT NULL, -- as it was recognised then, "" where it was not
    banner TEXT NOT NULL -- JSON: the machine's facts when it was first seen
);
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    uid TEXT NOT NULL UNIQUE,
    machine INTEGER NOT NULL REFERENCES machine,
    started INTEGER NOT NULL, -- seconds since 1970
    protocol INTEGER NOT NULL,
    origin TEXT NOT NULL, -- what measured: "measure", or the kit's name and version
    banner TEXT NOT NULL -- JSON: the machine's facts when the run began
);
CREATE TABLE process (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run,
    number INTEGER NOT NULL, -- counted from 1 in each run
    answer TEXT NOT NULL, -- JSON: its clock and self-test
    UNIQUE (run, number)
);
CREATE TABLE record (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE, -- of run, process, code and answer
    run INTEGER NOT NULL REFERENCES run,
    process INTEGER NOT NULL, -- its number in the run
    kernel TEXT NOT NULL,
    variant TEXT NOT NULL,
    object TEXT NOT NULL, -- sha256 of text, entry and exception table
    quantity TEXT NOT NULL,
    size INTEGER NOT NULL, -- bytes or records a call
    dst_align INTEGER NOT NULL,
    src_align INTEGER NOT NULL,
    skew INTEGER NOT NULL, -- bytes: (dst - src) mod 4096
    offset INTEGER NOT NULL, -- bytes of the text behind a 64-byte boundary
    clock TEXT NOT NULL,
    cycles REAL, -- a call, NULL where it was refused
    status TEXT NOT NULL, -- "ok" or "refused"
    reason TEXT NOT NULL,
    answer TEXT NOT NULL -- JSON: what the harness said, with raw samples
);
CREATE INDEX record_of ON record (kernel, object);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {SCHEMA};
"""


@dataclass(frozen=True)
class Run:
    """One run on one machine; machine is its fingerprint, started seconds since 1970."""

    uid: str
    machine: str
    started: int
    protocol: int
    origin: str
    banner: Mapping[str, Any]


@dataclass(frozen=True)
class Record:
    """One answer of the harness, and what it is about; process counts from 1 in each run."""

    process: int
    kernel: str
    variant: str
    object: str
    answer: Mapping[str, Any]


class Store:
    """An open store. Every record is kept as soon as it is added, whatever happens afterwards."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._database = connection

    @classmethod
    def open(cls, path: Path | None = None) -> Self:
        """Open the store at path ($LOOPWRIGHT_RESULTS, or below the XDG data folder), made if new.

        InputError where it cannot be written, is none, or is of a newer loopwright.
        """
        place = path or default_path()
        with _faults(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(place, timeout=_PATIENCE, isolation_level=None)
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            _prepare(connection, place)
        return cls(place, connection)

    def close(self) -> None:
        """Close the store."""
        self._database.close()

    def add(
        self,
        run: Run,
        records: Iterable[Record],
        processes: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> int:
        """Keep records of a run, all or none; returns how many were not there yet.

        processes are what the run's processes said of their clocks, by number.
        """
        with _faults(self.path), _transaction(self._database):
            run_id = self._run(run)
            self._database.executemany(
                "INSERT INTO process (run, number, answer) VALUES (?, ?, ?) "
                "ON CONFLICT (run, number) DO NOTHING",
                [(run_id, n, json.dumps(answer)) for n, answer in (processes or {}).items()],
            )
            return sum(self._insert(run_id, run, record) for record in records)

    def runs(self) -> list[Run]:
        """Return all runs, newest first."""
        with _faults(self.path):
            rows = self._database.execute(
                "SELECT uid, fingerprint, started, protocol, origin, run.banner FROM run "
                "JOIN machine ON machine.id = run.machine ORDER BY started DESC, run.id DESC"
            ).fetchall()
        return [
            Run(uid, machine, started, protocol, origin, json.loads(banner))
            for uid, machine, started, protocol, origin, banner in rows
        ]

    def records(self, run: Run, kernel: str | None = None) -> Iterator[Record]:
        """Yield the records of a run (of one kernel), as they were added."""
        with _faults(self.path):
            rows = self._database.execute(
                "SELECT process, kernel, variant, object, answer FROM record WHERE "
                "run = (SELECT id FROM run WHERE uid = ?) AND kernel = coalesce(?, kernel) "
                "ORDER BY id",
                (run.uid, kernel),
            ).fetchall()
        for process, of_kernel, variant, code, answer in rows:
            yield Record(process, of_kernel, variant, code, json.loads(answer))

    def processes(self, run: Run) -> dict[int, Mapping[str, Any]]:
        """Return what each process of a run said of its clock, by number."""
        with _faults(self.path):
            rows = self._database.execute(
                "SELECT number, answer FROM process "
                "WHERE run = (SELECT id FROM run WHERE uid = ?) ORDER BY number",
                (run.uid,),
            ).fetchall()
        return {number: json.loads(answer) for number, answer in rows}

    def _run(self, run: Run) -> int:
        facts = Facts.of(run.banner)
        self._database.execute(
            "INSERT INTO machine (fingerprint, name, isa, microarch, banner) "
            "VALUES (?, ?, ?, ?, ?) ON CONFLICT (fingerprint) DO NOTHING",
            (
                run.machine,
                hosts.machine(facts),
                facts.isa,
                recognise(facts).core or "",
                json.dumps(run.banner),
            ),
        )
        self._database.execute(
            "INSERT INTO run (uid, machine, started, protocol, origin, banner) "
            "SELECT ?, id, ?, ?, ?, ? FROM machine WHERE fingerprint = ? "
            "ON CONFLICT (uid) DO NOTHING",
            (
                run.uid,
                run.started,
                run.protocol,
                run.origin,
                json.dumps(run.banner),
                run.machine,
            ),
        )
        [found] = self._database.execute("SELECT id FROM run WHERE uid = ?", (run.uid,)).fetchone()
        return int(found)

    def _insert(self, run_id: int, run: Run, record: Record) -> int:
        answer = record.answer
        text = json.dumps(answer, sort_keys=True)
        what = (run.uid, record.process, record.kernel, record.variant, record.object, text)
        digest = hashlib.sha256(json.dumps(what).encode()).hexdigest()
        done = self._database.execute(
            "INSERT INTO record (digest, run, process, kernel, variant, object, "
            "quantity, size, dst_align, src_align, skew, offset, clock, cycles, status, reason, "
            "answer) VALUES (?, ?, ?, ?, ?, ?, 'call', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (digest) DO NOTHING",
            (
                digest,
                run_id,
                record.process,
                record.kernel,
                record.variant,
                record.object,
                answer["count"],
                answer["dst_align"],
                answer["src_align"],
                answer["skew"],
                answer["offset"],
                answer["clock"],
                None if answer["refused"] else answer["cycles"],
                "refused" if answer["refused"] else "ok",
                answer["refused"],
                text,
            ),
        )
        return done.rowcount


def default_path() -> Path:
    """Return where the store is: $LOOPWRIGHT_RESULTS, or results.sqlite in the data folder."""
    named = os.environ.get("LOOPWRIGHT_RESULTS")
    return Path(named) if named else paths.data_dir() / "results.sqlite"


@contextmanager
def _faults(path: Path) -> Iterator[None]:
    """Turn what the system or SQLite says of the store into an InputError."""
    try:
        yield
    except (OSError, sqlite3.DatabaseError) as error:
        raise InputError(
            f"results store {path} cannot be used ({error}); LOOPWRIGHT_RESULTS names another"
        ) from None


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Choose the journal that costs a record least; two who open a new store wait for each other.

    SQLite's own waiting does not cover this change of a file.
    """
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.02)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new store; InputError where it is of another kind or a newer one."""
    with _transaction(connection):
        [application] = connection.execute("PRAGMA application_id").fetchone()
        [version] = connection.execute("PRAGMA user_version").fetchone()
        [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application == _APPLICATION and version > SCHEMA:
            raise InputError(
                f"results store {path} is of schema {version}, and this loopwright knows {SCHEMA}: "
                "update it, or let LOOPWRIGHT_RESULTS name another"
            )
        if tables and application != _APPLICATION:
            raise InputError(
                f"{path} is a database of something else; LOOPWRIGHT_RESULTS names another"
            )
        if not tables:
            _create(connection)


def _create(connection: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    for table in ("machine", "run", "process", "record"):
        for change in ("UPDATE", "DELETE"):
            connection.execute(
                f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                "BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END"
            )
