"""The papers' experiments as data: what each figure or table compared, what it found, and what runs here instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

#: How an experiment is measured: streams to their end, as fast as possible, or arriving at a rate; one slot in bounded
#: memory; a query whose units follow its load; the plans of queries.
Kind = Literal["stream", "live", "bounded", "scaling", "plans"]

#: What an experiment varies; see `paper.Settings`.
Swept = Literal["", "units", "rows", "batches", "window", "trigger", "memory", "limit", "batch"]


@dataclass(frozen=True, slots=True)
class Contender:
    """One of those that are compared.

    Parameters
    ----------
    workload
        Of `workloads.WORKLOADS`; of plans the name of the query's file.
    scheme
        As for ``bench --scheme``, without units; ``memory`` or ``disk`` behind a slash says where a slot in bounded
        memory keeps its rows.
    units
        Its units of each stream's group, as a share of the experiment's: BiStream's JB16 has eight for each stream.
    """

    workload: str
    scheme: str
    units: float = 1.0


#: By how much ratios may differ that are called the same, and by how much they do at least where one side is ahead.
ALIKE, AHEAD = 0.2, 0.04


@dataclass(frozen=True, slots=True)
class Finding:
    """What a paper found, as the ratio of two figures.

    Parameters
    ----------
    said
        What it says.
    of, to
        The contenders whose figures are compared; without ``to`` it is the figure itself.
    ratio
        What the ratio is there, None where it gives no number.
    figure
        What is compared; the experiment's first figure if empty.
    at, base
        The swept values of both; None for the mean over all of them, for ``base`` that of ``at``.
    less
        Where the paper gives no number: whether the ratio is below 1 by what it says.
    """

    said: str
    of: str
    to: str
    ratio: float | None = None
    figure: str = ""
    at: float | None = None
    base: float | None = None
    less: bool | None = None

    def __post_init__(self) -> None:
        if (self.ratio is None) == (self.less is None):
            raise ValueError(f"{self.said}: a paper gives a number, or says which side is less")

    def agrees(self, found: float) -> bool:
        """Return whether what was found is what the paper says: the same side is ahead, by a twenty-fifth at least.

        Of what is the same there, or a number of its own, whether it is within a fifth.
        """
        if self.ratio is not None and (self.ratio == 1 or not self.to):
            return abs(found / self.ratio - 1) <= ALIKE
        less = self.less if self.ratio is None else self.ratio < 1
        return found <= 1 - AHEAD if less else found >= 1 + AHEAD


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure or a table of a paper.

    Parameters
    ----------
    title
        What it shows.
    kind, contenders, figures
        How it is measured, who is compared, and by which of `paper_report.FIGURES`.
    findings
        What the paper found.
    here
        What plays the part of what the paper had, in sentences.
    why
        Why figures differ, in sentences.
    swept, values
        What varies, and over what.
    rows, batches, units
        Rows of a stream, micro-batches, and units, in the paper's way of counting them.
    rate, seconds
        Tuples a second that arrive, and for how long.
    runs
        Runs of each, in turns, of which the median counts: several where one would be the first on a cold JVM.
    warm
        Of streams: bytes of the warm copy (spark.trijoin.warm.maxBytes) for each row that a stream has at most, None
        for no limit.
    """

    title: str
    kind: Kind
    contenders: Mapping[str, Contender]
    figures: tuple[str, ...]
    findings: tuple[Finding, ...]
    here: str
    why: str
    swept: Swept = ""
    values: tuple[float, ...] = ()
    rows: int = 10_000
    batches: int = 5
    units: int = 2
    rate: float = 9_000
    seconds: float = 4
    runs: int = 1
    warm: float | None = None


_STORM = (
    "Storm's bolts on 16 nodes are slots in a Spark session on this machine, the DiDi trace is generated rows of "
    "the same "
    "six fields, and the tree is the scheme tree in the same engine."
)
_BATCHES = (
    "A result leaves at the end of its micro-batch, so what a tree's second stage costs is a part of a trigger "
    "and not "
    "all of a tuple's waiting; the more a trigger has to join, the closer the ratios come."
)
_CYCLE = {"TriJoin": Contender("cyclic_window", "symmetric"), "tree": Contender("cyclic_window", "tree")}
_CHAIN = {"TriJoin": Contender("chain_window", "semi_symmetric"), "tree": Contender("chain_window", "tree")}
_BOTH = {
    "TriJoin, cyclic": _CYCLE["TriJoin"],
    "tree, cyclic": _CYCLE["tree"],
    "TriJoin, chain": _CHAIN["TriJoin"],
    "tree, chain": _CHAIN["tree"],
}


