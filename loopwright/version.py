"""The version of what is installed: models/pipeline/Cargo.toml alone declares it."""

from importlib import metadata

VERSION = metadata.version("loopwright")
