#!/usr/bin/env bash
# The report of a night: see slurm-array.sh.  NIGHT is the id of its array.
#SBATCH --job-name=kernels-merge
#SBATCH --time=00:20:00
#SBATCH --output=kernels-merge-%j.log
set -euo pipefail

work=harness-nights/$NIGHT
status=0
harness report --merge "$work"/shard-*.json --fail-on error --json "$work/merged.json" || status=$?
harness report "$work/merged.json" -o "$work/report.html" --markdown "$work/summary.md" --junit "$work/junit.xml"
exit "$status"
