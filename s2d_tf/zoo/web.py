"""Entries on the web."""

from __future__ import annotations

import http.client
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from s2d_tf import files
from s2d_tf.zoo.entries import ZooError, entry_name, file_name

TIMEOUT_SECONDS = 30
"""For each answer of a server, however little it is."""
TOTAL_SECONDS = 600
"""For all files of an entry together."""
_CHUNK = 1 << 16


class Address:
    """An entry's folder on the web.

    Args:
        url: its address.
        deadline: `time.monotonic()` at which reading ends; default: in `TOTAL_SECONDS`.
    """

    def __init__(self, url: str, deadline: float | None = None) -> None:
        self.url = url.rstrip("/")
        self._deadline = time.monotonic() + TOTAL_SECONDS if deadline is None else deadline

    def __str__(self) -> str:
        return self.url

    def sibling(self, name: str) -> Address:
        return Address(f"{self.url.rpartition('/')[0]}/{entry_name(name)}", self._deadline)

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a file, at most `limit` of them."""
        url = f"{self.url}/{urllib.parse.quote(file_name(name))}"
        try:
            data, stated = _in_time(lambda: self._fetch(url, limit), self._deadline)
        except _LateError:
            raise ZooError(
                f"{url}: expected all files of the entry within {TOTAL_SECONDS} seconds, received "
                "less. Download the folder, and load it from there."
            ) from None
        except urllib.error.HTTPError as error:
            raise ZooError(
                f"{url}: expected a file, received {error.code} {error.reason}. Check the address."
            ) from None
        # URLError is an OSError; http.client has errors of its own for answers that are no HTTP.
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ZooError(
                f"{url}: expected a file that can be fetched, received an error ({reason}). Check "
                "the address and the network."
            ) from None
        data = files.within(data, limit, url, ZooError)
        if stated.isdecimal() and len(stated) < 20 and len(data) < int(stated):
            raise ZooError(f"{url}: expected {stated} bytes, received {len(data)}. Try again.")
        return data

    def _fetch(self, url, limit):
        """At most `limit` + 1 bytes, and how many the server said there are."""
        parts, room = [], limit + 1
        with urllib.request.build_opener(_WebOnly).open(url, timeout=TIMEOUT_SECONDS) as answer:
            # Not read, which waits for all of it as long as something comes now and then.
            while room and (part := answer.read1(min(room, _CHUNK))):
                if time.monotonic() > self._deadline:
                    raise _LateError
                parts.append(part)
                room -= len(part)
            return b"".join(parts), answer.headers.get("Content-Length", "")


class _LateError(RuntimeError):
    """The deadline is over."""


def _in_time(function, deadline):
    """What a function returns or raises before the deadline.

    In a thread, since nothing else ends a server's headers, or a name server's search, that come
    one byte at a time. A thread that is late ends with its connection, or with the process.
    """
    found = {}

    def run():
        try:
            found["value"] = function()
        except BaseException as error:
            found["error"] = error

    thread = threading.Thread(target=run, name="download", daemon=True)
    thread.start()
    thread.join(max(0.0, deadline - time.monotonic()))
    if "error" in found:
        raise found["error"]
    if "value" not in found:
        raise _LateError
    return found["value"]


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but never from https to http, nor to anything else."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        scheme = urllib.parse.urlsplit(newurl).scheme
        if scheme not in ("https", req.type):
            raise ZooError(
                f"{req.full_url}: expected a redirect to https, received {newurl[:200]!r}. Pass "
                "the address of the folder itself."
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)
