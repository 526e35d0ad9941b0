"""Owns the version of the package, as it was installed."""

from importlib.metadata import version

VERSION = version("godwit")
