"""Put into wheels what no file list can say: the simulator, built by cargo, and the licence.

Two wheels have the simulator in them: the one of models/pipeline, which is it alone and which
scripts/setup installs beside a checkout, and the one of loopwright, which needs no other. Both
take what one command of cargo builds, so that it is built once.
"""

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "libloopwright_pipeline.so"
MODULE = "loopwright_pipeline"
CRATE = Path(__file__).resolve().parent.parent / "models" / "pipeline"
BUILD = ["cargo", "build", "--release", "--lib", "--locked", "--quiet", "--features", "python"]


class WheelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds models/pipeline as the Python module loopwright_pipeline; kits carry the licence."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the module and tag the wheel for this machine and Python's stable ABI."""
        if version == "editable":
            return
        # The stable ABI needs no Python to build for; one that is found would make it anew.
        env = os.environ | {"PYO3_NO_PYTHON": "1"}
        subprocess.run(BUILD, cwd=CRATE, env=env, check=True)
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"
        build_data["force_include"] |= {
            str(CRATE / "target" / "release" / LIBRARY): f"{MODULE}.abi3.so",
            str(CRATE / f"{MODULE}.pyi"): f"{MODULE}.pyi",
        }
        if Path(self.root) != CRATE:
            licence = CRATE.parent.parent / "LICENSE"
            build_data["force_include"][str(licence)] = "loopwright/shipped/LICENSE"
