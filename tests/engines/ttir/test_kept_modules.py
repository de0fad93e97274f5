"""A text is parsed once: other processes read from disk what the first one made of it."""

from pathlib import Path

import pytest

from harness.engines.ttir.ir import MODULE_FACTS, Module
from harness.engines.ttir.kept_modules import SUFFIX, KeptFunction, KeptModules
from harness.engines.ttir.parser import parse
from harness.engines.ttir.reach import PointerReach, reach_of
from harness.errors import CannotExecute
from harness.model.executed_lines import FileLines

ENTERED = b"\1\1"


def text_at(line: int) -> str:
    return f"""
#loc = loc("kernels.py":{line}:0)
module {{
  tt.func public @twice(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i1) {{
    %a = tt.load %x : !tt.ptr<f32> loc(#loc)
    scf.if %n {{
      tt.store %out, %a : !tt.ptr<f32> loc(#loc)
    }} loc(#loc)
    tt.return
  }} loc(#loc)
}}
"""


def _content(module: Module) -> object:
    return [(one.name, one.parameters, one.body) for one in module.functions.values()], module.locations, module.blocks


def test_another_process_gets_the_same_module(tmp_path: Path) -> None:
    first, first_lines = KeptModules(tmp_path).read(text_at(3))
    (file,) = tmp_path.glob(f"*{SUFFIX}")
    again, lines = KeptModules(tmp_path).read(text_at(3))
    assert _content(again) == _content(first) == _content(parse(text_at(3)))
    assert lines.executed(ENTERED) == first_lines.executed(ENTERED)
    assert reach_of(again.kernel).kernel is again.kernel
    plain = PointerReach(parse(text_at(3)).kernel)
    assert [reach_of(again.kernel).written, reach_of(again.kernel).plain] == [plain.written, plain.plain]
    assert list(tmp_path.iterdir()) == [file]


def test_a_kept_module_is_not_parsed_again(tmp_path: Path) -> None:
    KeptModules(tmp_path).read(text_at(3))
    (third,) = tmp_path.iterdir()
    KeptModules(tmp_path).read(text_at(4))
    (fourth,) = set(tmp_path.iterdir()) - {third}
    fourth.write_bytes(third.read_bytes())
    _, lines = KeptModules(tmp_path).read(text_at(4))
    assert lines.executed(ENTERED) == (FileLines(file="kernels.py", ranges=((3, 3),)),)


@pytest.mark.parametrize(
    "content", [b"", b"\x80", b"cos\nsystem", b"N.", b"N)R."], ids=["empty", "cut", "foreign", "nothing", "no function"]
)
def test_a_damaged_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    KeptModules(tmp_path).read(text_at(3))
    (file,) = tmp_path.iterdir()
    kept = file.read_bytes()
    file.write_bytes(content)
    module, _ = KeptModules(tmp_path).read(text_at(3))
    assert _content(module) == _content(parse(text_at(3)))
    assert file.read_bytes() == kept


def test_a_module_that_cannot_be_kept_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_bytes(b"")
    module, _ = KeptModules(folder).read(text_at(3))
    assert _content(module) == _content(parse(text_at(3)))


def test_a_text_that_cannot_be_read_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(CannotExecute):
        KeptModules(tmp_path).read("module {}")
    assert not list(tmp_path.iterdir())


def test_facts_of_a_kept_kernel_need_no_body(tmp_path: Path) -> None:
    KeptModules(tmp_path).read(text_at(3))
    kept, _ = KeptModules(tmp_path).read(text_at(3))
    fields = (kept.kernel.name, kept.kernel.parameters, kept.kernel.result_types)
    kernel = KeptFunction.restored(b"", *fields, kept.kernel.slots, kept.kernel.location, kept.kernel.public)
    module = Module({kernel.name: kernel}, kept.locations, kept.block_count, kept.facts)
    plain = parse(text_at(3))
    assert [fact(module) for fact in MODULE_FACTS] == [fact(plain) for fact in MODULE_FACTS]
    with pytest.raises(EOFError):
        _ = kernel.body
