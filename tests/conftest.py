"""Keep what tests measure, and what they change of settings, out of the user's own files."""

import importlib

import pytest
from checkout import ROOT


@pytest.fixture(scope="session", autouse=True)
def _own_files(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("own")
        patch.setenv("LOOPWRIGHT_RESULTS", str(folder / "results.sqlite"))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield


@pytest.fixture(autouse=True)
def _fresh_results(monkeypatch, tmp_path):
    monkeypatch.setenv("LOOPWRIGHT_RESULTS", str(tmp_path / "results.sqlite"))


@pytest.fixture(scope="session")
def validation():
    """Return what imports a program of validation/ by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "validation")
        yield importlib.import_module


@pytest.fixture(scope="session", params=["x86_64", "arm64"])
def kmod_built(request, tmp_path_factory):
    """Return a kernel, and the module with all variants built for it."""
    import kmod_guest

    from loopwright.portable import kmod

    folder = kmod_guest.kernel(request.param)
    return folder, kmod.build(folder, tmp_path_factory.mktemp("kmod") / request.param)
