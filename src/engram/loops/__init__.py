"""The time loops: a step is traced, planned, and run as plain loop, as torch operations or as generated C."""
