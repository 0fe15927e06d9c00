"""One download: within a time and a size, however slowly the other side drips."""

import queue
import threading
import urllib.request

TIMEOUT = 10.0
"""Seconds without an answer after which there is no network."""
TOTAL = 600.0
"""Seconds that a whole download may take."""
LARGEST = 2**27
"""Bytes that are fetched at most."""


def download(url: str) -> bytes:
    """What the address sends, all of it, kept in memory; else an OSError or HTTPException.

    A timeout of a socket begins anew with every byte, and names and headers come before there is a socket to watch: so
    a thread does the work, and the caller waits as long as it likes. A thread that is late ends with its next byte.
    """
    done: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
    late = threading.Event()

    def fetch() -> None:
        content = bytearray()
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
                while (part := answer.read1(1 << 16)) and not late.is_set():
                    content += part
                    if len(content) > LARGEST:
                        raise OSError(f"it sends more than {LARGEST:,} bytes")
            done.put(bytes(content))
        except Exception as error:  # for the caller, who waits for it
            done.put(error)

    threading.Thread(target=fetch, daemon=True).start()
    try:
        outcome = done.get(timeout=TOTAL)
    except queue.Empty:
        raise TimeoutError(f"it was not done after {TOTAL:g} seconds") from None
    finally:
        late.set()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
