"""Lists the tests that were skipped, with their reasons, and fails on a reason that .ci/skips.txt does not allow.

``python .ci/skips.py REPORT.xml...`` reads what pytest's ``--junit-xml`` has written. ``NOT_INSTALLED`` names packages
that this machine could not install, by words of the reasons of tests that need them.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ALLOWED = Path(__file__).parent / "skips.txt"


def skipped(report: Path) -> Counter[str]:
    """Return the reasons of skipped tests, with how many tests each kept from running."""
    found: Counter[str] = Counter()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        for skip in case.iter("skipped"):
            if skip.get("type") == "pytest.skip":  # an expected failure is listed there too
                found[skip.get("message", "")] += 1
    return found


def allowed(text: str) -> list[re.Pattern[str]]:
    """Return the patterns of a list of allowed reasons."""
    lines = [line.partition("  #")[0].strip() for line in text.splitlines() if not line.startswith("#")]
    return [re.compile(line) for line in lines if line]


def main(reports: list[str]) -> int:
    """Return 0 if every reason is allowed, and there is a report at all."""
    patterns = allowed(ALLOWED.read_text(encoding="utf-8"))
    patterns += [re.compile(word, re.IGNORECASE) for word in os.environ.get("NOT_INSTALLED", "").split()]
    reasons = sum((skipped(Path(report)) for report in reports), Counter[str]())
    unknown = 0
    for reason, tests in reasons.most_common():
        known = any(pattern.search(reason) for pattern in patterns)
        unknown += not known
        print(f"{'skipped' if known else 'NOT ALLOWED'}: {tests} test{'s' * (tests > 1)}: {reason}")
    if unknown:
        print(f"install what these tests need, or say in {ALLOWED.name} why they may be skipped", file=sys.stderr)
    return 1 if unknown or not reports else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
