"""A fake of compute-sanitizer: it runs a program, and saves reports when that has ended.

    fake_sanitizer.py all|half|nothing -- OPTIONS… --save FILE --log-file FILE COMMAND…

Programs report XML records in the file that FAKE_SANITIZER_RECORDS names.  The fake saves all of them, a part of
the file, or nothing.
"""

import os
import subprocess
import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    given = arguments[arguments.index("--") + 1 :]
    saved, log = (Path(given[given.index(name) + 1]) for name in ("--save", "--log-file"))
    command = given[given.index("--log-file") + 2 :]
    records = saved.with_suffix(".records")
    log.write_text("========= COMPUTE-SANITIZER\n", encoding="utf-8")
    environment = {**os.environ, "FAKE_SANITIZER_LOG": str(log), "FAKE_SANITIZER_RECORDS": str(records)}
    subprocess.run(command, env=environment, close_fds=False, check=False)
    reported = records.read_text(encoding="utf-8") if records.exists() else ""
    text = f'<?xml version="1.0" encoding="utf-8"?>\n<ComputeSanitizerOutput>\n{reported}</ComputeSanitizerOutput>\n'
    match arguments[0]:
        case "nothing":
            return
        case "half":
            saved.write_text(text[: 2 * len(text) // 3], encoding="utf-8")
        case _:
            saved.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
