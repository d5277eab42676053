"""The Two-Step Convert on plans built by hand (004 section 3.2, algorithms 1 to 3)."""

from __future__ import annotations

from trijoin_sql.rewriter.plan.conjuncts import Compare, Term
from trijoin_sql.rewriter.plan.nodes import (
    BiJoin,
    Block,
    Exchange,
    Join,
    JoinGroup,
    JoinNode,
    MultiJoin,
    Node,
    Project,
    Query,
    Scan,
    TriJoin,
    source_scan,
    walk,
)
from trijoin_sql.rewriter.rules.create_multi_join_groups import can_be_member, create_multi_join_groups
from trijoin_sql.rewriter.rules.create_multi_join_nodes import create_multi_join_nodes
from trijoin_sql.rewriter.rules.rule import NotApplicable
from trijoin_sql.rewriter.sql.expressions import parsed

from .tables import rewritten


def scan(alias: str, *below: Node) -> Scan:
    return Scan(alias, alias, below=below)


def less(left: str, right: str) -> Compare:
    text = f"{left}.a < {right}.a"
    return Compare(text, Term(parsed(text)), *(Term(parsed(f"{one}.a"), (one,)) for one in (left, right)), "<")


def query(tree: Node) -> Query:
    return Query("SELECT", (Block(tree, 0),))


def grouped(tree: Node) -> list[JoinGroup]:
    plan = create_multi_join_groups(query(tree))
    assert isinstance(plan, Node)
    return [node for node in walk(plan) if isinstance(node, JoinGroup)]


def converted(tree: Node) -> list[JoinNode]:
    plan = create_multi_join_groups(query(tree))
    assert isinstance(plan, Node)
    plan = create_multi_join_nodes(plan)
    assert isinstance(plan, Node)
    return [node for node in walk(plan) if isinstance(node, JoinNode)]


RS = Join("inner", scan("r"), scan("s"), (less("r", "s"),))


def test_a_tree_of_inner_joins_is_one_group_through_exchanges_and_projections() -> None:
    """The figure of the paper: the hash node between two joins is a member, those over scans are not."""
    tree = Join("inner", Exchange(RS, ("s.a",)), Exchange(scan("t"), ("t.a",)), (less("s", "t"),))
    (group,) = grouped(tree)
    assert group.members == 3
    (node,) = converted(tree)
    assert type(node) is TriJoin
    assert [source_scan(source).alias for source in node.sources] == ["r", "s", "t"]
    assert [type(source) for source in node.sources] == [Scan, Scan, Scan]
    assert (node.graph.shape, node.graph.hub) == ("chain", "s")

    projected = Join("inner", Project(RS, (("a", "r.a"),)), scan("t"), (less("r", "t"),))
    assert [group.members for group in grouped(projected)] == [3]


def test_bushy_trees_and_four_relations() -> None:
    tree = Join("inner", RS, Join("cross", scan("t"), scan("u")), (less("s", "t"),))
    (node,) = converted(tree)
    assert type(node) is MultiJoin
    assert node.graph.relations == ("r", "s", "t", "u")
    assert node.graph.shape == "disconnected"


def test_an_outer_join_is_a_border_between_two_groups() -> None:
    tree = Join("left", RS, Join("inner", scan("t"), scan("u"), (less("t", "u"),)), (less("r", "t"),))
    found = converted(tree)
    assert [type(node) for node in found] == [BiJoin, BiJoin]
    assert [node.name for node in found] == ["__trijoin_1", "__trijoin_2"]


def test_a_join_that_stays_with_spark_is_a_border() -> None:
    tree = Join("inner", RS, scan("c"), (less("r", "c"),), by_spark=True)
    (node,) = converted(tree)
    assert node.graph.relations == ("r", "s")


def test_a_shared_subtree_is_converted_once() -> None:
    """Algorithm 3's visited map: a common table expression read twice is one node, not two with one name."""
    shared = Block(RS, 0)
    tree = Join("inner", scan("p", shared), scan("q", shared), (less("p", "q"),))
    plan = create_multi_join_groups(query(tree))
    assert isinstance(plan, Node)
    plan = create_multi_join_nodes(plan)
    assert isinstance(plan, Node)
    inner = {id(node) for node in walk(plan) if isinstance(node, JoinNode) and node.graph.relations == ("r", "s")}
    assert len(inner) == 1


def test_a_node_with_readers_in_two_groups_starts_its_own() -> None:
    """Algorithm 2's canBeInSameGroupWithOutputs: all readers must be in the same group."""
    one = Join("inner", RS, scan("t"), (less("s", "t"),))
    other = Join("inner", RS, scan("u"), (less("s", "u"),))
    outer = Join("full", one, other)
    plan = create_multi_join_groups(query(outer))
    assert isinstance(plan, Node)
    groups = {id(node): node for node in walk(plan) if isinstance(node, JoinGroup)}
    assert sorted(group.members for group in groups.values()) == [1, 1, 1]


def test_membership_is_an_extension_point() -> None:
    def no_projection(node: Node) -> bool:
        return can_be_member(node) and not isinstance(node, Project)

    tree = Join("inner", Project(RS, ()), scan("t"), (less("r", "t"),))
    plan = create_multi_join_groups(query(tree), no_projection)
    assert isinstance(plan, Node)
    assert [n.members for n in walk(plan) if isinstance(n, JoinGroup)] == [1, 1]


def test_nothing_to_group_is_not_applicable() -> None:
    tree = Join("left", scan("r"), scan("s"))
    assert isinstance(create_multi_join_groups(query(tree)), NotApplicable)
    assert isinstance(create_multi_join_nodes(query(tree)), NotApplicable)


def test_a_common_table_expression_that_is_read_often_is_one_node_to_the_end() -> None:
    """Each stage must keep it: TPC-DS q04 reads one six times, and would run its joins six times."""
    sql = "WITH w AS (SELECT r.id, max(s.a) AS a FROM r JOIN s ON r.id = s.id WHERE r.a > 1 GROUP BY r.id) "
    result = rewritten(sql + "SELECT p.a FROM w AS p JOIN w AS q ON p.id < q.id JOIN w AS o ON o.a = q.a")
    assert [group.graph.relations for group in result.groups] == [("r", "s"), ("p", "q", "o")]
