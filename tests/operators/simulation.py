"""The rules of every scheme in plain Python: tuples, lists and dicts, one row at a time.

It specifies what a unit does with a row, in which order, and what travels between units; how fast is none of its
business. A run is a list of micro-batches, each a dict from the name of an input to its new rows. The total order of
rows is (batch, rank of the input), strict; no unit compares it, for a unit takes a micro-batch rank by rank, and
"earlier" is what it took before. Units share nothing: what one learns from another is in its inbox.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import NamedTuple

Values = tuple[int, ...]


class Row(NamedTuple):
    """A row of a base stream. `place` is what the routing makes of it: any pure function of the row."""

    stream: str
    id: int
    values: Values
    place: int = 0


Part = tuple[Row, ...]
"""Rows that match, one for each stream covered, sorted: a row alone, an intermediate or a result."""

Delta = Mapping[str, Sequence[Part]]
"""A micro-batch, by input."""

UnitName = tuple[str, *tuple[int, ...]]


class Output(NamedTuple):
    part: Part
    unit: UnitName


class Query(NamedTuple):
    """A join of streams under one predicate for each edge; streams without an edge meet freely."""

    edges: Mapping[tuple[str, str], Callable[[Values, Values], bool]]

    def match(self, one: Part, other: Part) -> bool:
        for x, y in product(one, other):
            for a, b in ((x, y), (y, x)):
                theta = self.edges.get((a.stream, b.stream))
                if theta and not theta(a.values, b.values):
                    return False
        return True


def join(*parts: Part) -> Part:
    return tuple(sorted(row for part in parts for row in part))


class Hub(NamedTuple):
    """A tuple pack: one row, and those of another stream that match it. A pair is a pack of one."""

    row: Part
    members: list[Part]


@dataclass
class Context:
    """What all units of a scheme know, and where they count."""

    query: Query
    pairs: bool = False
    """Store and send intermediates as pairs instead of packs."""
    counts: Counter[str] = field(default_factory=Counter)

    def match(self, one: Part, other: Part) -> bool:
        self.counts["comparisons"] += 1
        return self.query.match(one, other)

    def pack(self, row: Part, candidates: Iterable[Part]) -> list[Hub]:
        """Return the intermediate of a row with the candidates that match it; nothing if none does."""
        members = [x for x in candidates if self.match(x, row)]
        packs = [Hub(row, [x]) for x in members] if self.pairs else [Hub(row, members)] if members else []
        self.counts["intermediates"] += len(packs)
        return packs


class Unit:
    """A processing unit that stores rows of one input (or of several) and sees rows of the others pass by."""

    def __init__(self, own: str, scheme: "Scheme") -> None:
        self.own = own
        self.context = scheme.context
        self.stored: list[Part] = []

    def order(self, ranks: Sequence[str]) -> Sequence[str]:
        """Return the order in which the unit takes a micro-batch: the same everywhere."""
        return ranks

    def work(self, inbox: Delta, ranks: Sequence[str]) -> list[Part]:
        """Take a micro-batch, rank by rank."""
        return [out for name in self.order(ranks) for part in inbox.get(name, ()) for out in self.take(name, part)]

    def take(self, name: str, part: Part) -> Iterator[Part]:
        """Take one row: yield the results that it completes, and remember what later ones will need."""
        raise NotImplementedError


Key = Callable[[Part], int] | None


class Group:
    """The units that store one input: a row goes home to one of them, rows of other inputs reach several.

    With subgroups a key decides on the subgroup (ContRand); with one it is `random`, with as many as units `hash`.
    """

    def __init__(self, name: str, make: Callable[[], Unit], units: int, subgroups: int = 1, key: Key = None) -> None:
        self.name = name
        self.make = make
        self.subgroups = subgroups
        self.key = key
        self.units: list[Unit] = []
        self.layout(units)

    def layout(self, units: int) -> None:
        """Store new rows in so many units. Old units keep what they hold, and go on being reached."""
        self.size = units
        self.units += [self.make() for _ in range(units - len(self.units))]

    def _subgroup(self, part: Part) -> int:
        return hash(self.key(part)) % self.subgroups if self.key else 0

    def home(self, part: Part) -> int:
        mine = range(self._subgroup(part), self.size, self.subgroups)
        return mine[sum(row.place for row in part) % len(mine)]

    def reach(self, part: Part) -> Iterable[int]:
        return range(self._subgroup(part), len(self.units), self.subgroups)


class Scheme:
    """Inputs in the order of their rank, and the groups that store them. One micro-batch is one call of `batch`."""

    def __init__(self, ranks: Sequence[str], context: Context) -> None:
        self.ranks = tuple(ranks)
        self.context = context
        self.groups: dict[str, Group] = {}

    def batch(self, delta: Delta) -> list[Output]:
        return self.stage(self.groups.values(), delta)

    def stage(
        self, groups: Iterable[Group], delta: Delta, extra: Mapping[UnitName, Delta] | None = None
    ) -> list[Output]:
        """Dispatch a micro-batch to the units of some groups and let them work, each by itself."""
        outputs = []
        for group in groups:
            for number, unit in enumerate(group.units):
                inbox = {
                    name: [p for p in parts if number in ([group.home(p)] if name == group.name else group.reach(p))]
                    for name, parts in self.mine(delta)
                }
                self.context.counts["stored"] += len(inbox.get(group.name, ()))
                self.context.counts["shuffled"] += sum(map(len, inbox.values()))
                at: UnitName = (group.name, number)
                inbox.update((extra or {}).get(at, {}))
                outputs += [Output(part, at) for part in unit.work(inbox, self.ranks)]
        return outputs

    def mine(self, delta: Delta) -> list[tuple[str, Sequence[Part]]]:
        """Return what of a micro-batch is for this scheme."""
        return [(name, delta.get(name, ())) for name in self.ranks]

    def layout(self, name: str, units: int) -> None:
        self.groups[name].layout(units)

    def homes(self) -> dict[Part, list[UnitName]]:
        """Tell where every part is stored."""
        homes: dict[Part, list[UnitName]] = {}
        for group in self.groups.values():
            for number, unit in enumerate(group.units):
                for part in unit.stored:
                    homes.setdefault(part, []).append((group.name, number))
        return homes


# biclique ------------------------------------------------------------------------------------------------------------


class BicliqueUnit(Unit):
    """Store one side, probe it with the other."""

    def take(self, name: str, part: Part) -> Iterator[Part]:
        if name == self.own:
            self.stored.append(part)
            return
        for x in self.stored:
            if self.context.match(x, part):
                yield join(x, part)


class Grouped(Scheme):
    """A scheme with one group an input. `unit` makes its units; a test may give one that gets the rules wrong."""

    def __init__(
        self,
        ranks: Sequence[str],
        context: Context,
        units: Mapping[str, int],
        subgroups: Mapping[str, int] | None = None,
        key: Key = None,
        unit: Callable[[str, Scheme], Unit] | None = None,
    ) -> None:
        super().__init__(ranks, context)
        for name in ranks:
            make = partial(unit or self.unit, name, self)
            self.groups[name] = Group(name, make, units[name], (subgroups or {}).get(name, 1), key)

    @staticmethod
    def unit(name: str, scheme: Scheme) -> Unit:
        raise NotImplementedError


class Biclique(Grouped):
    """BiStream's two-way join: `random`, `hash` or `contrand` by the number of subgroups."""

    unit = staticmethod(BicliqueUnit)


