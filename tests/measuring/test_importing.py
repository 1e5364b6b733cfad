"""What a kit measured on another core counts there."""

import json
from dataclasses import replace

from made_up import predictions, study
from test_stored import FAST, KERNEL, ROME, add

from loopwright import kernels
from loopwright.judging.recommend import conclude
from loopwright.judging.study import stored_measurements
from loopwright.measuring.results import import_results
from loopwright.measuring.store import Store


def as_file(run_, records, path):
    """Write stored records as a kit would have."""
    out = [{"loopwright_results": 1, "uid": run_.uid, "kit": "0" * 64, "version": "0.1.0"}]
    out[0]["protocol"] = run_.protocol
    out += [{"id": "facts", **run_.banner}]
    out += [{"id": "plan", "points": len(records) // 3, "processes": 3}]
    for process in (1, 2, 3):
        clock = {"clock": "tsc-calibrated", "cpu": 3, "ticks_a_second": 2_500_000_000}
        out += [
            {"id": "clock", "fingerprint": run_.machine, "self_test": [], "refused": "", **clock}
        ]
        for record in (r for r in records if r.process == process):
            name = f"{record.kernel}/{record.variant}"
            out += [{"id": name, "object": record.object, "point": 0, **record.answer}]
    out += [{"end": 1, "readings": len(records), "nothing_measured": ""}]
    path.write_text("".join(json.dumps(line) + "\n" for line in out))


def test_a_file_from_a_zen2_machine_lands_in_the_zen2_column(tmp_path, monkeypatch):
    add(banner=ROME)
    store = Store.open()
    [stored] = store.runs()
    path = tmp_path / "rome.jsonl"
    as_file(stored, list(store.records(stored)), path)
    monkeypatch.setenv("LOOPWRIGHT_RESULTS", str(tmp_path / "fresh.sqlite"))
    [row] = import_results([path]).to_dict("records")
    assert (row["microarch"], row["clock"], row["missing"]) == ("zen2", "tsc-calibrated", 0)
    rows, sources = stored_measurements(kernels.load(KERNEL), Store.open())
    found = study(predictions({"movsq_aligned": 2.0, FAST: 2.0}, cores=("sandybridge",)), rows)
    judged = conclude(replace(found, sources=tuple(sources), unmeasured="left out")).rows.iloc[0]
    assert judged["winner"] == FAST
    assert judged["confidence"].startswith("measured on zen2, models of the main loop on")
    # The mean over basis.SIZES from 64 bytes on.
    assert "zen2: +161.1 % (measured)" in judged["reason"]
    assert "zen2 (x86_64 part 0x31, tsc-calibrated, 2023-11-14)" in judged["stored"]
