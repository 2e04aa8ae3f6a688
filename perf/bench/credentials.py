"""The certificate all contenders share, and RS256 tokens with the key set that verifies them.

Keys come from the `openssl` program; tokens are signed here (RFC 8017, RSASSA-PKCS1-v1_5 with the
Chinese remainder theorem), because starting a process for each of thousands of tokens would take
minutes.
"""

import base64
import hashlib
import json
import subprocess
import time
from pathlib import Path

ISSUER = "https://issuer.perf.invalid/"
AUDIENCE = "perf"
CLIENT = "perf"
_KEY_ID = "perf-1"
#: DER prefix of a SHA-256 DigestInfo (RFC 8017, section 9.2, note 1).
_DIGEST_INFO = bytes.fromhex("3031300d060960864801650304020105000420")
#: Longer than any run.
_LIFETIME = 12 * 3600


def make_certificate(folder: Path) -> None:
    """Writes `tls.crt`, `tls.key` and both in `tls.pem`: P-256, self-signed, for 127.0.0.1.

    P-256 and not RSA, because the 100 handshakes that open a measured window must not weigh in
    what is measured: about 0.1 ms each instead of about 1 ms.
    """
    crt, key = folder / "tls.crt", folder / "tls.key"
    _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
             "-nodes", "-keyout", str(key), "-out", str(crt), "-days", "2",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    (folder / "tls.pem").write_bytes(crt.read_bytes() + key.read_bytes())


class Signer:
    """An RSA-2048 key that signs tokens."""

    def __init__(self, folder: Path):
        pem = folder / "issuer.key"
        _openssl("genrsa", "-out", str(pem), "2048")
        der = _openssl("rsa", "-in", str(pem), "-traditional", "-outform", "DER")
        (_, self._n, self._e, _, self._p, self._q, self._dp, self._dq,
         self._q_inverse) = _der_integers(der)

    def write_key_set(self, path: Path) -> None:
        """Writes the JWKS with the public key."""
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID,
               "n": _base64url(_bytes(self._n)), "e": _base64url(_bytes(self._e))}
        path.write_text(json.dumps({"keys": [key]}))

    def tokens(self, count: int) -> list[str]:
        """`count` distinct tokens, valid for longer than any run."""
        now = int(time.time())
        head = _base64url(json.dumps({"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}).encode())
        tokens = []
        for number in range(count):
            claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "perf", "client_id": CLIENT,
                      "iat": now, "exp": now + _LIFETIME, "jti": f"{now}-{number}"}
            text = f"{head}.{_base64url(json.dumps(claims).encode())}"
            tokens.append(f"{text}.{_base64url(self._sign(text.encode()))}")
        return tokens

    def _sign(self, message: bytes) -> bytes:
        length = (self._n.bit_length() + 7) // 8
        digest = _DIGEST_INFO + hashlib.sha256(message).digest()
        block = b"\x00\x01" + b"\xff" * (length - len(digest) - 3) + b"\x00" + digest
        number = int.from_bytes(block, "big")
        at_p, at_q = pow(number, self._dp, self._p), pow(number, self._dq, self._q)
        signature = at_q + (self._q_inverse * (at_p - at_q)) % self._p * self._q
        return signature.to_bytes(length, "big")


def _openssl(*arguments: str) -> bytes:
    done = subprocess.run(["openssl", *arguments], capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr.decode().strip()}")
    return done.stdout


def _der_integers(der: bytes) -> list[int]:
    """The integers of a DER sequence of nothing but integers (an RSAPrivateKey)."""
    at, _ = _der_length(der, 1)
    numbers = []
    while at < len(der):
        start, length = _der_length(der, at + 1)
        numbers.append(int.from_bytes(der[start:start + length], "big"))
        at = start + length
    return numbers


def _der_length(der: bytes, at: int) -> tuple[int, int]:
    """Where the contents start whose length stands at `at`, and that length."""
    first = der[at]
    if first < 0x80:
        return at + 1, first
    size = first & 0x7F
    return at + 1 + size, int.from_bytes(der[at + 1:at + 1 + size], "big")


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
