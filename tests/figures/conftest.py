"""``readable``: for tests that write figures."""

from collections.abc import Iterator

import pytest

from readable import watched


@pytest.fixture
def readable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every figure that the test writes must be readable, and it must write one."""
    written = watched(monkeypatch)
    yield
    assert written
