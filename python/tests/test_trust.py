"""Servers with certificates of every kind of key, and with a forged one."""

from __future__ import annotations

import datetime
import hashlib
import socket
import ssl
import threading

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import godwit

ECDSA_WITH_SHA256 = bytes.fromhex("300a06082a8648ce3d040302")
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{"role":"admin"}'


def key_of(certificate):
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def certificate_for(key, name):
    day = datetime.datetime(2026, 1, 1)
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(key.public_key()).serial_number(7)
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return made.not_valid_before(day).not_valid_after(day + datetime.timedelta(days=9000)).sign(key, digest)


def sequence(content):
    return b"\x30\x82" + len(content).to_bytes(2, "big") + content


def inside(der):
    """The content of an element of DER with a definite length."""
    count = der[1] & 0x7F if der[1] & 0x80 else 0
    return der[2 + count :]


def forged(attacker, victim):
    """The certificate of the attacker, with the victim's key inside an element of indefinite length, where OpenSSL skips it."""
    tbs = attacker.tbs_certificate_bytes
    after = attacker.public_bytes(Encoding.DER).partition(tbs)[2]
    algorithm = b"\x30\x80" + ECDSA_WITH_SHA256[2:] + b"\x30\x80\x05\x00" + key_of(victim) + bytes(4)
    before, _, rest = inside(tbs).partition(ECDSA_WITH_SHA256)
    return sequence(sequence(before + algorithm + rest) + after)


class Server:
    """Shows a certificate, and keeps what it is sent."""

    def __init__(self, directory, der, key):
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        path = directory / "shown.pem"
        path.write_text(ssl.DER_cert_to_PEM_cert(der) + pem)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(path)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self.taken = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                raw, _ = self._listener.accept()
            except OSError:
                return
            # The client may hang up at any time.
            try:
                with self._tls.wrap_socket(raw, server_side=True) as stream:
                    got = stream.recv(1 << 16)
                    if got:
                        self.taken.append(got)
                        stream.sendall(ANSWER)
            except OSError:
                raw.close()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def ask(url, fingerprint, *, awaited):
    if not awaited:
        with godwit.Client(url, token="gwt_secret", fingerprint=fingerprint) as client:
            return client.node.get()["role"]

    async def walk():
        async with godwit.AsyncClient(url, token="gwt_secret", fingerprint=fingerprint) as client:
            return (await client.node.get())["role"]

    return anyio.run(walk)


@pytest.mark.parametrize("awaited", [False, True])
def test_a_key_hidden_in_a_forged_certificate_is_not_the_pinned_one(tmp_path, awaited):
    own, attackers = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    victim = certificate_for(own, "victim")
    server = Server(tmp_path, forged(certificate_for(attackers, "attacker"), victim), attackers)
    pin = hashlib.sha256(key_of(victim)).hexdigest()
    with pytest.raises(godwit.CertificateError) as refused:
        ask(server.url, pin, awaited=awaited)
    server.close()
    assert refused.value.code == "tls_failed"
    assert server.taken == []


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP384R1()),
        ed25519.Ed25519PrivateKey.generate(),
        rsa.generate_private_key(65537, 2048),
    ],
    ids=["p256", "p384", "ed25519", "rsa"],
)
def test_each_kind_of_key_can_be_pinned(tmp_path, key):
    shown = certificate_for(key, "node")
    der = shown.public_bytes(Encoding.DER)
    server = Server(tmp_path, der, key)
    for pin in (hashlib.sha256(key_of(shown)).hexdigest(), hashlib.sha256(der).hexdigest()):
        assert ask(server.url, pin, awaited=False) == "admin"
    with pytest.raises(godwit.CertificateError) as refused:
        ask(server.url, "0" * 64, awaited=False)
    server.close()
    assert refused.value.code == "identity_changed"
    assert len(server.taken) == 2
