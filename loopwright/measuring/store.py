"""The results store: every measured point, of this machine or others, with its machine.

SQLite, append-only: triggers refuse to change or delete a row. A record is one unchanged answer of
the harness (one point in one process), so that conclusions can be drawn again.
"""

import errno
import hashlib
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from loopwright import paths, toolchain
from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.kernels import Variant
from loopwright.machine import harness, hosts
from loopwright.machine.hosts import FACT_FILES, Facts, recognise

SCHEMA = 2
_APPLICATION = 0x6C777274  # "lwrt": the application id of the SQLite file
_PATIENCE = 30  # s to wait for another writer
_ANSWER_COLUMNS = ("dst_align", "src_align", "skew", "offset", "clock")  # columns as in an answer

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
    answer TEXT NOT NULL -- JSON: the answer of the harness, with raw samples
);
CREATE INDEX record_of ON record (kernel, object);
PRAGMA application_id = {_APPLICATION};
"""
_TABLES_SINCE_2 = """
CREATE TABLE withdrawal (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL UNIQUE REFERENCES run, -- kept, and used for nothing
    at INTEGER NOT NULL, -- seconds since 1970
    reason TEXT NOT NULL
);
PRAGMA user_version = 2;
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open the store at path, or create it; one that is not writable is opened for reading.

    InputError if it is another file, or of a newer loopwright.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        _prepare(connection, path)
    except (OSError, sqlite3.OperationalError) as error:
        if not _is_unwritable(error) or not path.is_file():
            raise
        connection = _read_only(path)
        _identify(connection, path)
    return connection


@contextmanager
def database_faults(path: Path) -> Iterator[None]:
    """Turn errors of the system or of SQLite into an InputError."""
    try:
        yield
    except (OSError, sqlite3.DatabaseError) as error:
        fix = "LOOPWRIGHT_RESULTS names another"
        if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
            fix = f"make room there, or let {fix.replace('names', 'name')}"
        raise InputError(f"results store {path} cannot be used ({error}); {fix}") from None


def _is_unwritable(error: Exception) -> bool:
    """True if an error means that the store, or its folder, is not writable."""
    if isinstance(error, sqlite3.OperationalError):
        codes = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
        return error.sqlite_errorcode & 0xFF in codes
    return isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)


