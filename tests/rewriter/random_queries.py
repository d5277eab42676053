"""Random join queries over the tables of `tables`, for comparing converted and unconverted rows.

`random_query` draws from a `random.Random`; hypothesis can give it one that it shrinks. Every query has a deterministic
bag of rows (no LIMIT without a total order, no sums of doubles, no ``rand()``) and raises nothing in ANSI mode.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

#: The columns of the tables of `tables`, with types as far as predicates need them.
_WIDE = (("id", "int"), ("a", "int"), ("ts", "time"), ("x", "double"), ("n", "text"), ("d", "date"), ("m", "decimal"))
BASE: dict[str, tuple[tuple[str, str], ...]] = {
    **dict.fromkeys("rst", _WIDE),
    "u": (("Key", "int"), ("Val", "int")),
    "c": (("id", "int"), ("Größe X", "int"), ("n", "text")),
}
ALIASES = ("q", "w", "k", "Mixed", "`a b`", "`Straße`", "`select`", "T1", "_z", "`q.q`", "`1st`", "ord")
OUTPUTS = ("o", "P", "`ü`", "`a.b`", "id", "v", "`group`", "Key", "`x y`", "a")


@dataclass
class Relation:
    """A relation in scope: its alias as written, and its columns as ``(name as written, type)``.

    ``hidden``: columns that may not be named without the alias.
    """

    alias: str
    columns: list[tuple[str, str]]
    merged: set[str] = field(default_factory=set)

    def of(self, kind: str) -> list[str]:
        """Return its columns of a type."""
        return [name for name, its in self.columns if its == kind]


def random_query(dice: random.Random) -> str:
    """Return a query of one to three levels, each joining up to six relations."""
    text, _ = _Generator(dice).query(dice.choice((0, 0, 0, 0, 1, 1, 1, 2)), {}, top=True)
    return text


class _Generator:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.names = 0

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    # ---------------------------------------------------------------------------------------------------- whole queries

    def query(
        self, depth: int, ctes: dict[str, list[tuple[str, str]]], top: bool = False
    ) -> tuple[str, list[tuple[str, str]]]:
        """Return a query and its columns."""
        head = ""
        if depth > 0 and self.chance(0.3 if top else 0.1):
            ctes, parts = dict(ctes), []
            for _ in range(self.dice.randint(1, 2)):
                name = self.fresh(("cte", "View1", "`c t e`"))
                text, columns = self.query(depth - 1, ctes)
                if self.chance(0.2):
                    columns = [(f"c{at}", kind) for at, (_, kind) in enumerate(columns)]
                    parts.append(f"{name}({', '.join(column for column, _ in columns)}) AS ({text})")
                else:
                    parts.append(f"{name} AS ({text})")
                ctes[name] = columns
            head = f"WITH {', '.join(parts)} "
        text, columns, bare = self.select(depth, ctes, top)
        if self.chance(0.12):
            kinds = [kind for _, kind in columns]
            if kinds and "any" not in kinds:  # of a star nothing is known
                other = self.same_shape(kinds, ctes)
                word = self.dice.choice(("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "UNION ALL"))
                text, bare = f"{text} {word} {other}", False
        if top and bare and self.chance(0.15):
            text += " ORDER BY " + ", ".join(str(at + 1) for at in range(len(columns)))
            if self.chance(0.5):
                text += f" LIMIT {self.dice.randint(1, 9)}"
        return head + text, columns

    def same_shape(self, kinds: list[str], ctes: dict[str, list[tuple[str, str]]]) -> str:
        relations, text, where = self.from_clause(0, ctes, self.dice.choice((1, 2, 2)))
        items = []
        for kind in kinds:
            found = [f"{one.alias}.{name}" for one in relations for name in one.of(kind)]
            items.append(self.dice.choice(found) if found else f"CAST(NULL AS {SQL_TYPES[kind]})")
        return f"SELECT {', '.join(items)} FROM {text}{_where(where)}"

    def select(
        self, depth: int, ctes: dict[str, list[tuple[str, str]]], top: bool
    ) -> tuple[str, list[tuple[str, str]], bool]:
        """Return a SELECT, its columns, and whether ORDER BY may follow."""
        count = self.dice.choice((2, 2, 3, 3, 3, 4, 4, 5, 6) if top else (1, 1, 2, 2, 3))
        relations, text, where = self.from_clause(depth, ctes, count)
        where += [self.single(self.dice.choice(relations)) for _ in range(self.dice.choice((0, 0, 1, 2)))]
        if self.chance(0.3) and len(relations) > 1:
            where.append(self.across(relations))
        if depth > 0 and self.chance(0.2):
            where.append(self.subquery(depth - 1, ctes, relations))
        self.dice.shuffle(where)
        clause = _where(where)
        hint = self.hint(len(relations)) if top else ""
        mode = self.dice.randint(0, 9)
        if mode <= 1:
            items, columns, tail = self.grouped(relations)
            return f"SELECT {hint}{items} FROM {text}{clause}{tail}", columns, True
        if mode == 2:
            items, columns = self.items(relations, 3)
            return f"SELECT {hint}DISTINCT {items} FROM {text}{clause}", columns, True
        merges = " USING " in text or " NATURAL " in text
        if (mode == 3 or (merges and self.chance(0.4))) and top and sum(len(one.columns) for one in relations) < 40:
            stars = [f"{one.alias}.*" for one in relations]
            some = ", ".join(self.dice.sample(stars, self.dice.randint(1, len(stars))))
            star = self.dice.choice(("*", some, some, "*, 1 AS one"))
            return f"SELECT {hint}{star} FROM {text}{clause}", [], False
        if mode == 4:
            return self.windowed(relations, hint, text, clause)
        items, columns = self.items(relations, self.dice.randint(1, 5))
        return f"SELECT {hint}{items} FROM {text}{clause}", columns, True

    def hint(self, count: int) -> str:
        if count > 3 and self.chance(0.25):
            return "/*+ SCHEME('operator_tree') */ "
        return "/*+ SCHEME('matrix'), UNITS(3) */ " if self.chance(0.1) else ""

    # ---------------------------------------------------------------------------------------------------------- SELECT

    def items(self, relations: list[Relation], count: int) -> tuple[str, list[tuple[str, str]]]:
        items, columns = [], []
        for _ in range(count):
            text, kind = self.expression(relations) if self.chance(0.97) else (str(self.dice.randint(1, 3)), "int")
            name = self.fresh(OUTPUTS, reuse=False)
            items.append(f"{text}{self.dice.choice((' AS ', ' '))}{name}")
            columns.append((name, kind))
        return ", ".join(items), columns

    def expression(self, relations: list[Relation]) -> tuple[str, str]:
        one = self.dice.choice(relations)
        name, kind = self.dice.choice(one.columns)
        text = self.column(relations, one, name)
        if kind == "int" and self.chance(0.3):
            other, _ = self.number(relations)
            bits = f"{text} & 3 << 1 | {other}"
            return self.dice.choice((f"{text} + {other}", f"coalesce({text}, {other})", f"{text} * 2 - 1", bits)), "int"
        if kind == "text" and self.chance(0.3):
            return self.dice.choice((f"upper({text})", f"{text} || '\\'s'", f"concat({text}, 'ß')")), "text"
        if self.chance(0.04):
            number, _ = self.number(relations)
            return f"to_json(struct({text}, ({number}, {text}) AS p, {number} + 1))", "text"
        if self.chance(0.05):
            return f"CASE WHEN {text} IS NULL THEN 0 ELSE 1 END", "int"
        return text, kind

    def number(self, relations: list[Relation]) -> tuple[str, Relation]:
        able = [one for one in relations if one.of("int")]
        if not able:
            return str(self.dice.randint(-2, 5)), relations[0]
        one = self.dice.choice(able)
        return self.column(relations, one, self.dice.choice(one.of("int"))), one

    def grouped(self, relations: list[Relation]) -> tuple[str, list[tuple[str, str]], str]:
        keys = [self.expression(relations) for _ in range(self.dice.choice((0, 1, 1, 2)))]
        number, _ = self.number(relations)
        text, kind = self.expression(relations)
        aggregates = [
            ("count(*)", "int"),
            (f"max({number})", "int"),
            (f"count(DISTINCT {number})", "int"),
            (f"min({text})", kind),
            (f"count({text}) FILTER (WHERE {number} > 1)", "int"),
        ]
        chosen = self.dice.sample(aggregates, self.dice.randint(1, 3))
        columns = [(self.fresh(OUTPUTS, reuse=False), kind) for _, kind in (*keys, *chosen)]
        pairs = zip((*keys, *chosen), columns, strict=True)
        items = ", ".join(f"{text} AS {name}" for (text, _), (name, _) in pairs)
        tail = ""
        if keys:
            how = self.dice.randint(0, 3)
            ordinals = ", ".join(str(at + 1) for at in range(len(keys)))
            texts = ", ".join(text for text, _ in keys)
            tail = " GROUP BY " + (texts, ordinals, "ALL", f"ROLLUP ({texts})")[how]
            if self.chance(0.3):
                tail += f" HAVING {self.dice.choice(('count(*) > 1', f'max({number}) >= 0', f'min({number}) < 4'))}"
        key = keys[0][0].partition(".")[2] if keys else ""
        if key.isidentifier() and keys[0][1] == "int" and " HAVING " not in tail and self.chance(0.3):
            items, columns = f"{items}, max({number}) + 1 AS {key}", [*columns, (key, "int")]
            tail += f" HAVING {key} > 1"  # the column that is grouped by, or this output?
        return items, columns, tail

    def windowed(
        self, relations: list[Relation], hint: str, text: str, clause: str
    ) -> tuple[str, list[tuple[str, str]], bool]:
        number, _ = self.number(relations)
        by, _ = self.expression(relations)
        name, other = self.fresh(OUTPUTS, reuse=False), self.fresh(OUTPUTS, reuse=False)
        call = self.dice.choice(("count(*)", f"max({number})", f"rank()"))  # noqa: F541
        order = f" ORDER BY {number}" if call == "rank()" or self.chance(0.3) else ""
        if self.chance(0.3):
            window = f"OVER win AS {name}"
            clause += f" WINDOW win AS (PARTITION BY {by}{order})"
        else:
            window = f"OVER (PARTITION BY {by}{order}) AS {name}"
        return (
            f"SELECT {hint}{call} {window}, {number} AS {other} FROM {text}{clause}",
            [(name, "int"), (other, "int")],
            True,
        )

    # ------------------------------------------------------------------------------------------------------------ FROM

    def from_clause(
        self, depth: int, ctes: dict[str, list[tuple[str, str]]], count: int
    ) -> tuple[list[Relation], str, list[str]]:
        """Return the relations of a FROM, its text, and conjuncts for WHERE."""
        relations: list[Relation] = []
        where: list[str] = []
        comma = self.chance(0.3)
        text, at = "", 0
        while at < count:
            if count - at >= 2 and at > 0 and not comma and self.chance(0.15):
                inner = [self.relation(depth, ctes, relations) for _ in range(1)]
                inner_all = [*relations, inner[0][0]]
                second = self.relation(depth, ctes, inner_all)
                both = [inner[0][0], second[0]]
                on = self.conditions(both[:1], both[1])
                item = f"({inner[0][1]} {self.kind(0.8)} {second[1]} ON {on})"
                text += f" {self.kind(0.8)} {item} ON {self.conditions(relations, self.dice.choice(both))}"
                relations += both
                at += 2
                continue
            relation, item = self.relation(depth, ctes, relations)
            at += 1
            if not relations:
                text, relations = item, [relation]
                continue
            if comma and not self.chance(0.1):
                text += f", {item}"
                where += self.conjuncts(relations, relation)
                relations.append(relation)
                continue
            # To Spark, a comma joins from left to right like JOIN: a condition sees all relations before it.
            text += self.joined(relations, relation, item, where)
        return relations, text, where

    def joined(self, relations: list[Relation], relation: Relation, item: str, where: list[str]) -> str:
        """Return one more explicit join; semi and anti joins leave nothing of their right side."""
        how = self.dice.random()
        last = relations[-1]
        shared = [name for name, kind in last.columns if (name, kind) in relation.columns and kind != "any"]
        unique = [
            name for name in shared if sum(name.lower() == c.lower() for one in relations for c, _ in one.columns) == 1
        ]
        if how < 0.12 and unique:
            using = self.dice.sample(unique, min(len(unique), self.dice.choice((1, 1, 2))))
            word = self.dice.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
            for name in using:
                relation.merged.add(name.lower())
                last.merged.add(name.lower())
            relations.append(relation)
            return f" {word} {item} USING ({', '.join(using)})"
        if how < 0.17 and len(relations) == 1 and shared:
            relation.merged |= {name.lower() for name in shared}
            last.merged |= {name.lower() for name in shared}
            relations.append(relation)
            return f" NATURAL JOIN {item}"
        if how < 0.25:
            word = self.dice.choice(("LEFT SEMI JOIN", "LEFT ANTI JOIN", "SEMI JOIN", "ANTI JOIN"))
            return f" {word} {item} ON {self.conditions(relations, relation)}"
        if how < 0.33:
            conjuncts = self.conjuncts(relations, relation)
            where += conjuncts
            relations.append(relation)
            return f" CROSS JOIN {item}"
        on = self.conditions(relations, relation)
        relations.append(relation)
        return f" {self.kind(0.78)} {item} ON {on}"

    def kind(self, inner: float) -> str:
        if self.chance(inner):
            return self.dice.choice(("JOIN", "INNER JOIN", "join"))
        return self.dice.choice(("LEFT JOIN", "RIGHT OUTER JOIN", "FULL JOIN", "LEFT OUTER JOIN"))

    def relation(
        self, depth: int, ctes: dict[str, list[tuple[str, str]]], taken: list[Relation]
    ) -> tuple[Relation, str]:
        """Return a relation with an alias of its own, and its text in FROM."""
        alias = self.fresh(ALIASES)
        how = self.dice.random()
        if ctes and how < 0.35:
            name = self.dice.choice(list(ctes))
            return Relation(alias, list(ctes[name])), f"{name} {alias}"
        if depth > 0 and how < 0.55:
            text, columns = self.query(depth - 1, ctes)
            if columns:
                return Relation(alias, columns), f"({text}) AS {alias}"
        table = self.dice.choice("rrrsssttuc")
        columns = [(_quoted(name), kind) for name, kind in BASE[table]]
        if how > 0.97:
            return Relation(alias, [("i", "int"), ("j", "int")]), f"(VALUES (1, 2), (3, NULL), (2, 2)) AS {alias}(i, j)"
        if how > 0.85:
            kept = self.dice.sample(columns, min(len(columns), 3))
            items = ", ".join(name for name, _ in kept)
            return Relation(alias, kept), f"(SELECT {items} FROM {table}) {alias}"
        if how > 0.8 and all(one.alias.lower() != table for one in taken):
            return Relation(table, columns), table
        name = table.upper() if self.chance(0.2) else table
        return Relation(alias, columns), f"{name}{self.dice.choice((' AS ', ' '))}{alias}"

    # ------------------------------------------------------------------------------------------------------- conditions

    def conditions(self, relations: list[Relation], relation: Relation) -> str:
        return " AND ".join(self.conjuncts(relations, relation))

    def conjuncts(self, relations: list[Relation], relation: Relation) -> list[str]:
        """Return conditions of a relation with some before it; at least one keeps the result small."""
        other = self.dice.choice(relations)
        found = [self.pair(other, relation, selective=self.chance(0.8))]
        if self.chance(0.35):
            found.append(self.pair(self.dice.choice(relations), relation, selective=False))
        if self.chance(0.1):
            found.append(self.single(relation))
        if len(relations) > 1 and self.chance(0.08):
            found.append(self.across([*relations, relation]))
        return found

    def pair(self, one: Relation, other: Relation, selective: bool) -> str:
        """Return a condition of two relations."""
        if self.chance(0.1):
            branches = [self.pair(one, other, selective) for _ in range(self.dice.choice((2, 2, 3)))]
            branches[0] += f" AND {self.single(one)}" if self.chance(0.3) else ""
            return f"({' OR '.join(branches)})"
        if self.chance(0.5):
            one, other = other, one
        kinds = [kind for kind in SQL_TYPES if one.of(kind) and other.of(kind)]
        if not kinds or one is other:
            return f"{one.alias}.{one.columns[0][0]} IS NOT NULL AND {other.alias}.{other.columns[0][0]} IS NOT NULL"
        kind = "int" if "int" in kinds and self.chance(0.5) else self.dice.choice(kinds)
        a = self.spelled(f"{one.alias}.{self.dice.choice(one.of(kind))}")
        b = self.spelled(f"{other.alias}.{self.dice.choice(other.of(kind))}")
        choices = [f"{a} = {b}", f"{a} = {b}", f"{a} <=> {b}"]
        op = self.dice.choice(("<", "<=", ">", ">="))
        small = self.dice.randint(0, 2)
        if kind in ("int", "decimal"):
            choices += [
                f"{a} BETWEEN {b} - 1 AND {b} + {small}",
                f"ABS({a} - {b}) <= {small}",
                f"{a} + 1 = {b} - {small}",
            ]
            choices += [f"{a} - {b} BETWEEN -1 AND {small}", f"{a} = {b} AND {a} < {small + 3}"]
            choices += [f"ABS({a} - {b} - {small}) <= 1", f"ABS({small} + {a} - {b}) < 2", f"{b} - {a} - 1 = {small}"]
            choices += [f"{a} + {b} BETWEEN 1 AND {small + 1}", f"1 < {small} - {a} + {b} AND {a} - {b} > -3.5"]
        elif kind == "time":
            choices.append(f"{a} BETWEEN {b} - INTERVAL {self.dice.randint(0, 9)} MINUTES AND {b}")
            choices.append(f"{a} - {b} BETWEEN INTERVAL -{small} MINUTES AND INTERVAL '3' MINUTE")
            unit = self.dice.choice(("SECOND", "MINUTE", "HOUR", "DAY", "MONTH"))
            choices += [
                f"timestampdiff({unit}, {a}, {b}) BETWEEN -1 AND {small}",
                f"ABS(datediff(MINUTE, {a}, {b})) < {small + 2}",
                f"{a} BETWEEN {b} AND dateadd({unit}, {small}, {b})",
                f"{a} <= {b} + make_dt_interval(0, 0, {small}, 1.5) AND {a} >= {b}",
                f"ABS(CAST({a} AS DOUBLE) - CAST({b} AS DOUBLE)) <= {60 * small}",
                f"date_trunc('{unit}', {a}) = date_trunc('{unit}', {b})",
                f"floor(unix_timestamp({a}) / 120) = floor(unix_timestamp({b}) / 120)",
                f"{a} - {b} BETWEEN INTERVAL '0 00:00:00' DAY TO SECOND AND INTERVAL '00:0{small}' HOUR TO MINUTE",
            ]
        elif kind == "date":
            choices += [
                f"ABS(datediff({a}, {b}) - 1) <= {small}",
                f"datediff({a}, {b}) BETWEEN -1 AND {small}",
                f"{a} BETWEEN {b} - 1 AND {b}",
                f"{a} = {b} + {small}",
            ]
        elif kind == "double":
            choices += [f"ABS({a} - {b} - 0.5) < 1.1", f"0.75 > {a} - {b} + {small} AND {a} >= {b}"]
            choices += [f"ABS({a} - {b}) < 1.6", f"{a} - {b} <= 0.5 AND {b} - {a} < 1"]
        if kind in ("int", "decimal", "double"):
            c, d = (f"{side.alias}.{self.dice.choice(side.of(kind))}" for side in (one, other))
            choices += [
                f"POWER({a} - {b}, 2) + POWER({c} - {d}, 2) <= {small}.5",
                f"SQRT(({a} - {b}) * ({a} - {b}) + ({d} - {c}) * ({d} - {c})) < {small + 1}",
                f"ABS({a} - {b}) + 2 * ABS({c} - {d} - 1) <= {small}.5",
                f"hypot({a} - {b}, ({c} - {d}) / 2) < {small + 1}",
                f"GREATEST(ABS({a} - {b}), ABS({c} - {d})) <= {small}",
                f"GREATEST(ABS({a} - {b}), ABS({c} - {d})) <= {small} AND {a} IS NOT NULL AND {b} < 9",
            ]
        if not selective:
            choices += [f"{a} {op} {b}"] * 3 + [f"{a} <> {b}", f"NOT ({a} {op} {b})", f"{a} != {b}"]
            choices += [f"({a} {op} {b} OR {self.single(other)})", f"coalesce({a} {op} {b}, true)", f"NOT {a} <=> {b}"]
            if kind == "int":
                choices += [
                    f"{a} - {b} {op} {small}",
                    f"{a} * 2 {op} {b} + {small}",
                    f"-{a} {op} {b}",
                    f"{a} % 3 = {b} % 3",
                ]
            if kind == "text":
                choices += [f"{a} LIKE {b}", f"length({a}) {op} length({b})", f"{a} IN ({b}, 'x')"]
            if kind == "time":
                choices += [f"{a} {op} {b} + INTERVAL {small} HOURS", f"date({a}) = date({b})"]
        return self.dice.choice(choices)

    def single(self, one: Relation) -> str:
        """Return a condition of one relation."""
        name, kind = self.dice.choice(one.columns)
        a = self.spelled(f"{one.alias}.{name}")
        choices = [f"{a} IS NOT NULL", f"{a} = {a}", "1 = 1", f"NOT ({a} IS NULL)"]
        if kind == "int":
            number = self.dice.randint(-2, 5)
            choices += [
                f"{a} > {number}",
                f"{a} BETWEEN 0 AND {number + 3}",
                f"{number} >= {a}",
                f"{a} IN (1, 2, {number}, NULL)",
            ]
            choices += [f"({a} < 2 OR {a} IS NULL)", f"{a} <> {number}", f"{a} = {number}"]
        elif kind == "text":
            choices += [f"{a} IN ('x', 'y', '%')", f"{a} LIKE 'x%'", f"({a} = 'x' OR {a} > 'y')"]
        elif kind == "double":
            choices += [f"{a} > 1", f"NOT isnan({a})", f"{a} = 0"]
        elif kind == "time":
            choices += [f"{a} >= TIMESTAMP '2024-01-01 00:05:00'", f"hour({a}) = 0"]
        elif kind == "date":
            choices += [f"{a} < DATE '2024-01-05'", f"{a} >= '2024-01-02'"]
        return self.dice.choice(choices)

    def across(self, relations: list[Relation]) -> str:
        """Return a condition of any number of relations."""
        some = self.dice.sample(relations, min(len(relations), self.dice.choice((2, 3, 3))))
        numbers = [f"{one.alias}.{self.dice.choice(one.of('int'))}" for one in some if one.of("int")]
        if len(numbers) < 2:
            return self.single(some[0])
        first, last = some[0], some[-1]
        return self.dice.choice(
            (
                f"{' + '.join(numbers)} > {self.dice.randint(-3, 6)}",
                f"{numbers[0]} - {' - '.join(numbers[1:])} < 3",
                f"(({self.single(first)} AND {self.single(last)}) OR ({self.single(first)} AND {self.single(last)}))",
                f"({' = 1 OR '.join(numbers)} = 2)",
                f"greatest({', '.join(numbers)}) >= {numbers[0]}",
                f"NOT ({numbers[0]} = {numbers[1]} OR {self.single(last)})",
                f"NOT ({self.single(first)} AND {numbers[0]} < {numbers[1]} OR {self.single(last)})",
                f"NOT ({self.single(first)} OR NOT ({self.single(last)} AND {numbers[0]} <> {numbers[1]}))",
                f"{numbers[0]} | {numbers[1]} << 1 > 3",
                f"{numbers[0]} < {numbers[1]} IS NOT NULL",
                f"{numbers[0]} < {numbers[1]} = ({self.single(last)})",
                f"CASE WHEN {numbers[0]} > 2 THEN {numbers[-1]} ELSE 1 END < 4",
                f"({', '.join(numbers[:2])}) = ({numbers[1]}, {numbers[0]})",
            )
        )

    def subquery(self, depth: int, ctes: dict[str, list[tuple[str, str]]], outer: list[Relation]) -> str:
        """Return a condition with a subquery, half of them correlated."""
        inner, text, where = self.from_clause(0, ctes, self.dice.choice((1, 2, 2, 3)))
        number, _ = self.number(inner)
        mine, _ = self.number(outer)
        if self.chance(0.5):
            where.append(f"{number} {self.dice.choice(('=', '=', '<', '>='))} {mine}" if "." in mine else "1 = 1")
        body = f"FROM {text}{_where(where)}"
        match self.dice.randint(0, 4):
            case 0:
                return f"EXISTS (SELECT 1 {body})"
            case 1:
                return f"NOT EXISTS (SELECT * {body})"
            case 2:
                return f"{mine} IN (SELECT {number} {body})"
            case 3:
                return f"{mine} NOT IN (SELECT {number} {body})" if not where else f"{mine} IN (SELECT {number} {body})"
            case _:
                body = f"FROM {text}{_where([one for one in where if '<' not in one and '>' not in one])}"
                return f"{mine} {self.dice.choice(('<', '>=', '='))} (SELECT max({number}) {body})"

    # ------------------------------------------------------------------------------------------------------------ names

    def column(self, relations: list[Relation], one: Relation, name: str) -> str:
        """Return a column, without its relation's name where that is clear and chance wants it."""
        everywhere = [c.lower() for other in relations for c, _ in other.columns]
        if everywhere.count(name.lower()) == 1 and self.chance(0.3):
            return self.spelled(name)
        return self.spelled(f"{one.alias}.{name}")

    def spelled(self, text: str) -> str:
        """Return a name in another case now and then; Spark does not mind."""
        return text.upper() if text.isascii() and self.chance(0.05) else text

    def fresh(self, names: tuple[str, ...], reuse: bool = True) -> str:
        """Return a name that is in no other use."""
        self.names += 1
        name = self.dice.choice(names)
        return f"{name[:-1]}{self.names}`" if name.endswith("`") else f"{name}{self.names}"


SQL_TYPES = {
    "int": "INT",
    "time": "TIMESTAMP",
    "double": "DOUBLE",
    "text": "STRING",
    "date": "DATE",
    "decimal": "DECIMAL(10,2)",
}


def _quoted(name: str) -> str:
    return name if name.isascii() and " " not in name else f"`{name}`"


def _where(conditions: list[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""
