"""Owns which node is asked, and with which credentials, as the command `godwit` finds them. Opens no connection."""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional, Tuple, Union

from .errors import SetupError

PathLike = Union[str, "os.PathLike[str]"]

PORT = 7272
SYSTEM_HOME = Path("/var/lib/godwit")
SYSTEM_SOCKET = Path("/run/godwit/node.sock")

# The longest file of a secret.
_SECRET_BYTES = 4096
_HOST = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True)
class Address:
    """A node of this machine by its socket, or another one by host and port."""

    socket: Optional[Path] = None
    host: str = ""
    port: int = PORT
    token: Optional[str] = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """The base of all requests. A node at a socket takes a dot or a port in its name for the work of a proxy."""
        return "http://localhost" if self.socket else f"https://{self.host_port}"

    @property
    def host_port(self) -> str:
        """Host and port, as the file of trusted nodes names them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"the node at {self.socket}" if self.socket else f"the node {self.url}"


def find(
    node: Optional[str] = None,
    *,
    socket: Optional[PathLike] = None,
    token: Optional[str] = None,
    token_file: Optional[PathLike] = None,
) -> Address:
    """The node that the arguments name, else the environment, else the node of this machine."""
    if node and socket:
        raise SetupError("usage", "name either a node or a socket")
    if socket:
        return Address(socket=Path(socket))
    node = node or os.environ.get("GODWIT_NODE")
    if not node:
        if token or token_file:
            raise SetupError("usage", "a token is for a node elsewhere: name its URL; a node here knows who calls")
        return Address(socket=_socket_here())
    host, port = _https(node)
    return Address(host=host, port=port, token=_token(token, token_file))


def home() -> Optional[Path]:
    """GODWIT_HOME, else the directory of the XDG rules; None without a home directory."""
    named = os.environ.get("GODWIT_HOME")
    if named:
        return Path(named).absolute()
    data = os.environ.get("XDG_DATA_HOME", "")
    if data.startswith("/"):
        return Path(data) / "godwit"
    user = os.environ.get("HOME", "")
    return Path(user) / ".local/share/godwit" if user.startswith("/") else None


def parse_host(text: str) -> Tuple[str, int]:
    """Reads `HOST[:PORT]`."""
    match = _HOST.fullmatch(text)
    if not match:
        raise SetupError("usage", f"{text!r} is no host with a port")
    host = match["name"] or match["v6"]
    if match["v6"]:
        try:
            host = str(ipaddress.IPv6Address(host))
        except ValueError as error:
            raise SetupError("usage", f"{text!r} is no host with a port: {error}") from None
    port = int(match["port"] or PORT)
    if port > 65535:
        raise SetupError("usage", f"{port} is no port: write a number up to 65535")
    return host.lower(), port


def read_secret(path: PathLike) -> str:
    """The one word in a file that only its owner can read."""
    try:
        with Path(path).open("rb") as file:
            _check_closed(path, os.fstat(file.fileno()))
            content = file.read(_SECRET_BYTES + 1)
    except OSError as error:
        raise SetupError("local_failure", f"cannot read {path}: {error.strerror}") from error
    word = content.strip()
    if not word or len(content) > _SECRET_BYTES or not all(0x21 <= byte <= 0x7E for byte in word):
        raise SetupError("local_failure", f"{path} must hold one token and nothing else, as godwit token create prints it")
    return word.decode("ascii")


def _check_closed(path: PathLike, found: os.stat_result) -> None:
    """A file of root may be readable by its group, through which root gives it to a service."""
    from_root = found.st_uid == 0 and os.geteuid() != 0
    is_open, wanted = (0o037, "640") if from_root else (0o077, "600")
    mode = stat.S_IMODE(found.st_mode)
    if mode & is_open:
        raise SetupError(
            "local_failure",
            f"{path} holds a secret, but is open to other users (mode {mode & 0o777:03o}); close it with: "
            f"chmod {wanted} {path}. If others may have read it, replace the secret",
        )


def _socket_here() -> Path:
    """A named socket or home comes first, then the user's node if there is one, then the node of the system."""
    named = os.environ.get("GODWIT_SOCKET")
    if named:
        return Path(named)
    own = home()
    if own and (os.environ.get("GODWIT_HOME") or (own / "run/node.sock").exists()):
        return own / "run/node.sock"
    return SYSTEM_SOCKET if SYSTEM_SOCKET.exists() else SYSTEM_HOME / "run/node.sock"


def _https(node: str) -> Tuple[str, int]:
    rest = node[len("https://") :] if node.startswith("https://") else ""
    rest = rest[:-1] if rest.endswith("/") else rest
    if not rest:
        raise SetupError("usage", f"{node!r}: write https://HOST or https://HOST:PORT")
    return parse_host(rest)


def _token(token: Optional[str], token_file: Optional[PathLike]) -> str:
    """An argument comes before the environment."""
    if token and token_file:
        raise SetupError("usage", "give either a token or the file of one")
    if not token and not token_file:
        token, token_file = os.environ.get("GODWIT_TOKEN"), os.environ.get("GODWIT_TOKEN_FILE")
    if token:
        return token
    if token_file:
        return read_secret(token_file)
    raise SetupError(
        "no_credentials",
        "a node elsewhere asks for a token: name its file by token_file or GODWIT_TOKEN_FILE; "
        "on the machine of the node, godwit token create makes one",
    )
