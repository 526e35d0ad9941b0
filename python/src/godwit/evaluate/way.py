"""Owns the question whether another user could lead the writes of root elsewhere. Looks at owners and permissions alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Optional

from ..errors import SetupError

_ROOT = 0
# Most links on a path, as in the kernel.
_LINKS_MAX = 40


def check(place: Path) -> None:
    """Refuses a place where root would follow links of another user. Other users write with their own rights only."""
    _refuse(place, is_folder=False)


def check_folder(directory: Path) -> None:
    """The same for a directory in which root writes files by names that others know: there the sticky bit stops no link."""
    _refuse(directory, is_folder=True)


def write(file: Path, text: str) -> None:
    """Writes a file, and follows no link of its name."""
    check(file)
    try:
        made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise SetupError("local_failure", f"{file}: {error.strerror}") from error
    with os.fdopen(made, "w", encoding="utf-8") as opened:
        opened.write(text)


def _refuse(place: Path, *, is_folder: bool) -> None:
    if os.geteuid() != _ROOT:
        return
    try:
        found = _weakness(place.absolute(), _LINKS_MAX) or (_shared(place) if is_folder else None)
    except OSError as error:
        raise SetupError("local_failure", f"{place}: {error.strerror}") from error
    if found:
        raise SetupError(
            "usage",
            f"{place}: {found}, and could lead what root writes and removes there to other files; "
            "name a directory that only root may change, or run this as another user",
        )


def _shared(directory: Path) -> Optional[str]:
    """How another user could put a link into a directory whose sticky bit keeps the entries of root; None if none can."""
    try:
        found = directory.stat()
    except FileNotFoundError:
        return None
    bits = stat.S_IWGRP | stat.S_IWOTH
    if not (found.st_mode & stat.S_ISVTX and found.st_mode & bits):
        return None
    return f"other users may make entries in {directory} (mode {found.st_mode & 0o7777:04o})"


def _weakness(path: Path, links: int) -> Optional[str]:
    """How another user could replace the entry at a path; None if none can. A missing entry counts as its directory does."""
    for place in [*[*path.parents][::-1], path]:
        try:
            found = place.lstat()
        except FileNotFoundError:
            return None
        if found.st_uid != _ROOT and not _is_unmapped(found.st_uid):
            return f"{place} belongs to another user (uid {found.st_uid})"
        if stat.S_ISLNK(found.st_mode):
            if links == 0:
                return f"{place} leads over too many links"
            why = _weakness(place.parent / place.readlink(), links - 1)
            if why:
                return why
        elif _is_open(place, found):
            return f"other users may write in {place} (mode {found.st_mode & 0o777:03o})"
    return None


def _is_open(place: Path, found: os.stat_result) -> bool:
    """Whether others may replace entries of root. In a sticky directory they cannot."""
    if found.st_mode & stat.S_ISVTX:
        return False
    # With an access list, the bits of the group bound all its users and groups.
    by_group = found.st_mode & stat.S_IWGRP and (found.st_gid != _ROOT or _has_list(place))
    return bool(found.st_mode & stat.S_IWOTH or by_group)


def _has_list(place: Path) -> bool:
    try:
        return "system.posix_acl_access" in os.listxattr(place)
    except OSError:
        return False


def _is_unmapped(uid: int) -> bool:
    """Whether this is the id that a user namespace shows for users outside it. No process of the namespace is such a user."""
    is_whole = _read("/proc/self/uid_map").split() == ["0", "0", "4294967295"]
    return not is_whole and _read("/proc/sys/kernel/overflowuid").strip() == str(uid)


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="ascii")
    except OSError:
        return ""
