"""`python -m studies.ptx_mutants [--most N]`: count the mutants of compiled kernels that the PTX machine notices.

A barrier may order nothing: without it no two accesses race, as the vector clocks of the shadow show.  Such a mutant
computes what the kernel does in every schedule.  It is counted apart.
"""

import argparse
import sys
from collections import Counter

from studies.ptx_mutants.mutants import all_kernels, mutants


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=12, help="mutants of each kind and kernel (default: %(default)s)")
    options = parser.parse_args()
    noticed, survived = Counter[str](), Counter[str]()
    for kernel in all_kernels():
        plain = kernel.run(kernel.build.text)
        if plain.noticed:
            sys.exit(f"{kernel.name} for sm_{kernel.arch} is wrong as compiled: {plain.noticed}")
        for mutant in mutants(kernel.build.text, options.most):
            result = kernel.run(mutant.text)
            if result.noticed or (result.kinds or set()) - (plain.kinds or set()):
                noticed[mutant.change] += 1
            else:
                survived[mutant.change] += 1
                print(f"survives: {kernel.name} for sm_{kernel.arch}, {mutant.change}: {mutant.line}", flush=True)
    for change in sorted({*noticed, *survived}):
        print(f"{change:26} {noticed[change]:4} of {noticed[change] + survived[change]}")
    print(f"{noticed.total()} of {noticed.total() + survived.total()} mutants noticed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
