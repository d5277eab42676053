"""Damage the corpus' queries and rewrite what comes out: nothing but our own errors may come (`make fuzz`).

``mutate.py --seconds 300 --seed 1``. A query that parses as another statement passes unchanged; what must never come is
another exception, or a `PlanError`, which is a bug of ours by definition, or a rewrite that does not end.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from functools import lru_cache

from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.sql.catalog import DdlCatalog
from trijoin_sql.rewriter.sql.declarations import read_script

from trijoin_sql.errors import PlanError, TriJoinError

if __package__:
    from .goldens import generated, queries
else:
    from goldens import generated, queries

#: A rewrite that takes longer is a finding.
SLOW = 5.0

#: What the corpus does not say, or says too seldom.
_WORDS = r"""
SELECT FROM WHERE JOIN LEFT OUTER FULL SEMI ANTI CROSS NATURAL USING ON LATERAL UNION ALL INTERSECT EXCEPT WITH AS GROUP
BY HAVING ORDER LIMIT DISTINCT EXISTS IN NOT NULL IS BETWEEN LIKE CASE WHEN THEN ELSE END OVER PARTITION WINDOW STREAM
WATERMARK DELAY OF WITHIN INTERVAL MINUTES EXPLAIN CREATE TEMP VIEW VALUES PIVOT TABLESAMPLE QUALIFY ( ) , . * + - / % =
< > <> <=> || ? :x 'a' '' 1 1e400 0x 1.5BD ` " ; -- /* */ /*+ UNITS(2) SCHEME('tree') ABS( CAST( [ ] { } ü 😀 \
"""


@lru_cache
def statements() -> list[tuple[str, DdlCatalog, list[str]]]:
    """Return the queries of the corpus, the generated ones too where they are: names, schemas, tokens."""
    found = []
    for path in (*queries(), *generated()):
        catalog, texts = read_script(path.read_text(encoding="utf-8"))
        found += [(path.stem, catalog, re.findall(r"\w+|\s+|[^\w\s]", text)) for text in texts]
    return found


def mutated(dice: random.Random) -> tuple[DdlCatalog, str]:
    """Return a damaged query and its schemas."""
    _, catalog, tokens = dice.choice(statements())
    words = list(tokens)
    for _ in range(dice.choice((1, 1, 2, 3, 6))):
        at = dice.randrange(len(words))
        match dice.randint(0, 7):
            case 0:
                words[at] = " "
            case 1:
                words.insert(at, f" {dice.choice(_WORDS.split())} ")
            case 2:
                words[at] = f" {dice.choice(_WORDS.split())} "
            case 3:
                words[at] = dice.choice(dice.choice(statements())[2])
            case 4:
                other = dice.randrange(len(words))
                words[at], words[other] = words[other], words[at]
            case 5:
                words = words[:at] or [" "] if dice.random() < 0.3 else words
            case 6:
                del words[at : at + dice.randint(1, 12)]
                words = words or [" "]
            case _:
                words[at:at] = words[at : at + dice.randint(1, 12)]
    return catalog, "".join(words)


def outcome(catalog: DdlCatalog, sql: str) -> str:
    """Rewrite a text; return what became of it.

    Raises
    ------
    Exception
        Anything that is none of our errors, or our own for a broken invariant.
    """
    try:
        result = rewrite(sql, catalog)
        result.to_dict()
    except PlanError:
        raise
    except TriJoinError as error:
        return type(error).__name__
    return "converted" if result.converted else "for Spark"


def main() -> int:
    """Run until the time is over; the exit code says whether something else than our errors came."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randint(0, 10**6), help="of the first query")
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    start, seed, known = time.monotonic(), options.seed, set()
    while time.monotonic() - start < options.seconds:
        catalog, sql = mutated(random.Random(seed))
        began = time.monotonic()
        try:
            outcomes[outcome(catalog, sql)] += 1
            if time.monotonic() - began > SLOW:
                raise TimeoutError(f"rewriting took {time.monotonic() - began:.1f} s")
        except Exception as error:
            outcomes["FAILED"] += 1
            said = f"{type(error).__name__}: {str(error)[:160]}"
            if said not in known:
                known.add(said)
                print(f"-- seed {seed}: {said}\n{sql}\n", flush=True)
        seed += 1
    print(f"{seed - options.seed} damaged queries from seed {options.seed} on: {dict(outcomes)}")
    return 1 if outcomes["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
