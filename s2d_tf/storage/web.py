"""Entries on the web."""

import http.client
import urllib.error
import urllib.parse
import urllib.request

from s2d_tf import files
from s2d_tf.storage.entries import ZooError, entry_name, file_name

TIMEOUT_SECONDS = 30


class Address:
    """An entry's folder on the web."""

    def __init__(self, url):
        self.url = url.rstrip("/")

    def __str__(self):
        return self.url

    def sibling(self, name):
        return Address(f"{self.url.rpartition('/')[0]}/{entry_name(name)}")

    def read(self, name, limit):
        """The bytes of a file, at most `limit` of them."""
        url = f"{self.url}/{urllib.parse.quote(file_name(name))}"
        try:
            with urllib.request.build_opener(_WebOnly).open(url, timeout=TIMEOUT_SECONDS) as answer:
                data = answer.read(limit + 1)
                stated = answer.headers.get("Content-Length", "")
        except urllib.error.HTTPError as error:
            raise ZooError(f"{url} answered {error.code} {error.reason}.") from None
        # URLError is an OSError; http.client has errors of its own for answers that are no HTTP.
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ZooError(f"{url} cannot be fetched ({reason}).") from None
        data = files.within(data, limit, url, ZooError)
        if stated.isdecimal() and len(stated) < 20 and len(data) < int(stated):
            raise ZooError(f"{url} ended after {len(data):,} of {stated} bytes: try again.")
        return data


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but never from https to http, nor to anything else."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        scheme = urllib.parse.urlsplit(newurl).scheme
        if scheme not in ("https", req.type):
            raise ZooError(f"{req.full_url} redirects to {newurl[:200]}, which is not followed.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