def _pair(cyclic: float, chain: float, what: str, at: float | None = None, when: str = "") -> tuple[Finding, Finding]:
    """Return what the paper found for both of its joins, as ratios of TriJoin to the tree."""
    one, other = (
        f"{what} of the {join} join {100 * (ratio - 1):+.0f} %{when}"
        for join, ratio in (("cyclic", cyclic), ("chain", chain))
    )
    return (
        Finding(one, "TriJoin, cyclic", "tree, cyclic", cyclic, at=at),
        Finding(other, "TriJoin, chain", "tree, chain", chain, at=at),
    )


_JB = (
    "JBx is biclique with x/2 units for each stream, whose i-th units share a slot; JMx is matrix with x cells; "
    "CRy is "
    "ROUTING('contrand', y). TPC-H's streams are generated: a key of r, and references to it in s. JM joins by a "
    "comparison that no key routes (pair_theta), as in the paper; with the equality matrix would copy nothing."
)
_VOLUME = (
    "What fits is counted from the rows that are kept: x units that hold a million rows each take as many tuples "
    "as make "
    "them full. The paper's units are full at 1.5 GB."
)
_OPERATORS = (
    "L is SCHEME('tree(...)'), a left-deep tree that stores what it finds; M is SCHEME('operator_tree(...)'). N, one "
    "operator that stores its inputs alone, is SCHEME('non_materializing') where one stream is joined with each other "
    "one (Q3), else matrix, which copies them to the cells of a grid where there is more than one unit. TPC-H's tables "
    "are generated with its keys, and joined by comparisons that no key routes."
)
_Q2_TREE, _Q5_TREE = "tree(r, n, s, ps, p)", "tree(c, o, l, s)"
_Q2_MIXED, _Q5_MIXED = "operator_tree(r, (n, s), ps, p)", "operator_tree((c, o), l, s)"
_SLOT = (
    "One slot runs without Spark in a process of its own (`bounded`). TPC-DS's tables are generated rows with the "
    "tables' sizes in proportion."
)

#: The queries of 004's table 3.
_CONVERTED = (2, 3, 5, 7, 8, 9, 10, 11, 15, 18, 21)

