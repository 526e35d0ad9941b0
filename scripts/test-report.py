#!/usr/bin/env python3
"""Prints the closing lines of a run of the tests, the last of which is `N passed, N failed, N skipped`.
usage: test-report.py JUNIT_XML"""

import re
import sys
import xml.etree.ElementTree as xml

# As godwit_testkit::skip prints it.
SKIPPED = re.compile(r"^skipped: (.*)$", re.MULTILINE)


def name(case):
    return f"{case.get('classname')} {case.get('name')}"


def main():
    passed = failed = skipped = 0
    flaky = []
    for case in xml.parse(sys.argv[1]).iter("testcase"):
        said = "".join(part.text or "" for part in case.iter("system-out"))
        reason = SKIPPED.search(said)
        mishap = case.find("failure")
        if mishap is None:
            mishap = case.find("error")
        if mishap is not None:
            failed += 1
            print(f"failed: {name(case)}: {mishap.get('type') or mishap.get('message')}")
        elif reason:
            skipped += 1
            print(f"skipped: {name(case)}: {reason.group(1)}")
        else:
            passed += 1
        if case.find("flakyFailure") is not None or case.find("flakyError") is not None:
            flaky.append(name(case))
    for test in flaky:
        print(f"flaky: {test}: failed, and passed when it ran again")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")


main()
