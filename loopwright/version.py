"""The installed version, which models/pipeline/Cargo.toml declares."""

from importlib import metadata

VERSION = metadata.version("loopwright")
