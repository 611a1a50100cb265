"""What may be repeated of a server's words and of an address: never a prompt, a key or a credential."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_MESSAGE = 200
_WINDOW = 12
_WITHHELD = "(the server's message is withheld: it repeats parts of the request)"


def server_words(message: str, body: bytes, *, secrets: Iterable[str] = ()) -> str:
    """One line of a server's message, or a note when it repeats the request or a secret.

    >>> server_words("bad prompt: Once upon a time there", b'{"prompt":"Once upon a time there was"}')
    "(the server's message is withheld: it repeats parts of the request)"
    """
    line = " ".join(message.split())[:LONGEST_MESSAGE]
    if any(secret and secret in line for secret in secrets):
        return _WITHHELD
    told, asked = _bare(line), _bare(body.decode("utf-8", "replace"))
    starts = range(max(0, len(told) - _WINDOW + 1))
    return _WITHHELD if any(told[start : start + _WINDOW] in asked for start in starts) else line


def _bare(text: str) -> str:
    return re.sub(r'[\s"\\]', "", text)


def public_url(url: str) -> str:
    """Address without user, password, query and fragment.

    >>> public_url("https://me:secret@example.org:8000/v1?key=1")
    'https://example.org:8000/v1'
    """
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path}"


def masked_url(url: str) -> str:
    """Address as run files show it: scheme, port and path; the host only when it is this machine.

    >>> masked_url("http://10.1.2.3:8000/v1"), masked_url("http://127.0.0.1:8000")
    ('http://***:8000/v1', 'http://127.0.0.1:8000')
    """
    host = urlsplit(url).hostname or ""
    if host in {"127.0.0.1", "localhost", "::1"}:
        return public_url(url)
    return public_url(url).replace(f"[{host}]" if ":" in host else host, "***", 1)
