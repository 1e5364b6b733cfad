"""Put into a wheel what no file list can say: the simulator, built by cargo, and the licence.

A checkout has the simulator as a distribution of its own (scripts/setup), so that an editable
install builds nothing here.
"""

import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "libloopwright_pipeline.so"
MODULE = "loopwright_pipeline"


class WheelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds models/pipeline as the Python module loopwright_pipeline; kits carry the licence."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the module and tag the wheel for this machine and Python's stable ABI."""
        if version == "editable":
            return
        crate = Path(self.root, "models", "pipeline")
        subprocess.run(
            ["cargo", "build", "--release", "--locked", "--quiet", "--features", "python"],
            cwd=crate,
            check=True,
        )
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"
        build_data["force_include"] |= {
            str(crate / "target" / "release" / LIBRARY): f"{MODULE}.abi3.so",
            str(crate / f"{MODULE}.pyi"): f"{MODULE}.pyi",
            str(Path(self.root, "LICENSE")): "loopwright/shipped/LICENSE",
        }
