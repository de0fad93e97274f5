"""Small programs of torch code, drawn as graphs, as Inductor compiles them, forward and backward.

A program has up to five nodes.  Each node applies one operation of the list to the node before it and to another
value: an input or an earlier node.  Every value has the shape (T, D).  Dims choose operations and operands, so a
failure shrinks to the fewest nodes, each towards the first operation of the list.

`static` compiles for the sizes of the case, `dynamic` for all sizes, `tuned` with the templates of `max-autotune`.
"""

from harness.suite import Dim, beside, compiled, integers, op, tensor, width

NODES = 5
GRAPHS = "program_graphs.py"
OPERATIONS = 36
"""How many operations `program_graphs.py` lists."""
WAYS = {"static": {}, "dynamic": {"dynamic": True}, "tuned": {"mode": "max-autotune-no-cudagraphs"}}


def plan_of(nodes, choices):
    """Return the graph: for each node an operation and the number of its other operand."""
    return tuple((choices[f"op{at}"] - 1, choices[f"arg{at}"] - 1) for at in range(1, nodes + 1))


def declare(name, options):
    def call(x, y, w, index, nodes, **choices):
        graphs = beside(__file__, GRAPHS)
        return compiled(graphs.run, **options)(plan_of(nodes, choices), x, y, w, index)

    def reference(x, y, w, index, nodes, **choices):
        return beside(__file__, GRAPHS).run(plan_of(nodes, choices), x, y, w, index)

    call.__name__ = name
    numbers = range(1, NODES + 1)
    declared = op(
        dims={
            "T": width(300),
            "D": width(96),
            "nodes": Dim(low=1, high=NODES),
            **{f"op{at}": Dim(low=1, high=OPERATIONS) for at in numbers},
            **{f"arg{at}": Dim(low=1, high=at + 1) for at in numbers},
        },
        inputs={
            "x": tensor("T", "D"),
            "y": tensor("T", "D"),
            "w": tensor("D", "D"),
            "index": integers("T", high="T"),
        },
    )(call)
    declared.reference(reference)
    return declared


globals().update({name: declare(name, options) for name, options in WAYS.items()})
