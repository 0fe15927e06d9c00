"""Runs as a collection: conditions on them."""

from engram.runs._where import Where

__all__ = ["Where"]
