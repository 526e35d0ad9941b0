"""Owns the command `godwit-evaluate`: its arguments, and which part does what they ask. Measures nothing."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import signal
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, List, Optional

from ..client import Client
from ..errors import GodwitError
from ..shown import printable_lines
from ..version import VERSION

# No processor is busier than this.
_ANY_LOAD = 1.1

if TYPE_CHECKING:
    from .emulated import Emulated
    from .plan import Plan


def main(arguments: Optional[List[str]] = None) -> None:
    """Runs the command."""
    asked = _asked(sys.argv[1:] if arguments is None else arguments)
    # A service that is stopped leaves no more behind than a command that is interrupted.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _COMMANDS[asked.command](asked)
    except ImportError as error:
        sys.exit(f"godwit-evaluate: {error}: install it with: pip install 'godwit[evaluate]'")
    except GodwitError as error:
        sys.exit(f"godwit-evaluate: {error}\n{error.advice}")
    except KeyboardInterrupt:
        sys.exit("godwit-evaluate: stopped")


def _asked(given: List[str]) -> argparse.Namespace:
    # `godwit-evaluate plan.toml` is short for `godwit-evaluate run plan.toml`.
    if given and given[0] not in _COMMANDS and not given[0].startswith("-"):
        given = ["run", *given]
    asked = _parser().parse_args(given)
    asked.given = given
    return asked


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="godwit-evaluate", description="Measures what a path, its hosts and its storage give, and how sure that is."
    )
    made.add_argument("--version", action="version", version=VERSION)
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="measure by a plan; the same command with the same --out goes on where it was stopped")
    run.add_argument("plan", help="a file, or the name of a ready-made plan")
    _add_places(run)
    verify = commands.add_parser("verify-network", help="measure the path and the storage apart, and name the lowest ceiling")
    verify.set_defaults(plan="verify-network")
    _add_places(verify)
    compare = commands.add_parser("compare", help="say whether B is better or worse than A, or undecided")
    compare.add_argument("a", type=Path, metavar="A", help="a folder of results")
    compare.add_argument("b", type=Path, metavar="B", nargs="?", help="another one")
    compare.add_argument("--settings", metavar="X,Y", help="two settings of the one folder A, by the words that differ")
    compare.add_argument("--figure", choices=("bytes_per_second", "seconds"), default="bytes_per_second")
    compare.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    report = commands.add_parser("report", help="write the report again")
    report.add_argument("folder", type=Path, help="a folder of results")
    _add_machines(report)
    commands.add_parser("machine", help="print a description of this machine, for an evaluation that runs on another one")
    commands.add_parser("plans", help="list the ready-made plans").add_argument("name", nargs="?", help="print this one")
    return made


def _add_machines(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--machine",
        metavar="NAME=FILE",
        action="append",
        default=[],
        help="a file with the output of godwit-evaluate machine there",
    )


def _add_places(run: argparse.ArgumentParser) -> None:
    run.add_argument("--source", metavar="PLACE", help="SITE:/EXPORT/PATH that the evaluation may fill")
    run.add_argument("--source-directory", metavar="DIR", help="the same directory on this machine")
    run.add_argument("--destination", metavar="PLACE", help="SITE:/EXPORT/PATH that the evaluation may fill and empty")
    run.add_argument("--destination-directory", metavar="DIR", help="of an emulated path: where the far site keeps its files")
    run.add_argument("--site", metavar="PLACE", action="append", help="of a matrix: SITE:/EXPORT/PATH; the first one is here")
    run.add_argument(
        "--emulate", metavar="RATE[,DELAY[,LOSS]]", help="both sites here, joined by such a path: 1Gbit/s,10ms,0.01%%"
    )
    run.add_argument("--repetitions", type=int, metavar="N", help="instead of those of the plan")
    run.add_argument("--seconds", type=float, metavar="S", help="of a run from memory, instead of those of the plan")
    run.add_argument("--fit", action="store_true", help="sets on disk are made so small that one job moves each in --seconds")
    run.add_argument("--within", metavar="TIME", help="no run begins that would end later: 10min, 7d")
    run.add_argument("--busy", action="store_true", help="measure beside other load of this machine: the report says so")
    run.add_argument("--factor", metavar="NAME=V,V", action="append", default=[], help="a factor with its values, as in the plan")
    run.add_argument(
        "--watch",
        metavar="NAME=URL[,TOKEN_FILE[,FINGERPRINT]]",
        action="append",
        default=[],
        help="sample the host of this node, too; NAME=SOCKET is a node of this machine",
    )
    run.add_argument("--scale", type=float, help="all data sets by this factor, such as 0.01")
    run.add_argument("--out", type=Path, metavar="DIR", help="the folder of the results; else one by the time")
    run.add_argument("--yes", action="store_true", help="begin without asking")
    run.add_argument("--json", action="store_true", help="print the verdict as JSON: each ceiling, its stage, and the lowest one")
    run.add_argument("--keep-data", action="store_true", help="leave the data sets for the next evaluation")
    _add_machines(run)
    run.add_argument("--node", metavar="URL", help="https://HOST[:PORT]; else GODWIT_NODE, else the node of this machine")
    run.add_argument("--token-file", metavar="FILE", help="the file with the token; else GODWIT_TOKEN_FILE")
    run.add_argument("--fingerprint", metavar="SHA256", help="of the node's certificate or of its key")


def _run(asked: argparse.Namespace) -> None:
    from . import machine
    from .emulated import Emulated
    from .plan import load

    asked.machines = machine.described(asked.machine)
    places = {name: getattr(asked, name) for name in ("source", "source_directory", "destination", "destination_directory")}
    given = {name: getattr(asked, name) for name in ("scale", "repetitions", "within", "seconds")}
    given["idle_below"] = _ANY_LOAD if asked.busy else None
    given["fit"] = True if asked.fit else None
    emulate = dict(zip(("rate", "delay", "loss"), asked.emulate.split(","))) if asked.emulate else None
    plan = load(
        asked.plan,
        {**places, "sites": asked.site},
        run={key: value for key, value in given.items() if value is not None},
        factors=asked.factor,
        watch=asked.watch,
        emulate=emulate,
    )
    if plan.path is None:
        with Client(asked.node, token_file=asked.token_file, fingerprint=asked.fingerprint) as client:
            _evaluate(asked, client, plan, None)
    else:
        with Emulated(plan) as made, Client(socket=made.socket) as client:
            _evaluate(asked, client, dataclasses.replace(plan, watch=(*made.watch(), *plan.watch)), made)


def _evaluate(asked: argparse.Namespace, client: Client, plan: Plan, made: Optional[Emulated]) -> None:
    from . import advice, verdict
    from .campaign import Campaign
    from .report import write
    from .results import Results

    out = asked.out or Path(datetime.now().strftime("evaluation-%Y%m%d-%H%M%S"))
    # Another user may foresee a name by the time, and lead the files elsewhere by links.
    results = Results(out, must_be_new=asked.out is None)
    campaign = Campaign(client, plan, results, _say, path=made)
    try:
        campaign.prepare()
        results.put_machines(asked.machines)
        if campaign.left():
            _say(campaign.cost())
            _agree(asked.yes)
    except BaseException:
        campaign.forget()
        raise
    if campaign.left():
        try:
            campaign.make()
            campaign.run()
        except KeyboardInterrupt:
            sys.exit(f"godwit-evaluate: stopped; go on with: {_again(asked, out)}")
        except GodwitError:
            _say(f"go on with: {_again(asked, out)}")
            raise
        finally:
            # A stopped campaign still writes the tables of its measurements.
            campaign.tables()
    if not asked.keep_data:
        campaign.remove()
    runs = Results(out).runs()
    print(json.dumps(verdict.judge(runs).document(), indent=1) if asked.json else printable_lines(advice.as_text(runs)))
    _say(f"results: {out}")
    _say(f"the report: {write(out)}")


def _again(asked: argparse.Namespace, out: Path) -> str:
    """The command that resumes a stopped evaluation."""
    return shlex.join(["godwit-evaluate", *asked.given, *([] if asked.out else ["--out", str(out)])])


def _compare(asked: argparse.Namespace) -> None:
    from . import comparison

    if asked.b is not None:
        rows = comparison.folders(asked.a, asked.b, asked.figure)
    else:
        first, second = comparison.split(asked.settings)
        rows = comparison.settings(asked.a, first, second, asked.figure)
    print(comparison.document(rows) if asked.json else printable_lines(comparison.text(rows)))


def _report(asked: argparse.Namespace) -> None:
    from . import machine
    from .report import write
    from .results import Results

    Results(asked.folder).put_machines(machine.described(asked.machine))
    print(write(asked.folder))


def _machine(_: argparse.Namespace) -> None:
    from . import machine

    machine.tell()


def _plans(asked: argparse.Namespace) -> None:
    from .plan import names, ready_made

    print(ready_made(asked.name) if asked.name else "\n".join(names()))


def _agree(has_agreed: bool) -> None:
    if has_agreed:
        return
    if not sys.stdin.isatty():
        sys.exit("godwit-evaluate: nothing has begun; add --yes to begin without asking")
    if input("Begin? [y/N] ").strip().lower() not in ("y", "yes"):
        sys.exit("godwit-evaluate: nothing has begun")


def _say(text: str) -> None:
    print(printable_lines(text), file=sys.stderr, flush=True)


_COMMANDS = {
    "run": _run,
    "verify-network": _run,
    "compare": _compare,
    "report": _report,
    "machine": _machine,
    "plans": _plans,
}
