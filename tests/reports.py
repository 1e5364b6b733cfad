"""A report of three kernels that the tests of report, text and page read."""

import pytest
from few_variants import few
from once import once

from loopwright.cli import run

# Both architectures, a question of a thread, a routine that sums and published pairs.
VARIANTS = {
    "x86_64/clear_user": ("unrolled64", "immediates"),
    "x86_64/csum": ("two_chains_40", "adcx_adox"),
    "arm64/strlen": ("pairs", "aligned_words"),
}
CORES = ("sandybridge", "zen2", "tsv110")


def three(factory):
    """Return the folder of a report of VARIANTS for CORES, by models alone."""

    def make(folder):
        with pytest.MonkeyPatch.context() as patch:
            for family, variants in VARIANTS.items():
                few(patch, folder / "kernels", family, *variants)
            arguments = [*VARIANTS, "--microarch", ",".join(CORES), "--no-measure"]
            assert run(["report", *arguments, "-o", str(folder / "out")]) == 0

    return once(factory, "report-of-three", make) / "out"
