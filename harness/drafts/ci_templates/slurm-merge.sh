#!/usr/bin/env bash
# The morning after a night: see slurm-array.sh.  NIGHT is the id of its array.
#SBATCH --job-name=kernels-merge
#SBATCH --time=00:20:00
#SBATCH --output=kernels-merge-%j.log
set -euo pipefail

work=harness-nights/$NIGHT
mkdir -p nights
harness morning nights "$work"/task-* -o "$work/morning" --markdown "$work/morning.md" --json "$work/morning.json"
