"""Device, precision and processes, through Lightning Fabric."""

import logging
from typing import TYPE_CHECKING, Any

from engram.errors import OptionError
from engram.train._settings import Settings

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def make_fabric(settings: Settings) -> "Fabric":
    """Device, precision and processes. Fabric is imported here: it takes a second that other commands need not wait."""
    from lightning_fabric import Fabric

    from engram.train._double import Double

    for name, level in (("lightning_fabric", logging.WARNING), ("torch.multiprocessing.spawn", logging.ERROR)):
        logging.getLogger(name).setLevel(level)  # banners, and the ends of processes, which we tell ourselves
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
