"""TLS: whose certificates are believed, and which one is shown. What a program says, else what the environment says, as for the commands:

    MILLRACE_TLS_CA              the authorities, in PEM; nobody else's certificates are believed
    MILLRACE_TLS_CERT, _KEY      shown to servers that ask for one; the key may be in the same file
"""

import functools
import os
import ssl

from .errors import NotFound

CA, CERT, KEY = "MILLRACE_TLS_CA", "MILLRACE_TLS_CERT", "MILLRACE_TLS_KEY"


def believed(said: ssl.SSLContext | None = None) -> ssl.SSLContext | None:
    """What `said` says, or the environment; `None`: nobody is believed. Raises `NotFound` where a file of the environment cannot be used."""
    ca = os.environ.get(CA)
    if said is not None or not ca:
        return said
    return _of_files(ca, os.environ.get(CERT) or None, os.environ.get(KEY) or None)


@functools.cache
def _of_files(ca: str, cert: str | None, key: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
        if cert is not None:
            context.load_cert_chain(cert, key)
    except OSError as cause:
        raise NotFound(f"{CA}, {CERT} and {KEY} must name files in PEM that can be read: {ca}, {cert}, {key}: {cause}") from None
    return context
