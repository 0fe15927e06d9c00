"""Device, precision and processes, through Lightning Fabric."""

from typing import Any

from lightning_fabric import Fabric
from lightning_fabric.plugins.precision.double import DoublePrecision

from engram.errors import OptionError
from engram.train._settings import Settings


class Double(DoublePrecision):
    """float64 throughout; fabric's own turns outputs and states to float32."""

    def convert_output(self, data: Any) -> Any:
        return data


def make_fabric(settings: Settings) -> Fabric:
    """Device, precision and processes."""
    kind, _, index = settings.device.partition(":")
    devices: Any = [int(index)] if index.isdigit() else settings.processes
    try:
        return Fabric(
            accelerator=kind,
            devices=devices,
            strategy="auto" if settings.processes == 1 else "ddp_spawn",
            **({"plugins": Double()} if settings.precision == "64-true" else {"precision": settings.precision}),
        )
    except Exception as error:  # fabric raises whatever it likes for a device that is not there
        raise OptionError(f"device {settings.device!r} cannot be used here: {error}") from None