#: By name.
EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        "001-fig10": Experiment(
            "Latency of the cyclic join",
            "live",
            _CYCLE,
            ("latency", "p99"),
            (Finding("latency -63 %", "TriJoin", "tree", 0.37),),
            _STORM,
            _BATCHES,
            rows=6_000,
            rate=6_000,
            runs=2,
        ),
        "001-fig11": Experiment(
            "Throughput of the cyclic join",
            "stream",
            _CYCLE,
            ("throughput", "cpu", "sent"),
            (Finding("throughput +7 %", "TriJoin", "tree", 1.07),),
            _STORM,
            "Storm's units have a machine each; here all units share two cores, so what the tree stores, sends "
            "and joins "
            "once more is time of the same cores.",
            runs=3,
        ),
        "001-fig12": Experiment(
            "Latency of the chain join",
            "live",
            _CHAIN,
            ("latency", "p99"),
            (Finding("latency -45 %", "TriJoin", "tree", 0.55),),
            _STORM,
            f"{_BATCHES} Here both have two stages.",
            rows=6_000,
            rate=6_000,
            runs=2,
        ),
        "001-fig13": Experiment(
            "Throughput of the chain join",
            "stream",
            _CHAIN,
            ("throughput", "cpu", "sent"),
            (Finding("throughput +15 %", "TriJoin", "tree", 1.15),),
            _STORM,
            "Both have two stages; packs are a half of what the tree sends as pairs.",
            runs=3,
        ),
        "001-fig14": Experiment(
            "Latency by the number of units",
            "live",
            _BOTH,
            ("latency",),
            (
                *_pair(0.49, 0.74, "latency"),
                *_pair(0.35, 0.53, "latency", 16, " with the most units (180)"),
            ),
            f"{_STORM} Units are slots; two cores serve all of them.",
            "More units add no cores here, and each costs its part of a trigger: a tree has them twice, once a stage.",
            "units",
            (4, 16),
            rows=8_000,
            rate=6_000,
            seconds=4,
        ),
        "001-fig15": Experiment(
            "Throughput by the number of units",
            "stream",
            _BOTH,
            ("throughput", "cpu"),
            _pair(1.08, 1.14, "throughput"),
            f"{_STORM} Units are slots; two cores serve all of them.",
            "More units add no cores here, so the throughput falls with their number.",
            "units",
            (2, 4, 16),
            rows=10_000,
            batches=4,
        ),
        "001-fig16": Experiment(
            "Latency by the signal period",
            "live",
            _BOTH,
            ("latency",),
            _pair(0.32, 0.69, "latency"),
            f"{_STORM} The signal that closes a period is the end of a micro-batch: the period is the trigger's "
            "interval.",
            "A result waits for its trigger first, half of the interval in the mean, under every scheme alike. "
            "The longer "
            "the interval, the more the latencies are alike.",
            "trigger",
            (0.5, 2),
            rows=8_000,
            rate=6_000,
            seconds=4,
        ),
        "001-fig17": Experiment(
            "Throughput by the signal period",
            "stream",
            _BOTH,
            ("throughput", "cpu"),
            _pair(1.14, 1.18, "throughput"),
            f"{_STORM} A longer period is a larger micro-batch: the same rows come in fewer of them.",
            "A trigger has a price however few its rows are, and a stage more has it twice; larger ones share it.",
            "batches",
            (12, 6, 3),
            rows=18_000,
        ),
        "001-fig18": Experiment(
            "Intermediate results of the symmetric scheme, packed and in pairs",
            "stream",
            {"TriJoin": Contender("cyclic_dense", "symmetric"), "pairs": Contender("cyclic_dense", "symmetric/pair")},
            ("intermediates", "comparisons", "throughput"),
            (Finding("intermediate results -71 %", "TriJoin", "pairs", 0.29),),
            f"{_STORM} TriJoin-pair is INTERMEDIATES('pair').",
            "How many pairs share a pack depends on the data: here a tuple finds seven partners in the mean.",
        ),
        "001-fig19": Experiment(
            "Intermediate results of the semi-symmetric scheme, packed and in pairs",
            "stream",
            {
                "TriJoin": Contender("chain_dense", "semi_symmetric"),
                "pairs": Contender("chain_dense", "semi_symmetric/pair"),
            },
            ("intermediates", "comparisons", "throughput"),
            (Finding("intermediate results -66 %", "TriJoin", "pairs", 0.34),),
            f"{_STORM} TriJoin-pair is INTERMEDIATES('pair').",
            "How many pairs share a pack depends on the data: here a tuple finds seven partners in the mean.",
        ),
        "001-fig20": Experiment(
            "Latency by the length of the window",
            "live",
            _BOTH,
            ("latency",),
            _pair(0.35, 0.56, "latency"),
            f"{_STORM} Rows arrive in event time as they do for a window of 60 seconds; a longer one has more "
            "partners.",
            _BATCHES,
            "window",
            (30, 90),
            rows=8_000,
            rate=6_000,
            seconds=4,
        ),
        "002-fig7": Experiment(
            "Tuples stored by plans of TPC-H's Q2, Q3 and Q5 (figure 6 shows them)",
            "stream",
            {
                "Q2 L": Contender("tpch_q2", _Q2_TREE),
                "Q2 M": Contender("tpch_q2", _Q2_MIXED),
                "Q2 N": Contender("tpch_q2", "matrix"),
                "Q3 L": Contender("tpch_q3", "tree(c, o, l)"),
                "Q3 N": Contender("tpch_q3", "non_materializing"),
                "Q5 L": Contender("tpch_q5", _Q5_TREE),
                "Q5 M": Contender("tpch_q5", _Q5_MIXED),
                "Q5 N": Contender("tpch_q5", "matrix"),
            },
            ("kept",),
            (
                Finding("Q2: L stores 200,055, N 110,030", "Q2 L", "Q2 N", 1.818),
                Finding("Q2: M stores 120,030, N 110,030", "Q2 M", "Q2 N", 1.091),
                Finding("Q3: L stores 606,483, N 506,985", "Q3 L", "Q3 N", 1.196),
                Finding("Q5: L stores 931,757, N 772,154", "Q5 L", "Q5 N", 1.207),
                Finding("Q5: M stores 921,757, N 772,154", "Q5 M", "Q5 N", 1.194),
            ),
            f"{_OPERATORS} In one unit matrix copies nothing.",
            "M's inner node (nation and supplier in Q2, customer and orders in Q5) stores the paper's share, its root "
            "nothing but its inputs. L of Q5 stores a row for each line as well; which order the paper took it does "
            "not say.",
            units=1,
            rows=8_000,
            batches=4,
        ),
        "002-fig8": Experiment(
            "Throughput of plans of Q5, by scale-out factor",
            "stream",
            {
                "L": Contender("tpch_q5", _Q5_TREE),
                "M": Contender("tpch_q5", _Q5_MIXED),
                "N": Contender("tpch_q5", "matrix"),
            },
            ("throughput", "cpu", "sent"),
            (
                Finding("about as fast with L as with N, at 2,200 tuples/s", "L", "N", 1.0, at=1),
                Finding("about as fast with M as with N", "M", "N", 1.0, at=1),
                Finding("faster with twice the tasks", "N", "N", at=2, base=1, less=False),
                Finding("slower with four times the tasks than with three", "N", "N", at=4, base=3, less=True),
            ),
            f"{_OPERATORS} The scale-out factor is the number of units.",
            "Two cores serve all units, so there is no gain from more than two, and what each unit more is sent costs.",
            "units",
            (1, 2, 3, 4),
            rows=16_000,
            batches=4,
        ),
        "003-fig6": Experiment(
            "Memory by the volume of data, full history",
            "stream",
            {
                "Band JB16": Contender("pair_band", "biclique", 0.5),
                "Band JM16": Contender("pair_band", "matrix"),
                "Q7 JB16": Contender("pair_theta", "biclique", 0.5),
                "Q7 JM16": Contender("pair_theta", "matrix"),
            },
            ("kept", "state"),
            (
                Finding("Q7: JM is full at 5.8M tuples, JB at 19M", "Q7 JB16", "Q7 JM16", 0.305),
                Finding("Band: JM is full much earlier", "Band JB16", "Band JM16", less=True),
            ),
            _JB,
            "JM16 keeps each row in four cells. The paper's ratio of 3.3 is below four: its units hold more than rows.",
            "rows",
            (5_000, 10_000, 20_000),
            units=16,
            batches=4,
        ),
        "003-fig6b": Experiment(
            "Memory by the length of the window",
            "stream",
            {"JB16": Contender("pair_window", "biclique", 0.5)},
            ("kept", "state"),
            (Finding("8 minutes take more than 3", "JB16", "JB16", 8 / 3, at=40, base=15),),
            f"{_JB} The paper's windows of 3, 5 and 8 minutes are 15, 25 and 40 of the 120 seconds that the rows take.",
            "Rows are kept for the window and the watermark's delay, and until the chunk that they are in expires.",
            "window",
            (15, 25, 40),
            rows=20_000,
            batches=24,
            units=16,
        ),
        "003-fig7": Experiment(
            "Throughput by the volume of data in bounded memory (figure 8 too)",
            "stream",
            {"Band JB16": Contender("pair_band", "biclique", 0.5), "Band JM16": Contender("pair_band", "matrix")},
            ("throughput", "kept"),
            (
                Finding("JM16 does not fit: slower by two orders", "Band JM16", "Band JB16", 0.01, at=200_000),
                Finding("both fit: about the same", "Band JM16", "Band JB16", 1.0, at=25_000),
            ),
            f"{_JB} The memory of all units is the limit of the warm copy (spark.trijoin.warm.maxBytes): 100 bytes for "
            "each row of a stream of 200,000, in which the rows of JB16 fit, and a quarter of those of JM16.",
            "What has no room is read back from Spark's state store, whose files are in the page cache: it costs "
            "processor time, not a disk's. And storing each row four times takes its time on two cores where all fits.",
            "rows",
            (25_000, 50_000, 100_000, 200_000),
            units=16,
            batches=8,
            runs=3,
            warm=100,
        ),
        "003-fig8": Experiment(
            "Throughput of Q5 and Band",
            "stream",
            {
                "Q5 JM16": Contender("pair_theta", "matrix"),
                "Q5 JB8": Contender("pair_equal", "biclique@random", 0.25),
                "Q5 JB16": Contender("pair_equal", "biclique@random", 0.5),
                "Q5 JB16-CR4": Contender("pair_equal", "biclique@contrand:4", 0.5),
                "Q5 JB16-CR8": Contender("pair_equal", "biclique@contrand:8", 0.5),
                "Zipf JB16-CR4": Contender("pair_zipf", "biclique@contrand:4", 0.5),
                "Zipf JB16-CR8": Contender("pair_zipf", "biclique@contrand:8", 0.5),
                "Band JM16": Contender("pair_band", "matrix"),
                "Band JB16": Contender("pair_band", "biclique", 0.5),
            },
            ("throughput", "cpu", "sent", "balance"),
            (
                Finding("Q5, 10 GB: JB16 is slower than JM16", "Q5 JB16", "Q5 JM16", less=True),
                Finding("Q5: JB16-CR4 is faster than JB16", "Q5 JB16-CR4", "Q5 JB16", less=False),
                Finding("Q5: JB16-CR8 is faster than JB16-CR4", "Q5 JB16-CR8", "Q5 JB16-CR4", less=False),
                Finding(
                    "Zipf: subgroups spread what hashing puts together",
                    "Zipf JB16-CR4",
                    "Zipf JB16-CR8",
                    None,
                    "balance",
                    less=True,
                ),
            ),
            f"{_JB} With as many subgroups as units (CR8) rows go by the hash of their key alone. The Zipf lines "
            "are not in "
            "the paper's figure: its section 3.2.2 says what subgroups are for.",
            "Here all fits into memory, so nothing is slower by orders; and all units share two cores, so a "
            "heavy key "
            "unbalances the slots and hardly the time.",
            rows=10_000,
            units=16,
        ),
        "003-fig9": Experiment(
            "Latency of an equality",
            "live",
            {
                "JM16": Contender("equal_window", "matrix"),
                "JB16": Contender("equal_window", "biclique@random", 0.5),
                "JB16-CR4": Contender("equal_window", "biclique@contrand:4", 0.5),
                "JB16-CR8": Contender("equal_window", "biclique@contrand:8", 0.5),
            },
            ("latency", "p99"),
            (
                Finding("within 10 ms of JM16", "JB16", "JM16", 1.0),
                Finding("JB16-CR8 is faster than JM16", "JB16-CR8", "JM16", less=True),
                Finding("ContRand is faster than random routing", "JB16-CR8", "JB16", less=True),
            ),
            f"{_JB} Here matrix has the equality, and hashes by it: it sends each row to one cell.",
            "A micro-batch takes what its stages and slots take; routing is a small part of that at this load.",
            rows=8_000,
            units=16,
            rate=6_000,
        ),
        "003-fig10": Experiment(
            "Volume that fits, by the number of units (figures 15 to 17 and table 4 too)",
            "stream",
            {"JB": Contender("pair_theta", "biclique", 0.5), "JM": Contender("pair_theta", "matrix")},
            ("volume",),
            (
                Finding("JB: 76M tuples in 16 units, 290M in 64", "JB", "JB", 3.82, at=64, base=16),
                Finding("JM: 19M in 16, 37M in 64", "JM", "JM", 1.95, at=64, base=16),
                Finding("JB takes 4 times what JM takes in 16", "JB", "JM", 4.0, at=16),
                Finding("JB takes 7.8 times what JM takes in 64", "JB", "JM", 7.84, at=64),
                Finding("table 4: windows of 549 s in JB16, 140 s in JM16", "JB", "JM", 3.92, at=16),
                Finding("table 4: windows of 1,262 s in JB36, 207 s in JM36", "JB", "JM", 6.10, at=36),
            ),
            f"{_JB} {_VOLUME}",
            "A row is in one unit under biclique, in sqrt(x) cells under matrix: that is exact here.",
            "units",
            (4, 16, 36, 64),
            rows=4_000,
            batches=2,
        ),
        "003-fig11": Experiment(
            "Bandwidth (figures 18 and 19 too)",
            "stream",
            {
                "Q5 JM16": Contender("pair_theta", "matrix"),
                "Q5 JB8": Contender("pair_equal", "biclique@random", 0.25),
                "Q5 JB8-CR2": Contender("pair_equal", "biclique@contrand:2", 0.25),
                "Q5 JB8-CR4": Contender("pair_equal", "biclique@contrand:4", 0.25),
                "Band JM16": Contender("pair_band", "matrix"),
                "Band JB8": Contender("pair_band", "biclique", 0.25),
                "Band JB8, range": Contender("pair_band", "biclique@range", 0.25),
            },
            ("sent",),
            (
                Finding("Q5: JB8 takes more than JM16 (equations 5 and 6: 5 to 4)", "Q5 JB8", "Q5 JM16", 1.25),
                Finding("Q5: JB8-CR2 takes less (3 to 4)", "Q5 JB8-CR2", "Q5 JM16", 0.75),
                Finding("Q5: JB8-CR4 takes less (2 to 4)", "Q5 JB8-CR4", "Q5 JM16", 0.5),
                Finding("Band: JB8 takes more than JM16 (5 to 4)", "Band JB8", "Band JM16", 1.25),
            ),
            f"{_JB} Bandwidth is what slots receive, packed as Arrow, in all. ROUTING('range') is not in the paper: "
            "it sends rows of a band to the unit of their range of values.",
            "The i-th units of both streams are one slot, so a row crosses once to where it is stored and where "
            "it probes: "
            "the + 1 of equation 5 falls away.",
            rows=10_000,
            units=16,
        ),
        "003-fig12": Experiment(
            "Units that follow the load",
            "scaling",
            {"JB8": Contender("pair_window", "biclique", 0.5)},
            ("rows", "load", "units"),
            (
                Finding("8 units become 12 while more comes", "JB8", "JB8", 1.5, "units", at=23, base=0),
                Finding("12 become 6 when less comes", "JB8", "JB8", 0.5, "units", at=37, base=23),
                Finding("a short rise changes nothing", "JB8", "JB8", 1.0, "units", at=46, base=37),
            ),
            "JB8 is biclique with four units a stream; its thresholds are the paper's (0.8, 0.3, 0.6, three equal "
            "decisions), a look comes after every micro-batch, and a unit is full at 480 KB (`--rows` scales it).",
            "The decision is the paper's, so is its formula for the number of units. There a unit joins the "
            "running query; "
            "here the query stops and starts again, within seconds.",
            "batch",
            rows=240_000,
            units=8,
        ),
        "003-fig13": Experiment(
            "Throughput with and without aggregation",
            "stream",
            {
                "Q5": Contender("pair_equal", "biclique@random", 0.5),
                "Q5, SUM": Contender("q5_revenue", "biclique@random", 0.5),
                "Q7": Contender("q7_pair", "biclique@random", 0.5),
                "Q7, SUM": Contender("q7_volume", "biclique@random", 0.5),
                "Band": Contender("pair_band", "biclique", 0.5),
                "Band, COUNT": Contender("band_count", "biclique", 0.5),
            },
            ("throughput", "cpu"),
            (
                Finding("Q5: the same", "Q5, SUM", "Q5", 1.0),
                Finding("Q7: the same", "Q7, SUM", "Q7", 1.0),
                Finding("Band: the same", "Band, COUNT", "Band", 1.0),
            ),
            f"{_JB} The joins are equalities here, with random routing. Units reduce results to groups, Spark "
            "merges them.",
            "The merge is an aggregation of Spark's, with a shuffle and state of its own: a stage more in each "
            "micro-batch.",
            rows=10_000,
            units=16,
        ),
        "003-fig14": Experiment(
            "Bandwidth with aggregation in units and behind them",
            "stream",
            {
                "Q5, in units": Contender("q5_revenue", "biclique@random", 0.5),
                "Q5, behind": Contender("q5_revenue", "biclique@random+NO_UNIT_AGGREGATE", 0.5),
                "Q7, in units": Contender("q7_volume", "biclique@random", 0.5),
                "Q7, behind": Contender("q7_volume", "biclique@random+NO_UNIT_AGGREGATE", 0.5),
                "Band, in units": Contender("band_count", "biclique", 0.5),
                "Band, behind": Contender("band_count", "biclique+NO_UNIT_AGGREGATE", 0.5),
            },
            ("shuffled",),
            (
                Finding("Q5: much less", "Q5, in units", "Q5, behind", less=True),
                Finding("Q7: much less", "Q7, in units", "Q7, behind", less=True),
                Finding("Band: much less", "Band, in units", "Band, behind", less=True),
            ),
            f"{_JB} The hint NO_UNIT_AGGREGATE leaves the aggregation to Spark. All that Spark shuffles is counted.",
            "Spark reduces results in their task too, before it shuffles them: only how they come there differs, "
            "from "
            "Python row by row or as groups.",
            rows=10_000,
            units=16,
        ),
        "004-fig5": Experiment(
            "UMJoin and MultiStream with 2, 3 and 4 GB",
            "bounded",
            {"UMJoin": Contender("star_four", "matrix/disk"), "MultiStream": Contender("star_four", "matrix/memory")},
            ("complete", "results", "own", "seconds"),
            (
                Finding(
                    "2 GB: MultiStream stops, with two thirds of the results",
                    "MultiStream",
                    "UMJoin",
                    0.67,
                    "results",
                    2,
                ),
                Finding(
                    "3 GB: MultiStream stops shortly before the end",
                    "MultiStream",
                    "UMJoin",
                    None,
                    "results",
                    3,
                    less=True,
                ),
                Finding("4 GB: both come to the end", "MultiStream", "UMJoin", 1.0, at=4),
            ),
            f"{_SLOT} MultiStream is the same slot with all rows in its own memory. A gigabyte of the paper is 54 "
            "bytes for "
            "each row of store_returns: then 3 GB end shortly before all rows are in memory, as they did there. "
            "The limit "
            "is on the slot's own memory; UMJoin's files are in the page cache, which the machine can take back.",
            "Rows arrive evenly, and a result needs a row of each of the four: with 60 % of the rows 13 % of the "
            "results are there (0.6 to the fourth power). Two thirds of them take 90 % of the rows.",
            "limit",
            (2, 3, 4),
            rows=400_000,
            batches=40,
        ),
        "004-fig6": Experiment(
            "UMJoin and the best binary join tree, by memory (figure 5d too)",
            "bounded",
            {
                "UMJoin": Contender("star_many", "matrix/disk"),
                "BJT": Contender("star_many", "tree(cu, wr, cr, sr)/disk"),
            },
            ("cpu_seconds", "seconds", "kept", "own"),
            (
                Finding("UMJoin is faster with little memory", "UMJoin", "BJT", at=8, less=True),
                Finding("BJT is faster with much", "UMJoin", "BJT", at=128, less=False),
                Finding("BJT stores 5.03 GB more than UMJoin", "BJT", "UMJoin", None, "kept", less=False),
            ),
            f"{_SLOT} The backend's memory is the limit of the warm copy (spark.trijoin.warm.maxBytes), in MB: "
            "what it has "
            "no room for is read back from the durable chunks. The tree's order is that with the fewest intermediate "
            "results.",
            "What is read back comes from the page cache and costs processor time, no disk. For a micro-batch of each "
            "stream the n-way join reads three stores, twelve in all; the tree reads six larger ones. The paper's "
            "LSM tree looks up single keys.",
            "memory",
            (8, 32, 128),
            rows=100_000,
            batches=30,
        ),
        "004-fig7": Experiment(
            "Capacity of the skip list",
            "bounded",
            {"UMJoin": Contender("star_four", "matrix/disk")},
            ("cpu_seconds", "seconds", "own"),
            (Finding("faster with a larger skip list", "UMJoin", "UMJoin", at=10, base=160, less=True),),
            f"{_SLOT} There is no skip list: the rows of a micro-batch are sorted once and written as one "
            "segment. So its "
            "capacity is the size of a micro-batch. The block cache is the warm copy: 004-fig6 varies it.",
            "Fewer and larger micro-batches write, index and probe fewer segments.",
            "batches",
            (160, 40, 10),
            rows=200_000,
        ),
        "004-table3": Experiment(
            "Plans of TPC-H's queries (figure 8 is Q3)",
            "plans",
            {f"Q{number}": Contender(f"q{number:02d}", "") for number in _CONVERTED}
            | {"all": Contender(" ".join(f"q{number:02d}" for number in _CONVERTED), "")},
            ("converted", "nodes", "relations"),
            (Finding("11 of 11 are converted", "all", "", 11),),
            "The plans are those of `trijoin-sql explain`; `make corpus` writes the queries.",
            "Q15 joins two relations, which is a node of two here.",
        ),
    }
)
