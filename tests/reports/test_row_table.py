"""The table of row checks has a line for configs that say the same on every device."""

from harness.documents.campaign import RowCount
from harness.model.row_check import RowBits
from harness.reports.contents import ReportContents, ReportedCampaign
from harness.reports.markdown import summary
from harness.reports.row_table import RowTableLine, row_table
from tests.reports.samples import EVIL, REPORT

OP_NAME = REPORT.row_checks[0].op.rpartition(":")[2]


def test_the_worst_of_each_config_is_shown_with_its_cases() -> None:
    table = row_table(REPORT.row_checks)
    assert table.devices == ("b200", "h200")
    assert table.lines == (
        RowTableLine(op=OP_NAME, kernel="torch", configs=(), cells=("not compared", "wrong in 4 of 4")),
        RowTableLine(op=OP_NAME, kernel=EVIL, configs=("BT: 16",), cells=("rounding in 2 of 5", "not compared")),
        RowTableLine(op=OP_NAME, kernel=EVIL, configs=("BT: 32",), cells=("rounding in 1 of 1", "same bits (1)")),
    )


def test_configs_with_the_same_words_share_a_line() -> None:
    counts = (
        RowCount(op="s.py:f", device="h200", kernel="k", config=f"BT: {size}", bits=RowBits.SAME, cases=2)
        for size in range(1, 6)
    )
    (line,) = row_table(counts).lines
    assert line.cells == ("same bits (10)",)
    assert line.config_words == "BT: 1; BT: 2; BT: 3; and 2 more"


def test_markdown_has_the_table() -> None:
    text = summary(ReportContents(bugs=(), campaigns=(ReportedCampaign(name="night", report=REPORT),)))
    assert "| op | kernel | config | b200 | h200 |" in text
    assert "| torch | none | not compared | wrong in 4 of 4 |" in text
    assert EVIL not in text
