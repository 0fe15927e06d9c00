"""Double precision that stays double."""

from typing import Any

from lightning_fabric.plugins.precision.double import DoublePrecision


class Double(DoublePrecision):
    """float64 throughout; Fabric's own turns outputs and states to float32."""

    def convert_output(self, data: Any) -> Any:
        return data
