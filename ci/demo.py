"""`make fuzz`: find a real bug of a released library on an emulated GPU.

`harness fuzz` ends with 1, because it has findings.  This program ends with 0 if the known one is among them.  Further
arguments go to `harness fuzz`: `make fuzz ARGS='--minutes 2'`.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARY = "fla-core==0.5.2"
KERNEL = "layer_norm_bwd_kernel"
ORACLE = "write-overlap"
FUZZ = ("fuzz", "suites/fla/norm.py", "--device", "rtx-pro-6000", "--with", LIBRARY, "--cases", "100", "--seed", "0")
FOUND = 1
"""The exit status of `harness fuzz` with findings."""
ROOT = Path(__file__).resolve().parent.parent
HARNESS = Path(sys.executable).with_name("harness")


def main() -> int:
    """Run the fuzzer, and return 0 if the known finding is among its findings."""
    with tempfile.TemporaryDirectory(prefix="harness-demo-") as folder:
        report = Path(folder, "report.json")
        command = [str(HARNESS), *FUZZ, "--json", str(report), *sys.argv[1:]]
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        if status != FOUND:
            print(f"harness fuzz ended with {status}; expected {FOUND}, findings", file=sys.stderr)
            return status or 1
        findings = json.loads(report.read_text(encoding="utf-8"))["findings"]
    if any(finding["oracle"] == ORACLE and finding["kernel"] == KERNEL for finding in findings):
        print(f"\nThe {ORACLE} above is a bug of {LIBRARY}. fla-core 0.6.0 fixes it.")
        return 0
    seen = ", ".join(str(finding["signature"]) for finding in findings)
    print(f"no {ORACLE} of {KERNEL} among the findings: {seen}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
