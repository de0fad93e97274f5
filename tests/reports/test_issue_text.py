"""The text of an issue is complete, is valid Markdown whatever a finding holds, and can be replayed."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from markdown_it import MarkdownIt

from harness import catalogue
from harness.findings.recorded_cases import parse
from harness.model.finding import Finding
from harness.reports.contents import Attached, ReportedBug
from harness.reports.issue_text import TITLE_WIDTH, issue_body, issue_text, issue_title
from tests.reports.samples import BISECTION, CAUSE, EVIL, MISCOMPILED, OVERLAP, REGION, REPORT, STRAY, VALUES

REPRODUCER = Attached(name="repro.py", text="# ```\nprint('again')\n")
KERNEL = Attached(name="repro-kernel.py", text="print('kernel')\n")
WHOLE = ReportedBug(finding=CAUSE, versions=REPORT.versions, region=REGION, files=(REPRODUCER, KERNEL))

BEGINNING = """\
**dx\\[2, 0\\] and 31 more cells were stored by programs 0 and 1, with the same bytes (layernorm.py:431)**

Several programs do the same work and store the same result: harmless by itself, but it wastes bandwidth, and it turns \
into a race as soon as their values differ by one rounding or the kernel updates in place.

Broken promise: `write-overlap` (error).

Other failures of the same cause:

- error, float64-values: layer\\_norm d:x at a.py:7 (in 12 cases)
- error, bounds: \\<script\\>alert('1 & 2')\\</script\\> a\\|b.py:3 (in 1 case)

### Where

Kernel `layer_norm_bwd_kernel`, called by `layer_norm`.

`fla/modules/layernorm.py:431`:

```text
    429 | if a < b:
    430 |
>   431 |     tl.store(p, x)
    432 |
```

### Smallest case

- smallest case: layer\\_norm T=3 D=1 G=1 fp32, no residual or weight
"""


def blocks_of(text: str) -> list[tuple[str, str]]:
    """Return language and content of each block of code, as a Markdown parser finds them."""
    return [(one.info, one.content) for one in MarkdownIt().parse(text) if one.type == "fence"]


def headings_of(text: str) -> list[str]:
    tokens = MarkdownIt().parse(text)
    return [inside.content for one, inside in pairwise(tokens) if one.type == "heading_open"]


def test_the_text_begins_with_what_and_where() -> None:
    assert issue_body(WHOLE).startswith(BEGINNING)


def test_the_text_has_a_section_for_each_question() -> None:
    text = issue_text(WHOLE)
    title, *sections = headings_of(text)
    assert title.startswith("layer\\_norm\\_bwd\\_kernel: dx\\[2, 0\\]")
    assert sections == ["Where", "Smallest case", "Releases", "Devices", "Reproducer"]
    assert "- fla-core==0.5.2 (under test)\n- python 3.11.7\n- triton 3.6.0\n" in text
    assert "- NVIDIA RTX PRO 6000 Blackwell Workstation Edition (sm\\_120), with 188 SMs\n" in text
    assert "- SMs: fails at 188; 2 passes, sizes between were not tried (2 values tried).\n" in text


def test_reproducers_are_blocks_that_a_backtick_does_not_end() -> None:
    blocks = blocks_of(issue_body(WHOLE))
    assert [language for language, _ in blocks] == ["text", "python", "python", "json"]
    assert [content for _, content in blocks[1:3]] == [REPRODUCER.text, KERNEL.text]


def test_the_replay_file_in_the_text_is_the_recorded_case() -> None:
    ((language, content),) = blocks_of(issue_body(replace(WHOLE, files=())))[1:]
    assert language == "json"
    (recorded,) = parse(content)
    assert (recorded.id, recorded.libraries) == (CAUSE.id, ("fla-core==0.5.2",))


def test_every_device_that_showed_the_bug_is_listed() -> None:
    few = replace(CAUSE.case, device=CAUSE.case.device.with_sm_count(20))
    other = replace(CAUSE.case, device=catalogue.find("b200"))
    text = issue_body(replace(WHOLE, finding=replace(CAUSE, cases=(few, other, other))))
    assert (
        "The smallest case is on NVIDIA RTX PRO 6000 Blackwell Workstation Edition with 188 SMs. "
        "The search saw it on:\n\n"
        "- NVIDIA RTX PRO 6000 Blackwell Workstation Edition (sm\\_120), with 20, 188 SMs\n"
        "- NVIDIA B200 (sm\\_100), with 148 SMs\n"
    ) in text


def test_bisected_releases_are_listed_with_their_results() -> None:
    text = issue_body(replace(WHOLE, bisections=(BISECTION,)))
    assert "came with fla-core 0.5.0 (0.4.2 is good).\n\n- fla-core 0.4.2: good\n- fla-core 0.5.0: bad\n" in text


def test_paths_of_libraries_are_left_out() -> None:
    local = replace(OVERLAP, libraries=("/home/me/secret/norms", "fla-core==0.5.2"))
    text = issue_body(ReportedBug(finding=local))
    assert "/home/me" not in text
    assert "- norms (under test, a file or folder)\n" in text
    assert parse(blocks_of(text)[-1][1])[0].libraries == ("fla-core==0.5.2",)


@pytest.mark.parametrize("finding", [STRAY, VALUES, replace(OVERLAP, hardware_blame=MISCOMPILED)])
def test_no_text_of_a_finding_becomes_markup(finding: Finding) -> None:
    html = MarkdownIt("commonmark", {"html": True}).render(issue_text(ReportedBug(finding=finding)))
    assert set(re.findall(r"<(\w+)", html)) <= {
        *("h1", "h3", "p", "ul", "li", "strong", "code", "pre", "details", "summary")
    }


def test_a_long_title_is_cut_between_two_words() -> None:
    long = replace(OVERLAP, fail=replace(OVERLAP.fail, message="word " * 60))
    title = issue_title(ReportedBug(finding=long))
    assert len(title) <= TITLE_WIDTH
    assert title.endswith("word …")
    assert EVIL in issue_title(ReportedBug(finding=STRAY))
