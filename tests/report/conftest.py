"""Every figure that a test of this room writes is measured; pages of profiles have their own room's figures."""

import pytest

from readable import watched


@pytest.fixture(autouse=True)
def _readable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.name != "test_probe.py":
        watched(monkeypatch)