def _read_only(path: Path) -> sqlite3.Connection:
    """Open a store that is not writable, as it is on disk if its log is inaccessible."""
    quoted = quote(str(path.resolve()))
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        try:
            connection = sqlite3.connect(f"file:{quoted}?{mode}", uri=True, timeout=_PATIENCE)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            if mode.endswith("1") or not _is_unwritable(error):
                raise
            continue
        return connection
    raise AssertionError  # the last way returns or raises


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Choose the write-ahead journal; two processes that create a store wait for each other.

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
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Execute all statements or none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk has ended it already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _identify(connection: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """Return schema version and number of tables; InputError for a database of something else.

    Tables are counted first: another process may create them, and the id, at the same time.
    """
    [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if application == _APPLICATION and version > SCHEMA:
        raise InputError(
            f"results store {path} is of schema {version}, and this loopwright knows {SCHEMA}: "
            "update it, or let LOOPWRIGHT_RESULTS name another"
        )
    if tables and application != _APPLICATION:
        raise InputError(
            f"{path} is a database of something else; LOOPWRIGHT_RESULTS names another"
        )
    return version, tables


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new store, or those that an earlier version lacks."""
    if _identify(connection, path)[0] == SCHEMA:
        return
    with transaction(connection):
        version, tables = _identify(connection, path)
        if not tables:
            _create(connection, _TABLES, ("machine", "run", "process", "record"))
        if version < SCHEMA:
            _create(connection, _TABLES_SINCE_2, ("withdrawal",))


def _create(connection: sqlite3.Connection, statements: str, tables: Iterable[str]) -> None:
    """Create tables with triggers against changing or deleting rows."""
    for statement in statements.split(";"):
        connection.execute(statement)
    for table in tables:
        for change in ("UPDATE", "DELETE"):
            connection.execute(
                f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                "BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END"
            )


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
    """One answer of the harness, with variant and code; process counts from 1 in each run.

    object is the code's hash, behind "kernel:" if it ran in the kernel.
    """

    process: int
    kernel: str
    variant: str
    object: str
    answer: Mapping[str, Any]


class Store:
    """An open store; every record is on disk as soon as it is added."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._database = connection
        self._last: tuple[Run, int] | None = None  # the run of the last records, and its id

    @classmethod
    def open(cls, path: Path | None = None) -> Self:
        """Open the store at path ($LOOPWRIGHT_RESULTS, or below the XDG data folder), or create it.

        One that is not writable is opened for reading. InputError if it is another file, or of a
        newer loopwright.
        """
        store_path = path or default_path()
        with database_faults(store_path):
            return cls(store_path, connect(store_path))

    def close(self) -> None:
        self._database.close()

    def add(
        self,
        run: Run,
        records: Iterable[Record],
        processes: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> int:
        """Add records of a run, all or none; return the number of new ones.

        processes are the answers on clock and self-test of the run's processes, by number.
        """
        with database_faults(self.path), transaction(self._database):
            # A run's records come one by one: its machine is recognised once.
            last, number = self._last or (None, 0)
            run_id = number if last is run else self._run_id(run)
            self._database.executemany(
                "INSERT INTO process (run, number, answer) VALUES (?, ?, ?) "
                "ON CONFLICT (run, number) DO NOTHING",
                [(run_id, n, json.dumps(answer)) for n, answer in (processes or {}).items()],
            )
            new = sum(self._insert(run_id, run, record) for record in records)
        self._last = run, run_id
        return new

    def runs(self) -> list[Run]:
        """Return the runs that were not withdrawn, newest first."""
        withdrawn = self.withdrawn()
        return [run for run in self.every_run() if run.uid not in withdrawn]

    def every_run(self) -> list[Run]:
        """Return all runs, newest first."""
        rows = self._rows(
            "SELECT uid, fingerprint, started, protocol, origin, run.banner FROM run "
            "JOIN machine ON machine.id = run.machine ORDER BY started DESC, run.id DESC"
        )
        return [
            Run(uid, machine, started, protocol, origin, _banner(banner))
            for uid, machine, started, protocol, origin, banner in rows
        ]

    def agree(self, run: Run) -> None:
        """Raise InputError if the store has other facts of a run or its machine."""
        stored = self._rows(
            "SELECT fingerprint, started, protocol FROM run "
            "JOIN machine ON machine.id = run.machine WHERE uid = ?",
            run.uid,
        )
        banners = self._rows("SELECT banner FROM machine WHERE fingerprint = ?", run.machine)
        if stored not in ([], [(run.machine, run.started, run.protocol)]):
            raise InputError(
                f"run {run.uid[:12]} is in the store already, of another machine, time or "
                "protocol: its head was changed; import the file as the kit wrote it"
            )
        stored_banner = _banner(banners[0][0]) if banners else {}
        identities = (stored_banner.get("identity"), run.banner.get("identity"))
        if all(identities) and identities[0] != identities[1]:
            raise InputError(
                f"fingerprint {run.machine} belongs to another machine in the store, "
                f"{hosts.machine(Facts.of(stored_banner))}: "
                f"the head of run {run.uid[:12]} was changed; "
                "import the file as the kit wrote it"
            )

    def withdraw(self, run: Run, reason: str) -> None:
        """Mark a run as withdrawn; it is kept and listed."""
        with database_faults(self.path), transaction(self._database):
            self._database.execute(
                "INSERT INTO withdrawal (run, at, reason) SELECT id, ?, ? FROM run WHERE uid = ? "
                "ON CONFLICT (run) DO NOTHING",
                (int(time.time()), reason, run.uid),
            )

    def withdrawn(self) -> dict[str, str]:
        """Return the reasons of withdrawn runs, by uid."""
        if self._rows("PRAGMA user_version")[0][0] < SCHEMA:
            return {}  # an earlier loopwright's, which cannot be written
        query = "SELECT uid, reason FROM withdrawal JOIN run ON run.id = withdrawal.run"
        return dict(self._rows(query))

    def records(self, run: Run, kernel: str | None = None) -> Iterator[Record]:
        """Yield the records of a run (of one kernel), as they were added."""
        rows = self._rows(
            "SELECT process, kernel, variant, object, answer FROM record WHERE "
            "run = (SELECT id FROM run WHERE uid = ?) AND kernel = coalesce(?, kernel) "
            "ORDER BY id",
            run.uid,
            kernel,
        )
        for process, of_kernel, variant, code, answer in rows:
            yield Record(process, of_kernel, variant, code, json.loads(answer))

    def alike(self, uid: str, cycles: Iterable[float]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the answers, with uids, of other runs that have one of these figures."""
        figures = set(cycles)
        with database_faults(self.path):
            rows = self._database.execute(
                "SELECT uid, cycles, answer FROM record JOIN run ON run.id = record.run "
                "WHERE uid != ? AND cycles IS NOT NULL",
                (uid,),
            )
            for run_uid, figure, answer in rows:
                if figure in figures:
                    yield run_uid, json.loads(answer)

    def processes(self, run: Run) -> dict[int, Mapping[str, Any]]:
        """Return the clock and self-test of each process of a run, by number."""
        rows = self._rows(
            "SELECT number, answer FROM process "
            "WHERE run = (SELECT id FROM run WHERE uid = ?) ORDER BY number",
            run.uid,
        )
        return {number: json.loads(answer) for number, answer in rows}

    def _rows(self, query: str, *values: object) -> list[Any]:
        with database_faults(self.path):
            return self._database.execute(query, values).fetchall()

    def _run_id(self, run: Run) -> int:
        """Return the id of a run, which is added, with its machine, if it is new."""
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
            (run.uid, run.started, run.protocol, run.origin, json.dumps(run.banner), run.machine),
        )
        self.agree(run)
        return int(self._rows("SELECT id FROM run WHERE uid = ?", run.uid)[0][0])

    def _insert(self, run_id: int, run: Run, record: Record) -> int:
        answer = record.answer
        text = json.dumps(answer, sort_keys=True)
        identity = (run.uid, record.process, record.kernel, record.variant, record.object, text)
        digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
        row = {
            "digest": digest,
            "run": run_id,
            **{name: getattr(record, name) for name in ("process", "kernel", "variant", "object")},
            "quantity": "call",
            "size": answer["count"],
            **{name: answer[name] for name in _ANSWER_COLUMNS},
            "cycles": None if answer["refused"] else answer["cycles"],
            "status": "refused" if answer["refused"] else "ok",
            "reason": answer["refused"],
            "answer": text,
        }
        cursor = self._database.execute(
            f"INSERT INTO record ({', '.join(row)}) VALUES (:{', :'.join(row)}) "
            "ON CONFLICT (digest) DO NOTHING",
            row,
        )
        return cursor.rowcount


def default_path() -> Path:
    """Return the store's path: $LOOPWRIGHT_RESULTS, or results.sqlite in the data folder."""
    named = os.environ.get("LOOPWRIGHT_RESULTS")
    return Path(named) if named else paths.data_dir() / "results.sqlite"


def _banner(text: str) -> Mapping[str, Any]:
    """Return a machine's description of itself; {} if it is unreadable."""
    try:
        facts = json.loads(text)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


ORIGIN = "measure"


class Recorder:
    """One run on this machine; with resume it continues the newest matching one, if any.

    A matching run is of this machine and protocol; records of another clock are ignored.
    """

    def __init__(self, store: Store, *, resume: bool = False) -> None:
        self._store = store
        self._resume = resume
        self._process = 0

    def known(self, variant: Variant, code: Code, shift: int) -> Iterator[Mapping[str, Any]]:
        """Yield the resumed run's answers for code that begins shift bytes behind a line."""
        if not self._resume:
            return
        for record in self._store.records(self._run, variant.kernel):
            answer = record.answer
            same_code = record.variant == variant.name and record.object == code.sha256
            if same_code and answer["offset"] == shift and answer["clock"] == self._clock:
                yield answer

    def self_tests(self) -> list[list[dict[str, Any]]]:
        """Return the self-tests of the resumed run's processes."""
        if not self._resume:
            return []
        return [answer["self_test"] for answer in self._store.processes(self._run).values()]

    def begin_process(self, clock: Mapping[str, Any]) -> None:
        """Record the start of another harness process, and its clock."""
        self._process = max(self._store.processes(self._run), default=0) + 1
        self._store.add(self._run, [], {self._process: clock})

    def keep(self, variant: Variant, code: Code, answer: Mapping[str, Any]) -> None:
        """Store one answer of the harness; it is on disk when this returns."""
        record = Record(self._process, variant.kernel, variant.name, code.sha256, answer)
        self._store.add(self._run, [record])

    @cached_property
    def _clock(self) -> str:
        return str(next(harness.run(toolchain.host_isa(), harness.clock_job("clock")))["clock"])

    @cached_property
    def _run(self) -> Run:
        banner = next(harness.run(toolchain.host_isa(), harness.facts_job("facts", FACT_FILES)))
        if self._resume:
            for run in self._store.runs():
                origin = (run.machine, run.protocol, run.origin)
                if origin == (banner["fingerprint"], banner["protocol"], ORIGIN):
                    return run
        return Run(
            uid=secrets.token_hex(16),
            machine=banner["fingerprint"],
            started=banner["time"],
            protocol=banner["protocol"],
            origin=ORIGIN,
            banner=banner,
        )
