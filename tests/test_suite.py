"""A wrong suite file gives a one-line error that names the file, the op and what to change."""

from pathlib import Path

import pytest

from harness.errors import SuiteError
from harness.suite import beside, load_suite

SUITE = """
from harness.suite import Dim, DType, groups, integers, op, segments, tensor, tokens

@op({declared})
def f(x):
    return x

@f.reference
def _(x):
    return x
"""
NO_ARITHMETIC = "has an extent of x that is no arithmetic with +, -, * and // over dims"
PLAIN = 'dims={"T": tokens(64)}, inputs={"x": tensor("T")}'


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (PLAIN + ', refuse=("ValueError",)', "has an unknown argument 'refuse': did you mean refuses or requires?"),
        (PLAIN + ', suite="mine.py"', "has an unknown argument 'suite': known: apart, "),
        (PLAIN + ", requires=(1,)", "has requires=(1,): write names of distributions, or tuples of alternative names"),
        (PLAIN + ', requires="fla-core"', "has requires='fla-core': write requires=('fla-core',)"),
        (PLAIN + ', options={"flag": ()}', "has the option flag=(): give a tuple of the values worth trying"),
        (PLAIN + ', options={"flag": True}', "has the option flag=True: give a tuple of the values worth trying"),
        (PLAIN + ', options={"act": "silu"}', "has the option act='silu': give a tuple of the values worth trying"),
        (PLAIN + ', options=("flag",)', "has options=('flag',): write a dict, by name"),
        (PLAIN + ', environment={"FAST": "1"}', "has the environment variable FAST='1': give a tuple of texts"),
        (PLAIN + ', environment={"FAST": (1,)}', "has the environment variable FAST=(1,): give a tuple of texts"),
        (PLAIN + ', apart=("D",)', "keeps undeclared dims apart: D"),
        (PLAIN + ', independent=("D",)', "has independent rows of an unknown dim 'D'"),
        (
            'dims={"T": tokens(64), "D": tokens(4)}, inputs={"x": tensor("T*D"), "y": tensor("T")}, independent=("T",)',
            "has independent rows of T, which x combines with other dims on one axis",
        ),
        (
            'dims={"T": tokens(64)}, inputs={"x": tensor("T"), "i": integers(4, high="T")}, independent=("T",)',
            "has independent rows of T, which bounds the values of i: they cannot be cut out",
        ),
        (
            'dims={"T": tokens(64), "D": tokens(4)}, inputs={"x": tensor("T")}, independent=("D",)',
            "has independent rows of D, of which no input has an axis",
        ),
        (PLAIN + ', sequences="x"', "has sequences='x': write the name of a segments(…) input"),
        (PLAIN + ', where=lambda at: at["K"] % 8 == 0', "asks in `where` for an unknown name 'K': known: T"),
        (
            PLAIN + ', options={"heads": (1, 2)}, where=lambda at: at["head"] > 1',
            "asks in `where` for an unknown name 'head': did you mean heads?",
        ),
        (PLAIN + ', where=lambda at: {}[at["T"]]', "fails in `where` at T=1: KeyError: 1"),
        (PLAIN + ', where=lambda at: at["T"] // 0', "fails in `where` at T=1: ZeroDivisionError: "),
        (PLAIN + ", where=True", "fails in `where` at T=1: TypeError: 'bool' object is not callable"),
        ('dims={"T": 64}, inputs={"x": tensor("T")}', "has the dim T=64: write Dim(low=…, high=…), tokens(…)"),
        ('dims={"T"}, inputs={"x": tensor("T")}', "has dims={'T'}: write a dict, by name"),
        ('dims={"T": Dim(low=8, high=4)}, inputs={"x": tensor("T")}', "has the dim T with low=8 above high=4"),
        (
            'dims={"T": Dim(low=1, high=4, choices=(2, 8))}, inputs={"x": tensor("T")}',
            "has the dim T with the choice 8 outside 1 to 4",
        ),
        ('dims={"T": tokens()}, inputs={"x": ("T",)}', "has the input x=('T',): write tensor(…), integers(…), "),
        ('dims={"T": tokens()}, inputs=(tensor("T"),)', "has inputs=(Tensor("),
        (
            'dims={"T": tokens()}, inputs={"x": tensor("T", 4, broadcasts="T")}',
            "has the input x with broadcasts='T': write ('T',)",
        ),
        (
            'dims={"T": tokens()}, inputs={"x": tensor("T", 4, broadcasts=("H",))}',
            "has the input x with broadcasts='H', which is no extent of its shape",
        ),
        ('dims={"T": tokens()}, inputs={"x": tensor("T*D")}', "has an extent of x with an unknown dim 'D': known: T"),
        (
            'dims={"heads": tokens()}, inputs={"cu": segments("heads", "head")}',
            "has an extent of cu with an unknown dim 'head': did you mean heads?",
        ),
        ('dims={"T": tokens()}, inputs={"x": tensor(("T",))}', f"{NO_ARITHMETIC}: ('T',)"),
        ('dims={"T": tokens()}, inputs={"x": tensor("T +")}', f"{NO_ARITHMETIC}: 'T +'"),
        ('dims={"T": tokens()}, inputs={"x": tensor("T/2")}', f"{NO_ARITHMETIC}: 'T/2'"),
        (
            'dims={"T": tokens(), "K": Dim(low=0, high=4)}, inputs={"x": tensor("T//K")}',
            "has an extent of x that divides by 0 at T=1, K=0: T//K",
        ),
        (
            'dims={"T": tokens(), "K": Dim(low=1, high=4)}, inputs={"x": tensor("T//(K-4)")}',
            "has an extent of x that divides by 0 at T=2048, K=4: T//(K-4)",
        ),
        (
            'dims={"T": tokens(), "K": Dim(low=0, high=4)}, inputs={"x": integers("T", high="8//K")}',
            "has an extent of x that divides by 0 at T=1, K=0",
        ),
    ],
)  # fmt: skip
def test_a_mistake_names_file_op_and_cause(tmp_path: Path, declared: str, message: str) -> None:
    file = written(tmp_path / "norm.py", SUITE.format(declared=declared))
    with pytest.raises(SuiteError) as caught:
        load_suite(file)
    assert str(caught.value).startswith(f"{file}: op 'f' {message}"), caught.value
    assert len(str(caught.value).splitlines()) == 1


