"""The file that the results store is: its tables, and how it is opened, also where it is shut."""

import errno
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from loopwright.errors import InputError

SCHEMA = 2
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
"""
_SINCE_2 = """
CREATE TABLE withdrawal (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL UNIQUE REFERENCES run, -- kept, and used for nothing
    at INTEGER NOT NULL, -- seconds since 1970
    reason TEXT NOT NULL
);
PRAGMA user_version = 2;
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open the store at path, made if new; one that cannot be written is opened for reading.

    InputError where it is none, or is of a newer loopwright.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        _prepare(connection, path)
    except (OSError, sqlite3.OperationalError) as error:
        if not _is_shut(error) or not path.is_file():
            raise
        connection = _read_only(path)
        _look_at(connection, path)
    return connection


@contextmanager
def faults(path: Path) -> Iterator[None]:
    """Turn what the system or SQLite says of the store into an InputError."""
    try:
        yield
    except (OSError, sqlite3.DatabaseError) as error:
        fix = "LOOPWRIGHT_RESULTS names another"
        if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
            fix = f"make room there, or let {fix.replace('names', 'name')}"
        raise InputError(f"results store {path} cannot be used ({error}); {fix}") from None


def _is_shut(error: Exception) -> bool:
    """Say whether what failed is that the store, or its folder, cannot be written."""
    if isinstance(error, sqlite3.OperationalError):
        codes = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
        return error.sqlite_errorcode & 0xFF in codes
    return isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)


def _read_only(path: Path) -> sqlite3.Connection:
    """Open a store that cannot be written, as it is on disk where no log beside it can be had."""
    place = quote(str(path.resolve()))
    for how in ("mode=ro", "mode=ro&immutable=1"):
        try:
            connection = sqlite3.connect(f"file:{place}?{how}", uri=True, timeout=_PATIENCE)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            if how.endswith("1") or not _is_shut(error):
                raise
            continue
        return connection
    raise AssertionError  # the last way returns or raises


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
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Do all of it or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk has ended it already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _look_at(connection: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """Return the schema and the number of tables; InputError where it is no store of ours.

    Tables are counted first: another process may make them, and the id with them, meanwhile.
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
    """Make the tables of a new store, or those that an earlier loopwright's lacks."""
    if _look_at(connection, path)[0] == SCHEMA:
        return
    with transaction(connection):
        version, tables = _look_at(connection, path)
        if not tables:
            _create(connection, _TABLES, ("machine", "run", "process", "record"))
        if version < SCHEMA:
            _create(connection, _SINCE_2, ("withdrawal",))


def _create(connection: sqlite3.Connection, statements: str, tables: Iterable[str]) -> None:
    """Make tables whose rows nobody changes or deletes."""
    for statement in statements.split(";"):
        connection.execute(statement)
    for table in tables:
        for change in ("UPDATE", "DELETE"):
            connection.execute(
                f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                "BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END"
            )