# symmetric -----------------------------------------------------------------------------------------------------------


class SymmetricUnit(Unit):
    """Store x. Of the two others each row first completes what the other's hubs hold, then becomes a hub itself."""

    def __init__(self, own: str, scheme: Scheme) -> None:
        super().__init__(own, scheme)
        one, other = (name for name in scheme.ranks if name != own)
        self.third = {one: other, other: one}
        self.hubs: dict[str, list[Hub]] = {one: [], other: []}

    def take(self, name: str, part: Part) -> Iterator[Part]:
        if name == self.own:
            self.stored.append(part)  # not into the hubs that are there: this row is later than they are
            return
        for hub in self.hubs[self.third[name]]:
            if self.context.match(hub.row, part):
                for x in hub.members:
                    if self.context.match(x, part):
                        yield join(x, hub.row, part)
        self.hubs[name] += self.context.pack(part, self.stored)


class Symmetric(Grouped):
    """TriJoin for three inputs, each with a predicate on each other (a missing one is always true)."""

    unit = staticmethod(SymmetricUnit)


# semi-symmetric ------------------------------------------------------------------------------------------------------

PACKS = "packs from the sending end"


class EndUnit(Unit):
    """A unit of an end of the chain: rows of the middle are hubs of the earlier stored, the far end probes them."""

    def __init__(self, own: str, scheme: "SemiSymmetric") -> None:
        super().__init__(own, scheme)
        self.middle = scheme.middle
        self.hubs: list[Hub] = []

    def take(self, name: str, part: Part) -> Iterator[Part]:
        if name == self.own:
            self.stored.append(part)
        elif name == self.middle:
            self.hubs += self.context.pack(part, self.stored)
        else:
            for hub in self.hubs:
                if self.context.match(hub.row, part):
                    yield from (join(x, hub.row, part) for x in hub.members)


class SendingUnit(EndUnit):
    """R: what becomes a hub here also goes to the units of the other end."""

    def __init__(self, own: str, scheme: "SemiSymmetric") -> None:
        super().__init__(own, scheme)
        self.outbox: list[Hub] = []

    def take(self, name: str, part: Part) -> Iterator[Part]:
        known = len(self.hubs)
        yield from super().take(name, part)
        self.outbox += self.hubs[known:]


