"""The page of the verb scan."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from loopwright.errors import InputError

if TYPE_CHECKING:
    from loopwright.scanning.builds import Between
    from loopwright.scanning.scan import Question, Scan


def check(html: Path, other: object) -> None:
    """Refuse a page that cannot be written, or beside what else is asked, before a long scan."""
    from loopwright.reporting.page.made import check as fits

    if other:
        raise InputError("--html is for a scan or two builds: leave --patch and --measure out")
    fits(html)


def write(
    html: Path, found: "Scan | Between", asked: "Question", other: Path | None = None
) -> None:
    """Write the page of a scan, or of two builds, of which other is the second file."""
    from loopwright.reporting import scan_page
    from loopwright.reporting.page.made import write as write_whole
    from loopwright.scanning.scan import Scan

    again = scan_page.command(asked, html, other)
    if isinstance(found, Scan):
        page = scan_page.of_scan(found, again)
    else:
        page = scan_page.of_builds(found, again)
    write_whole(page, html)
    print(f"written: {html}", file=sys.stderr)
