"""``engram verify``."""

import json
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from engram.certify import verify
from engram.errors import CertificateError, OptionError
from engram.files import printable


@dataclass(frozen=True)
class Verify:
    """Check certificates again, from their seeds alone. Exit code 0 if all are true, 2 if one is not.

    Example: engram verify rac-deep-3-3-8-3.json
    """

    files: Annotated[tuple[Path, ...], Parameter(name="FILE", metavar="FILE")]
    """Certificates."""
    _: KW_ONLY
    json: bool = False
    """Print a JSON list: file, ok, the numbers found, and what is wrong."""
    max_side: int | None = None
    """Refuse matrices of more rows."""
    max_memory: float | None = None
    """Refuse what is estimated to need more MB; default: 2000, or what is free if that is less."""
    max_seconds: float = 60
    """Refuse what is estimated to take more seconds."""

    def run(self) -> None:
        if not self.files:
            raise OptionError(
                "engram verify needs at least one certificate. Example: engram verify rac-deep-3-3-8-3.json"
            )
        rows: list[dict[str, Any]] = []
        for path in self.files:
            try:
                limits: Any = {"max_side": self.max_side, "max_memory": self.max_memory}
                found = verify(path, **limits, max_seconds=self.max_seconds)
                rows.append({"file": str(path), "ok": True, **found.to_dict()})
            except CertificateError as error:
                rows.append({"file": str(path), "ok": False, "error": _with_cure(path, str(error))})
            if not self.json:
                row = rows[-1]
                print(f"{printable(str(path))}: {'verified. ' + row['statement'] if row['ok'] else 'NOT VERIFIED'}")
        if self.json:
            print(json.dumps(rows))
        wrong = [row["error"] for row in rows if not row["ok"]]
        if wrong:
            raise CertificateError("; ".join(wrong))


def _with_cure(path: Path, fault: str) -> str:
    """What is wrong with a file; of one that is no certificate at all, where certificates come from."""
    if not path.exists():
        return f"{path}: there is no such file. engram certify writes certificates: engram certify rac"
    if "it is not a certificate" in fault:
        return f"{fault}. engram certify writes certificates: engram certify rac"
    return fault
