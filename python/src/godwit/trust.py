"""Owns the check of a node's certificate: a pinned fingerprint, else the authorities of this system. Opens no connection."""

from __future__ import annotations

import hashlib
import re
import ssl
from pathlib import Path
from typing import Any, Optional

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_der_x509_certificate

from .address import home, parse_host
from .errors import CertificateError, SetupError

_KNOWN_BYTES = 1 << 20


def context(host_port: str, fingerprint: Optional[str] = None) -> ssl.SSLContext:
    """TLS to this node, by the given fingerprint, else by that of the file of trusted nodes, else by the authorities."""
    pin = parse_fingerprint(fingerprint) if fingerprint else known(host_port)
    made = ssl.create_default_context()
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    if pin is None:
        return made
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    # The check belongs to the handshake, so that no request leaves before it.
    made.sslsocket_class = _pinned(ssl.SSLSocket, host_port, pin)
    made.sslobject_class = _pinned(ssl.SSLObject, host_port, pin)
    return made


def known(host_port: str) -> Optional[bytes]:
    """The fingerprint that `godwit node trust` remembered."""
    directory = home()
    if directory is None:
        return None
    path = directory / "known_web"
    found = None
    for number, line in enumerate(_text(path).splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        try:
            node, text = words
            host, port = parse_host(node)
            pin = parse_fingerprint(text)
        except (ValueError, SetupError) as error:
            raise SetupError("local_failure", f"{path}:{number}: write HOST:PORT FINGERPRINT: {error}") from None
        if (host, port) == parse_host(host_port):
            found = pin
    return found


def parse_fingerprint(text: str) -> bytes:
    """Reads 64 hexadecimal digits, with or without colons and `sha256:`."""
    bare = re.sub(r"^sha256:", "", text, flags=re.IGNORECASE).replace(":", "")
    if not re.fullmatch(r"[0-9A-Fa-f]{64}", bare):
        raise SetupError(
            "usage", f"{text!r} is no fingerprint: write 64 hexadecimal digits, as the node prints them at its start"
        )
    return bytes.fromhex(bare)


def key_fingerprint(certificate: bytes) -> bytes:
    """The fingerprint of the key in a certificate in DER. ValueError if it is not strict DER."""
    # A lenient reader could find another key than the one that the handshake used.
    key = load_der_x509_certificate(certificate).public_key()
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


def _pinned(base: Any, host_port: str, pin: bytes) -> Any:
    class Pinned(base):  # type: ignore[misc]
        """Ends its handshake only with the expected certificate."""

        def do_handshake(self, *arguments: Any) -> None:
            super().do_handshake(*arguments)
            _check(self.getpeercert(binary_form=True) or b"", host_port, pin)

    return Pinned


def _check(certificate: bytes, host_port: str, pin: bytes) -> None:
    if hashlib.sha256(certificate).digest() == pin:
        return
    try:
        key = key_fingerprint(certificate)
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateError("tls_failed", f"{host_port} showed a certificate that cannot be read") from None
    if key != pin:
        raise CertificateError(
            "identity_changed",
            f"{host_port} showed a certificate whose key is sha256:{key.hex()}, but sha256:{pin.hex()} is expected: the "
            "node has a new certificate, or another machine answers. Ask its operator for the fingerprint of the key; if "
            "it is new, run: godwit node trust URL FINGERPRINT",
        )


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_KNOWN_BYTES + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise SetupError("local_failure", f"cannot read {path}: {error.strerror}") from error
    if len(content) > _KNOWN_BYTES:
        raise SetupError("local_failure", f"cannot read {path}: it is larger than 1 MiB")
    return content.decode("utf-8", "replace")
