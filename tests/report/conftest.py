"""Every figure that a test of this room writes is measured."""

import pytest

from readable import watched


@pytest.fixture(autouse=True)
def _readable(monkeypatch: pytest.MonkeyPatch) -> None:
    watched(monkeypatch)
