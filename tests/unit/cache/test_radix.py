"""The compressed prefix tree: its shape follows the order of writes."""

from __future__ import annotations

from foreword.cache.radix import RadixTree
from foreword.cache.table import BlockTable


class Writer:
    """A tree with its table; writes cache every block of a path in tier 0."""

    def __init__(self) -> None:
        self.table = BlockTable(1)
        self.tree = RadixTree(self.table)

    def write(self, path: str) -> list[int]:
        """Write a path of letters."""
        blocks = self.table.intern([ord(letter) for letter in path])
        self.tree.insert(blocks)
        for block in blocks:
            self.table.put(block, 0, now=1)
        return blocks

    def runs(self) -> list[str]:
        """Letters of each node, breadth first."""
        return ["".join(chr(self.table.index.keys[block]) for block in node.blocks) for node in self.tree.nodes()]


def test_a_childless_node_grows() -> None:
    """What is written below a leaf lengthens its run."""
    writer = Writer()

    writer.write("ab")
    writer.write("abcd")

    assert writer.runs() == ["abcd"]


def test_a_node_with_children_gets_another() -> None:
    """What leaves a run in the middle splits it; what leaves at its end is a child of its own."""
    writer = Writer()

    writer.write("abcd")
    writer.write("abx")
    writer.write("aby")

    assert writer.runs() == ["ab", "cd", "x", "y"]


def test_a_prefix_splits_nothing() -> None:
    """A path that ends inside a run adds nothing."""
    writer = Writer()

    writer.write("abc")
    writer.write("ab")

    assert writer.runs() == ["abc"]


def test_a_repeated_key_is_one_block_a_position() -> None:
    """Equal keys in one path stand behind each other."""
    writer = Writer()

    assert writer.write("aaa") == [0, 1, 2]
    assert writer.runs() == ["aaa"]


def test_the_upper_part_of_a_split_keeps_the_reads() -> None:
    """Both parts of a split node were read as often as the node."""
    writer = Writer()
    blocks = writer.write("abc")
    writer.tree.count_read(blocks[:1])

    writer.write("ax")

    assert {run: node.reads for run, node in zip(writer.runs(), writer.tree.nodes(), strict=True)} == {
        "a": 1,
        "bc": 1,
        "x": 0,
    }


def test_empty_leaves_go_and_holes_stay() -> None:
    """A node goes when all of it is empty and it is a leaf; one that was emptied earlier outlives its child."""
    writer = Writer()
    a, b, c = writer.write("abc")
    writer.write("abd")
    d = writer.table.intern([ord(letter) for letter in "abd"])[2]

    writer.table.drop(a, 0)
    writer.tree.prune([a])
    assert writer.runs() == ["ab", "c", "d"]

    writer.table.drop(b, 0)
    writer.tree.prune([b])
    writer.table.drop(c, 0)
    writer.table.drop(d, 0)
    writer.tree.prune([c, d])
    assert writer.runs() == ["ab"]

    writer.write("abe")
    assert writer.runs() == ["abe"]


def test_a_chain_that_empties_at_once_goes_at_once() -> None:
    """Parents whose blocks have just become empty follow their children."""
    writer = Writer()
    first = writer.write("abc")
    second = writer.write("abd")
    emptied = [*first, second[2]]
    for block in emptied:
        writer.table.drop(block, 0)

    writer.tree.prune(emptied)

    assert writer.runs() == []
    assert writer.tree.find(first[0]) is None


def test_a_saved_tree_has_the_same_nodes() -> None:
    """Runs, parents and reads come back."""
    writer, other = Writer(), Writer()
    for path in ("abcd", "abx", "y", "abxz"):
        writer.tree.count_read(writer.write(path))

    other.table.load(writer.table.save())
    other.tree.load(writer.tree.save())

    assert other.runs() == writer.runs()
    assert other.tree.save() == writer.tree.save()
    assert other.tree.node_of(1).parent is other.tree.root
