"""Device, precision and processes, through Lightning Fabric."""

import logging
from typing import TYPE_CHECKING, Any

import torch

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
    machine = settings.machine
    kind, _, index = machine.device.partition(":")
    devices: Any = [int(index)] if index.isdigit() else machine.processes
    try:
        return Fabric(
            accelerator=kind,
            devices=devices,
            strategy="auto" if machine.processes == 1 else "ddp_spawn",
            **({"plugins": Double()} if machine.precision == "64-true" else {"precision": machine.precision}),
        )
    except Exception as error:  # fabric raises whatever it likes for a device that is not there
        raise OptionError(f"device {machine.device!r} cannot be used here: {_reason(kind, error)}") from None


def _reason(kind: str, error: Exception) -> str:
    """Why, and what can be used instead."""
    here = ["cpu", *(name for name in ("cuda", "mps") if getattr(torch, name).is_available())]
    if kind in here:
        return str(error)
    known = kind in ("cuda", "mps")
    fault = f"torch {torch.__version__} finds no {kind} device" if known else f"there is no device {kind!r}"
    return f"{fault}. Here: {', '.join(here)}"
