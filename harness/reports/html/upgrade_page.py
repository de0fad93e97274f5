"""An upgrade as one self-contained page: a table of kernels, and all that stands behind each verdict."""

from collections.abc import Iterable, Iterator
from html import escape

from harness.documents.upgrade_report import KernelUpgrade, UpgradeReport, UpgradeVerdict
from harness.reports.html.matrix_page import STYLE
from harness.reports.upgrade_markdown import reason
from harness.reports.upgrade_text import COMPLETED, LABELS, answer, difference_text, failure_text, growth_text
from harness.wording import counted

HUES = {
    UpgradeVerdict.SAME_CODE: 140,
    UpgradeVerdict.SAME_TTIR: 140,
    UpgradeVerdict.SAME_BITS: 140,
    UpgradeVerdict.ROUNDING: 90,
    UpgradeVerdict.NEEDS_MORE: 50,
    UpgradeVerdict.NEW_IS_RIGHT: 50,
    UpgradeVerdict.NOT_COMPARED: 220,
    UpgradeVerdict.DIFFERENT: 0,
    UpgradeVerdict.FAILS: 0,
    UpgradeVerdict.REMOVED: 0,
}
FAILING = (UpgradeVerdict.DIFFERENT, UpgradeVerdict.FAILS, UpgradeVerdict.REMOVED)


def upgrade_page(report: UpgradeReport) -> str:
    """Return the page; it loads nothing."""
    title = f"triton {report.old} → {report.new}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>{''.join(_body(report))}</body></html>\n"
    )


def _body(report: UpgradeReport) -> Iterator[str]:
    yield f"<p><strong>{escape(answer(report, FAILING))}</strong></p>"
    suites = ", ".join((*report.suites, *report.libraries))
    ran = f"{counted(report.cases, 'case')} on {', '.join(report.devices)}"
    yield f"<p>{escape(suites)}: {escape(ran)}, engine {escape(report.engine)}</p>"
    titles = ("kernel", "suite", "verdict", "builds", "same PTX", "same TTIR", "launches", "same bits", "")
    yield f"<table><thead>{_row('th', titles)}</thead><tbody>"
    yield from map(_kernel_row, report.kernels)
    yield "</tbody></table>"
    yield from (text for kernel in report.kernels for text in _details(kernel))
    if report.unloadable:
        yield f"<h2>Suites that cannot be loaded</h2><table><thead>{_row('th', ('suite', report.old, report.new))}"
        yield "</thead><tbody>"
        yield from (_row("td", (each.suite, each.old or "loads", each.new or "loads")) for each in report.unloadable)
        yield "</tbody></table>"
    if report.endings:
        yield "<h2>Cases that end otherwise</h2><table><thead>"
        yield f"{_row('th', ('case', report.old, report.new))}</thead><tbody>"
        for ending in report.endings:
            yield _row("td", (ending.case, ending.old or COMPLETED, ending.new or COMPLETED))
        yield "</tbody></table>"


def _kernel_row(kernel: KernelUpgrade) -> str:
    style = f"background: hsl({HUES[kernel.verdict]} 60% 70%); color: #111"
    figures = (kernel.builds, kernel.same_code, kernel.same_ttir, kernel.launches, kernel.equal_launches)
    return (
        f"<tr><td>{escape(kernel.kernel)}</td><td>{escape(kernel.suite)}</td>"
        f'<td style="{style}">{escape(LABELS[kernel.verdict])}</td>'
        f"{''.join(f'<td>{figure}</td>' for figure in figures)}<td>{escape(reason(kernel))}</td></tr>"
    )


def _details(kernel: KernelUpgrade) -> Iterator[str]:
    rows = [
        *((each.config, each.device, failure_text(each)) for each in kernel.failures),
        *((each.case, "", f"{difference_text(each)} {each.why}") for each in kernel.differences),
        *((each.config, each.device, growth_text(each)) for each in kernel.growths),
        *(("", "", text) for text in kernel.not_compared),
    ]
    if rows:
        yield f"<details><summary>{escape(kernel.kernel)}: {counted(len(rows), 'difference')}</summary><table>"
        yield from (_row("td", row) for row in rows)
        yield "</table></details>"


def _row(tag: str, texts: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts) + "</tr>"