def test_an_op_without_a_reference_has_a_draft_of_a_definition(tmp_path: Path) -> None:
    file = written(tmp_path / "norm.py", SUITE.format(declared=PLAIN).partition("@f.reference")[0])
    (op,) = load_suite(file)
    with pytest.raises(NotImplementedError):
        op.reference(x=None)


def test_a_correct_declaration_becomes_an_op(tmp_path: Path) -> None:
    declared = (
        'dims={"T": tokens(64), "D": groups(2, 4), "N": Dim(low=0, high=4, choices=(1, 4))}, '
        'inputs={"x": tensor("T", "D*N", 3, optional=True), "at": integers("T", high="D"), "cu": segments("T", "D")}, '
        'options={"flag": (False, True)}, dtypes=(DType.FP32,), apart=("T",), '
        'where=lambda at: at["D"] >= 2 and at["N"] >= 1 and not at["flag"] and at["x"]'
    )
    (op,) = load_suite(written(tmp_path / "norm.py", SUITE.format(declared=declared)))
    assert (op.name, op.optional, op.simplest_options) == ("f", ("x",), {"flag": False})
    assert op.where is not None
    assert [op.where({"D": size, "N": 1, "flag": False, "x": True}) for size in (1, 2)] == [False, True]


def test_a_predicate_that_fails_at_some_sizes_names_them(tmp_path: Path) -> None:
    declared = PLAIN + ', where=lambda at: at["T"] < 8 or at["K"] > 1'
    file = written(tmp_path / "norm.py", SUITE.format(declared=declared))
    (op,) = load_suite(file)
    assert op.where is not None
    assert op.where({"T": 7})
    with pytest.raises(SuiteError, match=r"norm\.py: op 'f' asks in `where` for an unknown name 'K': known: T"):
        op.where({"T": 8})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import pytest\npytest.importorskip('no_such_kernels')\n", "Skipped: could not import 'no_such_kernels'"),
        ("import pytest\npytest.skip('not here', allow_module_level=True)\n", "Skipped: not here"),
        ("import sys\nsys.exit()\n", "SystemExit"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("raise GeneratorExit\n", "GeneratorExit"),
    ],
)
def test_any_exception_on_import_is_the_suites_fault(tmp_path: Path, text: str, message: str) -> None:
    file = written(tmp_path / "norm.py", text)
    with pytest.raises(SuiteError) as caught:
        load_suite(file)
    line = len(text.splitlines())
    assert str(caught.value).partition(": No module")[0] == f"{file}:{line} fails on import: {message}"


def test_an_error_in_a_file_that_a_suite_loads_has_both_places(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text("x = 1\n\n1 / 0\n", encoding="utf-8")
    file = written(tmp_path / "norm.py", "from harness.suite import beside\n\nk = beside(__file__, 'kernels.py')\n")
    with pytest.raises(SuiteError) as caught:
        load_suite(file)
    assert str(caught.value).startswith(f"{file}:3 fails on import: ")
    assert f"{tmp_path / 'kernels.py'}:3" in str(caught.value)


def test_an_interrupt_while_a_suite_loads_passes_through(tmp_path: Path) -> None:
    file = written(tmp_path / "norm.py", "import signal\nsignal.raise_signal(signal.SIGINT)\n")
    with pytest.raises(KeyboardInterrupt):
        load_suite(file)


def test_equal_names_in_two_checkouts_are_two_modules(tmp_path: Path) -> None:
    for checkout in ("old", "new"):
        written(tmp_path / checkout / "suites" / "kernels" / "sum.py", f"checkout = {checkout!r}\n")
    old, new = (beside(str(tmp_path / one / "suites" / "norm.py"), "kernels/sum.py") for one in ("old", "new"))
    assert (old.checkout, new.checkout) == ("old", "new")
    assert old.__name__.startswith("harness_suite_suites_kernels_sum_")


def test_a_file_is_one_module_for_all_its_paths(tmp_path: Path) -> None:
    written(tmp_path / "suites" / "kernels" / "sum.py", "")
    (tmp_path / "linked").symlink_to(tmp_path / "suites")
    straight = beside(str(tmp_path / "suites" / "norm.py"), "kernels/sum.py")
    assert beside(str(tmp_path / "linked" / "norm.py"), "kernels/sum.py") is straight
    assert beside(str(tmp_path / "suites" / "kernels" / "norm.py"), "../kernels/sum.py") is straight


def written(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)
