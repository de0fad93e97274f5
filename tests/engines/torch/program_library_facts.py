"""A child program: import a library's modules on each GPU, in forked processes; print attributes of the last module.

program_library_facts.py MODULE,… SLUG,… NAME,…
"""

import importlib
import json
import os
import sys

# torch and Triton are loaded here, once for all forks.
from fake_driver import drive

from harness.catalogue import find
from harness.engines.torch.torch_emulation import emulate_torch


def facts_on(slug: str, modules: list[str], names: list[str]) -> dict[str, object]:
    emulate_torch(find(slug))
    drive(find(slug))
    seen = [importlib.import_module(module) for module in modules]
    return {name: getattr(seen[-1], name) for name in names}


def in_a_fork(slug: str, modules: list[str], names: list[str]) -> dict[str, object]:
    reader, writer = os.pipe()
    if os.fork() == 0:
        with os.fdopen(writer, "w") as pipe:
            json.dump(facts_on(slug, modules, names), pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.wait()
    if status:
        sys.exit(f"the child that wore {slug} ended with {status}")
    return json.loads(text)


if __name__ == "__main__":
    modules, slugs, names = (argument.split(",") for argument in sys.argv[1:])
    print(json.dumps({slug: in_a_fork(slug, modules, names) for slug in slugs}))  # noqa: T201 - its report