class ReceivingUnit(EndUnit):
    """T: takes packs too, at the rank of their hub, when just the earlier t are stored."""

    def order(self, ranks: Sequence[str]) -> Sequence[str]:
        at = ranks.index(self.middle)
        return (*ranks[:at], PACKS, *ranks[at:])

    def take(self, name: str, part: Part) -> Iterator[Part]:
        if name == PACKS:
            for t in self.stored:
                if self.context.match(t, part.row):
                    yield from (join(x, part.row, t) for x in part.members)
        else:
            yield from super().take(name, part)


class MiddleUnit(Unit):
    """S: each stored s has a list of later r and one of later t; an r reads the t-list, then enters the r-list."""

    def __init__(self, own: str, scheme: Scheme) -> None:
        super().__init__(own, scheme)
        one, other = (name for name in scheme.ranks if name != own)
        self.far = {one: other, other: one}
        self.later: dict[str, list[Hub]] = {one: [], other: []}

    def take(self, name: str, part: Part) -> Iterator[Part]:
        if name == self.own:
            self.stored.append(part)
            return
        for hub in self.later[self.far[name]]:
            if self.context.match(hub.row, part):
                yield from (join(hub.row, x, part) for x in hub.members)
        lists = {} if self.context.pairs else {hub.row: hub for hub in self.later[name]}
        for s in self.stored:
            if self.context.match(s, part):
                if s in lists:
                    lists[s].members.append(part)
                else:
                    self.later[name].append(Hub(s, [part]))
                    self.context.counts["intermediates"] += 1


class SemiSymmetric(Grouped):
    """TriJoin for a chain: stage 1 the sending end, stage 2 the middle and the receiving end."""

    def __init__(
        self,
        ranks: Sequence[str],
        context: Context,
        units: Mapping[str, int],
        chain: tuple[str, str, str] = ("R", "S", "T"),
        **more: object,
    ) -> None:
        self.sender, self.middle, self.receiver = chain
        super().__init__(ranks, context, units, **more)

    @staticmethod
    def unit(name: str, scheme: Scheme) -> Unit:
        make = {scheme.sender: SendingUnit, scheme.middle: MiddleUnit, scheme.receiver: ReceivingUnit}[name]
        return make(name, scheme)

    def batch(self, delta: Delta) -> list[Output]:
        outputs = self.stage([self.groups[self.sender]], delta)
        packs = self.packs(self.groups[self.sender], self.groups[self.receiver])
        return outputs + self.stage([self.groups[self.middle], self.groups[self.receiver]], delta, packs)

    def packs(self, senders: Group, receivers: Group) -> dict[UnitName, dict[str, list[Hub]]]:
        """Empty the outboxes of one group into inboxes of the other."""
        inboxes: dict[UnitName, dict[str, list[Hub]]] = {}
        for unit in senders.units:
            for hub in unit.outbox:
                for number in receivers.reach(hub.row):
                    inboxes.setdefault((receivers.name, number), {}).setdefault(PACKS, []).append(hub)
                    self.context.counts["sent"] += 1
            unit.outbox = []
        return inboxes


# tree, and operator trees --------------------------------------------------------------------------------------------


class Tree(Scheme):
    """A scheme whose inputs may be schemes: what an inner one puts out is an input, stored and ranked like a stream."""

    def __init__(self, root: Scheme, inner: Mapping[str, "Scheme"]) -> None:
        super().__init__(root.ranks, root.context)
        self.root = root
        self.inner = inner

    def batch(self, delta: Delta) -> list[Output]:
        inputs = dict(delta)
        for name, scheme in self.inner.items():
            inputs[name] = [output.part for output in scheme.batch(delta)]
        return self.root.batch(inputs)


def left_deep(order: Sequence[str], context: Context, units: Sequence[int], first: Sequence[bool]) -> Scheme:
    """BiStream + tree: ((a b) c) ..., a biclique a node; `first` says at each node if the left side ranks first."""
    tree: Scheme | None = None
    left = order[0]
    for i, right in enumerate(order[1:]):
        ranks = (left, right) if first[i] else (right, left)
        node = Biclique(ranks, context, {left: units[2 * i], right: units[2 * i + 1]})
        tree = Tree(node, {left: tree}) if tree else node
        left = f"({left} {right})"
    assert tree
    return tree


def brute_force(streams: Mapping[str, Iterable[Part]], query: Query) -> list[Part]:
    """Return every result, from all rows at once."""
    found: list[Part] = [()]
    for parts in streams.values():
        found = [join(p, q) for p in found for q in parts if query.match(p, q)]
    return found
