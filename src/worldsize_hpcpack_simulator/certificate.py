"""The head node's certificate, signed by an authority of its own that clients are told to trust."""

from __future__ import annotations

import ipaddress
import socket
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509

_YEAR = timedelta(days=366)


class Certificate(NamedTuple):
    """PEM. `authority` is for clients; `chain` and `key` are the server's."""

    authority: bytes
    chain: bytes
    key: bytes


def issue(days: float) -> Certificate:
    """For localhost, 127.0.0.1 and this machine's name; it holds for `days`; below 0: it expired so long ago."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    now = datetime.now(timezone.utc)
    end = now + timedelta(days=days)
    root, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "HPC Pack simulator CA")])
    own_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "HPC Pack simulator")])

    def certificate(name: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder(root_name, name, key, x509.random_serial_number())
        return builder.not_valid_before(min(now, until) - _YEAR).not_valid_after(until)

    authority = certificate(root_name, root.public_key(), max(now, end) + _YEAR)
    authority = authority.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    signer = x509.SubjectKeyIdentifier.from_public_key(root.public_key())
    authority = authority.add_extension(signer, critical=False).add_extension(_signing_usage(), critical=True)
    server = certificate(own_name, own.public_key(), end)
    hosts = [*map(x509.DNSName, host_names()), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = server.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    server = server.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    server = server.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    known = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer)
    server = server.add_extension(known, critical=False)
    pem = serialization.Encoding.PEM
    key = own.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Certificate(
        authority.sign(root, hashes.SHA256()).public_bytes(pem),
        server.sign(root, hashes.SHA256()).public_bytes(pem),
        key,
    )


def _signing_usage() -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(True, False, False, False, False, True, True, False, False)


def host_names() -> list[str]:
    """The names of this machine that a certificate can hold."""
    host = socket.gethostname()
    plain = host.isascii() and all(part and not part.startswith("-") for part in host.replace("_", "-").split("."))
    return list(dict.fromkeys(["localhost", *([host] if plain else [])]))
