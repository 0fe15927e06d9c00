"""How long something takes, in one unit that people use."""

UNITS = (("s", 1, 100), ("min", 60, 100 * 60), ("h", 3600, 48 * 3600))


def duration(seconds: float) -> str:
    """
    >>> duration(4), duration(40), duration(600), duration(9000), duration(3e5)
    ('4.0 s', '40 s', '10 min', '2.5 h', '3.5 days')
    """
    unit, length = next(((unit, length) for unit, length, end in UNITS if seconds < end), ("days", 86400))
    value = seconds / length
    return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"
