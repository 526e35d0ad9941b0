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


def check(directory: Path) -> None:
    """Refuses a directory in which root would follow links of another user. Other users write with their own rights only."""
    if os.geteuid() != _ROOT:
        return
    try:
        found = _weakness(directory.absolute(), _LINKS_MAX)
    except OSError as error:
        raise SetupError("local_failure", f"{directory}: {error.strerror}") from error
    if found:
        raise SetupError(
            "usage",
            f"{directory}: {found}, and could lead what root writes and removes there to other files; "
            "run this as that user, or name a directory that only root may change",
        )


def _weakness(path: Path, links: int) -> Optional[str]:
    """How another user could replace what is at a path or in it; None if none can. What is missing stands in what is there."""
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
