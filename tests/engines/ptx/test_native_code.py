"""Native code of the PTX machine against its interpreter: the same bits, the same flaws."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.engines.ptx.native.native_runs import NativePolicy
from harness.engines.ptx.native.run_lowering import is_lowered
from harness.engines.ptx.ptx_text import parse
from harness.engines.ptx.wave_runner import INTERPRETED, PreparedKernel
from harness.engines.virtual.native.native_code import ExecutorMode
from tests.engines.ptx.ptx_programs import NATIVE, Launched, executed_by, kernel_of, launch

Array = NDArray[Any]
THREADS = 256
SINGLES = [0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000]
MORE_SINGLES = [
    0x7FC00000,
    0xFFC12345,
    0x7F800001,
    0x3F800000,
    0xBF800000,
    0x33800000,
    0x4F000000,
    0xCF000001,
    0x5F000000,
]
SIZES = [0, 1, 31, 32, 33, 63, 64, 255, 256, 0x7FFFFFFF, 0x80000001, 0xFFFFFFFF, 0x477FE000, 0x477FF000, 0x387FFFFF]
DOUBLES = [
    value << 32 for value in (0x00000001, 0x7FEFFFFF, 0x7FF00000, 0xFFF80000, 0x3FF00000, 0x41E00000, 0x43E00000)
]
MORE_DOUBLES = [0, 1, 1 << 63, (1 << 63) - 1, (1 << 64) - 1, 0x36A0000000000000, 0x380FFFFFF0000000, 0x47EFFFFFF0000000]


def bits(seed: int, width: int) -> Array:
    """Return random bits with extremes among them; half of the numbers of 32 bits are moderate as floats."""
    source = np.random.default_rng(seed)
    values = source.integers(0, 1 << width, THREADS, np.uint64)
    if width == 32:
        moderate = source.standard_normal(THREADS).astype(np.float32).view(np.uint32)
        values = np.where(source.random(THREADS) < 0.5, values, moderate)
    special = [*DOUBLES, *MORE_DOUBLES] if width == 64 else [*SINGLES, *MORE_SINGLES, *SIZES]
    chosen = source.choice(THREADS, THREADS // 3, replace=False)
    values[chosen] = source.choice(np.array(special, np.uint64), len(chosen)) & np.uint64((1 << width) - 1)
    return values.astype(f"u{width // 8}")


def both(text: str, arguments: list[Array], **how: Any) -> tuple[list[Array], list[Array], Launched, Launched]:
    """Return what the interpreter and native code leave in the arguments, and what they report."""
    results: list[list[Array]] = []
    launched: list[Launched] = []
    for policy in (INTERPRETED, NATIVE):
        own = [argument.copy() for argument in arguments]
        with executed_by(policy):
            launched.append(launch(text, own, **how))
        results.append(own)
    return results[0], results[1], launched[0], launched[1]


def assert_all_native(text: str) -> None:
    """Check that native code takes every instruction but jumps and barriers."""
    kernel = parse(text)
    rows = PreparedKernel(kernel).rows
    others = {"bra", "ret", "bar"}
    left = [each.opcode for each in kernel.instructions if each.root not in others and not is_lowered(each, rows)]
    assert left == []


RESULT = {"r": 32, "d": 64, "h": 16, "p": 1}
"""By the letter of a register in the forms below, its width."""

FORMS = """
add.s32 r r r|add.s64 d d d|add.s16 h h h|sub.u32 r r r|mul.lo.s32 r r r|mul.lo.u64 d d d|mul.hi.s32 r r r
mul.hi.u32 r r r|mul.wide.s32 d r r|mul.wide.u16 r h h|mul.wide.u32 d r r|mad.lo.s32 r r r r|mad.wide.s32 d r r d
div.s32 r r r|div.u32 r r r|div.s64 d d d|rem.s32 r r r|rem.u64 d d d|min.s32 r r r|max.u32 r r r|min.u64 d d d
max.s16 h h h|abs.s32 r r|neg.s32 r r|not.b64 d d|and.b32 r r r|or.b64 d d d|xor.b16 h h h|shl.b32 r r r|shl.b64 d d r
shr.u32 r r r|shr.s32 r r r|shr.s64 d d r|shr.u16 h h r|bfe.u32 r r r r|bfe.s32 r r r r|bfe.u64 d d r r|bfe.s64 d d r r
bfi.b32 r r r r r|bfi.b64 d d d r r|clz.b32 r r|clz.b64 r d|popc.b64 r d|bfind.u32 r r|bfind.s32 r r|bfind.s64 r d
brev.b32 r r|brev.b64 d d|lop3.b32 r r r r 0x96|lop3.b32 r r r r 0x1b|prmt.b32 r r r r|prmt.b32 r r r 0x5410
shf.l.wrap.b32 r r r r|shf.r.clamp.b32 r r r r|add.f32 r r r|sub.rn.f32 r r r|mul.ftz.f32 r r r|add.f64 d d d
mul.f64 d d d|div.full.f32 r r r|div.rn.f64 d d d|fma.rn.f32 r r r r|fma.rn.ftz.f32 r r r r|neg.f32 r r|abs.f32 r r
neg.f64 d d|abs.ftz.f32 r r|min.f32 r r r|max.f32 r r r|max.NaN.f32 r r r|min.ftz.NaN.f32 r r r|max.f64 d d d
max.f32 r r r r|rcp.approx.ftz.f32 r r|rcp.rn.f64 d d|sqrt.rn.f32 r r|rsqrt.approx.f32 r r|sqrt.approx.ftz.f32 r r
copysign.f32 r r r|setp.eq.s32 p r r|setp.lt.s32 p r r|setp.lo.u32 p r r|setp.hs.u64 p d d|setp.ge.s16 p h h
setp.lt.f32 p r r|setp.leu.f32 p r r|setp.neu.f32 p r r|setp.ne.f32 p r r|setp.num.f32 p r r|setp.nan.f64 p d d
setp.gt.ftz.f32 p r r|setp.equ.f64 p d d|setp.lt.and.s32 p r r q|setp.lt.or.f32 p|selp.b32 r r r q|selp.f64 d d d q
and.pred p q q|not.pred p q|xor.pred p q q|mov.b32 r r|mov.pred p q|mov.u32 r %tid.x|mov.u32 r %laneid
mov.u32 r %ctaid.x|mov.u32 r %ntid.x|cvt.s64.s32 d r|cvt.u64.u32 d r|cvt.u32.u64 r d|cvt.s32.s8 r r|cvt.u16.u32 h r
cvt.s16.s64 h d|cvt.rn.f32.s32 r r|cvt.rn.f32.u64 r d|cvt.rn.f64.s64 d d|cvt.rzi.s32.f32 r r|cvt.rni.u32.f32 r r
cvt.rmi.s64.f32 d r|cvt.rpi.u64.f64 d d|cvt.rzi.s16.f32 h r|cvt.rzi.ftz.s32.f32 r r|cvt.f64.f32 d r|cvt.rn.f32.f64 r d
cvt.rni.f32.f32 r r|cvt.rmi.f64.f64 d d|cvt.f32.f16 r h|cvt.f32.bf16 r h|cvt.rn.f16.f32 h r|cvt.rn.bf16.f32 h r
cvt.rn.f16x2.f32 r r r|cvt.rn.bf16x2.f32 r r r|cvta.to.global.u64 d d|cvta.shared.u64 d d
"""
INSTRUCTIONS = [form for line in FORMS.strip().splitlines() for form in line.split("|") if " " in form]
INSTRUCTIONS.remove("setp.lt.or.f32 p")
REGISTERS = {"r": "%r", "d": "%rd", "h": "%rs", "q": "%p", "p": "%p"}


def written(form: str) -> tuple[str, str]:
    """Return the PTX of a form, guarded in half of the threads, and the letter of its result."""
    opcode, result, *sources = form.split(" ")
    names: list[str] = []
    for number, source in enumerate(sources):
        register = {
            "r": f"%r{10 + number}",
            "d": f"%rd{30 + number}",
            "h": f"%rs{number + 1}",
            "q": f"%p{1 + number % 2}",
        }
        names.append(register.get(source, source))
    return f"{opcode} {REGISTERS[result]}{ {'r': 20, 'd': 50, 'h': 9, 'p': 5}[result] }, {', '.join(names)};", result


def program(form: str, *, guard: str = "") -> str:
    """Return a kernel that loads registers from two arrays, executes a form, and stores its result as 64 bits."""
    text, result = written(form)
    loads = [
        "mad.wide.u32 %rd10, %r0, 4, %rd1; mad.wide.u32 %rd11, %r0, 8, %rd2; mad.wide.u32 %rd12, %r0, 8, %rd0;",
        *(f"ld.global.b32 %r{10 + at}, [%rd10+{4 * THREADS * at}];" for at in range(4)),
        *(f"ld.global.b64 %rd{30 + at}, [%rd11+{8 * THREADS * at}];" for at in range(3)),
        *(f"cvt.u16.u32 %rs{at + 1}, %r{10 + at};" for at in range(3)),
        "setp.lt.s32 %p1, %r10, %r11; setp.lt.s32 %p2, %r12, %r13;",
        "mov.b32 %r20, 7; mov.b64 %rd50, 7; mov.b16 %rs9, 7; setp.ne.b32 %p5, %r0, %r0;",
    ]
    widen = {
        "r": "cvt.u64.u32 %rd20, %r20;",
        "d": "mov.b64 %rd20, %rd50;",
        "h": "cvt.u64.u16 %rd20, %rs9;",
        "p": "selp.b64 %rd20, 1, 0, %p5;",
    }[result]
    body = "\n".join((*loads, guard + text, widen, "st.global.b64 [%rd12], %rd20;"))
    return kernel_of(body, pointers=3, threads=THREADS)


def arguments(seed: int) -> list[Array]:
    words = np.concatenate([bits(seed + at, 32) for at in range(4)])
    doubles = np.concatenate([bits(seed + 10 + at, 64) for at in range(3)])
    return [np.zeros(THREADS, np.uint64), words, doubles]


def same(form: str, left: Array, right: Array) -> Array:
    """Return where results are equal; of a floating-point type, all NaN are."""
    kind = form.split(" ", 1)[0].split(".")[1:]
    target = kind[-2] if form.startswith("cvt.") and len(kind) > 1 else kind[-1]
    views = {"f32": (np.uint32, np.float32), "f64": (np.uint64, np.float64), "f16": (np.uint16, np.float16)}
    if form.startswith("setp") or target not in {*views, "f16x2"}:
        return left == right
    narrow, floating = views["f16" if target == "f16x2" else target]
    pieces = [values.view(narrow).view(floating) for values in (left, right)]
    equal = (left.view(narrow) == right.view(narrow)) | (np.isnan(pieces[0]) & np.isnan(pieces[1]))
    return equal.reshape(len(left), -1).all(axis=1)


@pytest.mark.parametrize("form", INSTRUCTIONS)
def test_native_code_computes_the_bits_of_the_interpreter(form: str) -> None:
    for guard in ("", "@%p1 ") if len(form) % 2 else ("", "@!%p2 "):
        text = program(form, guard=guard)
        assert_all_native(text)
        interpreted, native, _, _ = both(text, arguments(len(form)))
        equal = same(form, interpreted[0], native[0])
        assert equal.all(), (form, interpreted[0][~equal][:3], native[0][~equal][:3])


# --- memory, warps and matrices --------------------------------------------------------------------------------------

TILE = ".extern .shared .align 16 .b8 tile[];"
SHARED_BYTES = 16 * THREADS
PLACES = """
mov.u32 %r1, tile;
shl.b32 %r2, %r0, 4;
add.s32 %r3, %r1, %r2;
mul.wide.u32 %rd10, %r0, 16;
add.s64 %rd11, %rd0, %rd10;
add.s64 %rd12, %rd1, %rd10;
and.b32 %r4, %r0, 5;
setp.ne.s32 %p1, %r4, 0;
ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd11];
"""
"""16 bytes for each thread: `%r3` in shared memory, `%rd11` to load, `%rd12` to store; `%p1` holds in most threads."""
STORED = "st.global.v4.b32 [%rd12], {%r10, %r11, %r12, %r13};"
PUT = "st.shared.v4.b32 [%r3], {%r10, %r11, %r12, %r13};"

BODIES = {
    "vectors through shared memory": f"{PUT} bar.sync 0; ld.shared.v4.b32 {{%r13, %r12, %r11, %r10}}, [%r3]; {STORED}",
    "guarded accesses": f"{PUT} bar.sync 0; @%p1 ld.shared.b16 %r10, [%r3+6]; @!%p1 st.shared.b8 [%r3+1], %r11;"
    f"ld.shared.s8 %r12, [%r3+1]; @%p1 ld.global.v2.b32 {{%r11, %r13}}, [%rd11+8]; @!%p1 {STORED}",
    "threads that part": f"@%p1 bra OTHER; {PUT} ld.shared.u8 %r10, [%r3+3]; {STORED} ret; OTHER: "
    f"add.s32 %r11, %r11, %r0; shfl.sync.bfly.b32 %r12, %r10, 1, 31, -1; {STORED}",
    "a loop": f"mov.b32 %r20, 0; AGAIN: add.s32 %r20, %r20, 1; mad.lo.s32 %r10, %r10, %r20, %r11; "
    f"setp.lt.s32 %p2, %r20, %r4; @%p2 bra AGAIN; {STORED}",
    "shuffles": "shfl.sync.bfly.b32 %r10|%p2, %r10, 16, 31, -1; shfl.sync.up.b32 %r11|%p3, %r11, 3, 0, -1; "
    "shfl.sync.down.b32 %r12, %r12, 2, 6175, -1; shfl.sync.idx.b32 %r13, %r13, 37, 31, -1; "
    f"@%p3 add.s32 %r12, %r12, 1; {STORED}",
    "votes": "setp.lt.s32 %p2, %r10, %r11; vote.sync.ballot.b32 %r10, %p2, -1; vote.sync.any.pred %p3, %p2, 255; "
    f"vote.sync.all.pred %p4, !%p3, -1; selp.b32 %r11, 1, 2, %p3; selp.b32 %r12, 3, 4, %p4; {STORED}",
    "reductions": "redux.sync.add.s32 %r10, %r10, -1; redux.sync.min.s32 %r11, %r11, -1; "
    f"redux.sync.max.u32 %r12, %r12, -1; redux.sync.xor.b32 %r13, %r13, -1; {STORED}",
    "matrices of shared memory": f"{PUT} bar.sync 0; "
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r3]; bar.sync 0; "
    "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%r3], {%r11, %r10}; bar.sync 0; "
    f"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r3]; {STORED}",
    "copies": "mov.b32 %r20, 16; selp.b32 %r20, 12, %r20, %p1; cp.async.cg.shared.global [%r3], [%rd11], 16, %r20; "
    "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; "
    f"ld.shared.v4.b32 {{%r13, %r12, %r11, %r10}}, [%r3]; {STORED}",
    "addresses in two arrays": "@%p1 mov.b64 %rd11, %rd12; ld.global.b32 %r10, [%rd11]; " + STORED,
    "an address outside": f"@%p1 add.s64 %rd11, %rd11, 1048576; ld.global.b32 %r10, [%rd11]; {STORED}",
    "outside shared memory": f"{PUT} bar.sync 0; @!%p1 add.s32 %r3, %r3, 65536; ld.shared.b32 %r10, [%r3]; {STORED}",
    "memory that nothing wrote": f"@%p1 {PUT} bar.sync 0; ld.shared.b32 %r10, [%r3+4]; {STORED}",
    "a race": f"{PUT} xor.b32 %r5, %r3, 512; ld.shared.b32 %r10, [%r5]; {STORED}",
    "a race of copies": "cp.async.ca.shared.global [%r3], [%rd11], 4; cp.async.wait_all; xor.b32 %r5, %r3, 512; "
    f"ld.shared.b32 %r10, [%r5]; {STORED}",
}

FLAWED = {"outside shared memory", "memory that nothing wrote", "a race", "a race of copies"}


@pytest.mark.parametrize("name", BODIES)
def test_native_code_stores_and_reports_what_the_interpreter_does(name: str) -> None:
    text = kernel_of(PLACES + BODIES[name], pointers=2, threads=THREADS, declarations=TILE)
    source = np.concatenate([bits(7, 32) for _ in range(8)])
    interpreted, native, first, second = both(
        text, [source, np.zeros_like(source)], shared_bytes=SHARED_BYTES, programs=2
    )
    assert (interpreted[1] == native[1]).all()
    seen = [
        [(flaw.kind, flaw.instruction.opcode, flaw.cta, flaw.warp) for flaw in each.flaws] for each in (first, second)
    ]
    assert seen[0] == seen[1]
    assert bool(seen[0]) is (name in FLAWED)


def test_many_stray_accesses_send_a_run_back_to_the_interpreter() -> None:
    body = f"add.s64 %rd11, %rd11, 1048576; @%p1 ld.global.b32 %r10, [%rd11]; {STORED}"
    text = kernel_of(PLACES + body, pointers=2, threads=THREADS, declarations=TILE)
    source = np.concatenate([bits(7, 32) for _ in range(8)])
    interpreted, native, _, _ = both(text, [source, np.zeros_like(source)], programs=64)
    assert (interpreted[1] == native[1]).all()


def test_code_is_kept_and_found_by_its_content(tmp_path: Path) -> None:
    text = kernel_of(PLACES + BODIES["a loop"], pointers=2, threads=THREADS, declarations=TILE)
    other = kernel_of(
        PLACES + BODIES["a loop"].replace("%r11;", "%r12;"), pointers=2, threads=THREADS, declarations=TILE
    )
    source = np.concatenate([bits(7, 32) for _ in range(8)])
    counts: list[int] = []
    for each in (text, text, other):
        expected, found = source.copy(), source.copy()
        launch(each, [source, expected])
        with executed_by(NativePolicy(ExecutorMode.NATIVE, tmp_path)):
            launch(each, [source, found])
        assert (expected == found).all()
        counts.append(len(list(tmp_path.iterdir())))
    assert counts[0] == counts[1] < counts[2]


PRODUCTS = {
    "m16n8k16.row.col.f32.f16.f16.f32": (4, 2, 4),
    "m16n8k16.row.col.f32.bf16.bf16.f32": (4, 2, 4),
    "m16n8k8.row.col.f32.f16.f16.f32": (2, 1, 4),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (4, 2, 4),
    "m16n8k4.row.col.f32.tf32.tf32.f32": (2, 1, 4),
    "m16n8k16.row.col.f16.f16.f16.f16": (4, 2, 2),
}
"""By form of `mma.sync`, the registers of the operands and the sum."""


@pytest.mark.parametrize("form", PRODUCTS)
def test_native_products_are_those_of_the_interpreter(form: str) -> None:
    counts = PRODUCTS[form]
    total = sum(counts)
    names = [f"%r{10 + number}" for number in range(total)]
    ends = np.cumsum((0, *counts))
    left, right, addend = (", ".join(names[first:end]) for first, end in pairwise(ends))
    out = ", ".join(f"%r{30 + number}" for number in range(counts[2]))
    loads = "\n".join(f"ld.global.b32 {name}, [%rd11+{4 * THREADS * at}];" for at, name in enumerate(names))
    stores = "\n".join(f"st.global.b32 [%rd12+{4 * THREADS * at}], %r{30 + at};" for at in range(counts[2]))
    body = f"""mul.wide.u32 %rd10, %r0, 4; add.s64 %rd11, %rd0, %rd10; add.s64 %rd12, %rd1, %rd10;
{loads}
mma.sync.aligned.{form} {{{out}}}, {{{left}}}, {{{right}}}, {{{addend}}};
{stores}"""
    text = kernel_of(body, pointers=2, threads=THREADS, declarations=TILE)
    assert_all_native(text)
    source = np.random.default_rng(3)
    inputs = _operands(source, form, THREADS * (counts[0] + counts[1]), THREADS * counts[2])
    interpreted, native, _, _ = both(text, [inputs, np.zeros(THREADS * counts[2], np.uint32)])
    assert (interpreted[1] == native[1]).all()
    assert interpreted[1].any()


def _operands(source: np.random.Generator, form: str, factors: int, sums: int) -> Array:
    """Return registers of small whole numbers, whose sums are exact in any order."""
    values = source.integers(-8, 9, (factors, 2)).astype(np.float32)
    kind = form.split(".")[4]
    if kind == "f16":
        packed = values.astype(np.float16).view(np.uint32)[:, 0]
    elif kind == "bf16":
        raw = values.view(np.uint32) >> np.uint32(16)
        packed = raw[:, 0] | raw[:, 1] << np.uint32(16)
    else:
        packed = values.view(np.uint32)[:, 0]
    addend = source.integers(-8, 9, (sums, 2)).astype(np.float32)
    halves = form.endswith(".f16")
    return np.concatenate(
        [packed, addend.astype(np.float16).view(np.uint32)[:, 0] if halves else addend.view(np.uint32)[:, 0]]
    )
