"""A program in compute-sanitizer's place: it runs another one, and saves when that has ended.

    stand_in_sanitizer.py all|half|nothing -- OPTIONS… --save FILE --log-file FILE COMMAND…

What is reported to it are XML records in the file that STAND_IN_RECORDS names: of these it saves all, the first part of
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
    environment = {**os.environ, "STAND_IN_LOG": str(log), "STAND_IN_RECORDS": str(records)}
    subprocess.run(command, env=environment, close_fds=False, check=False)
    said = records.read_text(encoding="utf-8") if records.exists() else ""
    text = f'<?xml version="1.0" encoding="utf-8"?>\n<ComputeSanitizerOutput>\n{said}</ComputeSanitizerOutput>\n'
    match arguments[0]:
        case "nothing":
            return
        case "half":
            saved.write_text(text[: 2 * len(text) // 3], encoding="utf-8")
        case _:
            saved.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
