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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from loopwright import paths
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.machine.hosts import Facts, recognise
from loopwright.store import database


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

        One that cannot be written is opened for reading. InputError where it is none, or is of a
        newer loopwright.
        """
        place = path or default_path()
        with database.faults(place):
            return cls(place, database.connect(place))

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
        with database.faults(self.path), database.transaction(self._database):
            run_id = self._run(run)
            self._database.executemany(
                "INSERT INTO process (run, number, answer) VALUES (?, ?, ?) "
                "ON CONFLICT (run, number) DO NOTHING",
                [(run_id, n, json.dumps(answer)) for n, answer in (processes or {}).items()],
            )
            return sum(self._insert(run_id, run, record) for record in records)

    def runs(self) -> list[Run]:
        """Return the runs that were not withdrawn, newest first."""
        gone = self.withdrawn()
        return [run for run in self.every_run() if run.uid not in gone]

    def every_run(self) -> list[Run]:
        """Return all runs, newest first."""
        with database.faults(self.path):
            rows = self._database.execute(
                "SELECT uid, fingerprint, started, protocol, origin, run.banner FROM run "
                "JOIN machine ON machine.id = run.machine ORDER BY started DESC, run.id DESC"
            ).fetchall()
        return [
            Run(uid, machine, started, protocol, origin, _banner(banner))
            for uid, machine, started, protocol, origin, banner in rows
        ]

    def agree(self, run: Run) -> None:
        """Raise InputError where the store knows a run, or the machine that it names, else."""
        with database.faults(self.path):
            known = self._database.execute(
                "SELECT fingerprint, started, protocol FROM run "
                "JOIN machine ON machine.id = run.machine WHERE uid = ?",
                (run.uid,),
            ).fetchone()
            banner = self._database.execute(
                "SELECT banner FROM machine WHERE fingerprint = ?", (run.machine,)
            ).fetchone()
        if known not in (None, (run.machine, run.started, run.protocol)):
            raise InputError(
                f"run {run.uid[:12]} is in the store already, of another machine, time or "
                "protocol: its head was changed; import the file as the kit wrote it"
            )
        there = _banner(banner[0]) if banner else {}
        identities = (there.get("identity"), run.banner.get("identity"))
        if all(identities) and identities[0] != identities[1]:
            raise InputError(
                f"fingerprint {run.machine} belongs to another machine in the store, "
                f"{hosts.machine(Facts.of(there))}: the head of run {run.uid[:12]} was changed; "
                "import the file as the kit wrote it"
            )

    def withdraw(self, run: Run, reason: str) -> None:
        """Have a run used for nothing from now on; it is kept, and listed as withdrawn."""
        with database.faults(self.path), database.transaction(self._database):
            self._database.execute(
                "INSERT INTO withdrawal (run, at, reason) SELECT id, ?, ? FROM run WHERE uid = ? "
                "ON CONFLICT (run) DO NOTHING",
                (int(time.time()), reason, run.uid),
            )

    def withdrawn(self) -> dict[str, str]:
        """Return why runs were withdrawn, by their uids."""
        with database.faults(self.path):
            if self._database.execute("PRAGMA user_version").fetchone()[0] < database.SCHEMA:
                return {}  # an earlier loopwright's, which cannot be written
            rows = self._database.execute(
                "SELECT uid, reason FROM withdrawal JOIN run ON run.id = withdrawal.run"
            ).fetchall()
        return dict(rows)

    def records(self, run: Run, kernel: str | None = None) -> Iterator[Record]:
        """Yield the records of a run (of one kernel), as they were added."""
        with database.faults(self.path):
            rows = self._database.execute(
                "SELECT process, kernel, variant, object, answer FROM record WHERE "
                "run = (SELECT id FROM run WHERE uid = ?) AND kernel = coalesce(?, kernel) "
                "ORDER BY id",
                (run.uid, kernel),
            ).fetchall()
        for process, of_kernel, variant, code, answer in rows:
            yield Record(process, of_kernel, variant, code, json.loads(answer))

    def alike(self, uid: str, cycles: Iterable[float]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the answers, and the uids, of other runs that have one of these figures."""
        wanted = set(cycles)
        with database.faults(self.path):
            rows = self._database.execute(
                "SELECT uid, cycles, answer FROM record JOIN run ON run.id = record.run "
                "WHERE uid != ? AND cycles IS NOT NULL",
                (uid,),
            )
            for of, figure, answer in rows:
                if figure in wanted:
                    yield of, json.loads(answer)

    def processes(self, run: Run) -> dict[int, Mapping[str, Any]]:
        """Return what each process of a run said of its clock, by number."""
        with database.faults(self.path):
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
        self.agree(run)
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


def _banner(text: str) -> Mapping[str, Any]:
    """Return what a machine said of itself; nothing where the store does not hold it whole."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
