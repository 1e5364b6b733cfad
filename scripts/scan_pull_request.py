"""The step of action.yml that scans the builds before and after a pull request, and tells of it.

It reads BEFORE, AFTER, FAIL_OVER, MICROARCH, ROWS and COMMENT_ON (the pull request's number, or
nothing) of the environment, and writes the table to the runner's summary, into a comment by gh, and
three outputs. Exit code 1 where a loop got slower by more than FAIL_OVER percent, 2 where something
is missing or cannot be read.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]

MARK = "<!-- loopwright scan -->"  # of the comment that a later run replaces
TOLD = ("hurt", "slower", "fixed", "faster")


def scanned() -> tuple[list[Row], int]:
    """Return the pairs of loops on each core, and the exit code of the scan; exit on failure."""
    command = [str(Path(sys.executable).parent / "loopwright"), "scan", "--json"]
    for option, name in (("--fail-over", "FAIL_OVER"), ("--microarch", "MICROARCH")):
        command += [option, os.environ[name]] if os.environ.get(name) else []
    command += ["--", os.environ["BEFORE"], os.environ["AFTER"]]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(done.returncode)
    return json.loads(done.stdout), done.returncode


def report(rows: Iterable[Row], most: int) -> str:
    """Return the table in Markdown, the loops first that a core takes longest longer for."""
    told = [row for row in rows if row["change"] in TOLD]
    told.sort(key=lambda row: -row["percent"])
    lines = [MARK, "### Loops that this change makes slower or faster", ""]
    if not told:
        return "\n".join([*lines, "None: no loop of both builds changed by more than 1 %.", ""])
    lines += [
        "Cycles an iteration, predicted by loopwright's pipeline simulator at the code offset that "
        "the loop has in each build (bytes mod 64). Nothing was measured.",
        "",
        "| function | core | change | before | after | best offset | offset |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    lines += [
        f"| `{row['function']}` | {row['microarch']} | {row['change']} {row['percent']:+.1f} % "
        f"| {row['cycles_a']:.2f} | {row['cycles_b']:.2f} | {row['best_b']:.2f} "
        f"| {row['offset_a']} → {row['offset_b']} |"
        for row in told[:most]
    ]
    if len(told) > most:
        lines += ["", f"{len(told) - most} more rows are left out."]
    return "\n".join([*lines, ""])


def comment(number: str, text: str) -> None:
    """Write the comment on a pull request, or replace the one of an earlier run."""
    comments = f"repos/{os.environ['GITHUB_REPOSITORY']}/issues/{number}/comments"
    mine = f'.[] | select(.body | startswith("{MARK}")) | .id'
    found = _gh("api", "--paginate", comments, "--jq", mine).split()
    where = comments.replace(f"/{number}/comments", f"/comments/{found[0]}") if found else comments
    _gh("api", "--method", "PATCH" if found else "POST", where, "--raw-field", f"body={text}")


def _gh(*arguments: str) -> str:
    done = subprocess.run(["gh", *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(
            f"gh api failed ({done.returncode}): the job needs permissions: pull-requests: write"
        )
    return done.stdout


def main() -> None:
    """Scan, tell and exit."""
    rows, code = scanned()
    text = report(rows, int(os.environ.get("ROWS") or 20))
    slower = [row for row in rows if row["change"] in ("hurt", "slower")]
    kept = Path(os.environ["RUNNER_TEMP"], "loopwright-scan.md")
    kept.write_text(text)
    outputs = {
        "slower": len({(row["file"], row["section"], row["address_b"]) for row in slower}),
        "worst-percent": max((row["percent"] for row in slower), default=0),
        "report": kept,
    }
    with Path(os.environ["GITHUB_OUTPUT"]).open("a") as out:
        out.writelines(f"{name}={value}\n" for name, value in outputs.items())
    with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a") as out:
        out.write(text)
    if os.environ.get("COMMENT_ON"):
        comment(os.environ["COMMENT_ON"], text)
    sys.exit(code)


if __name__ == "__main__":
    main()
