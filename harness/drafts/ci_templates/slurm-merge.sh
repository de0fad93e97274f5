#!/usr/bin/env bash
# The report of a night: see slurm-array.sh.  NIGHT is the id of its array.
#SBATCH --job-name=kernels-merge
#SBATCH --time=00:20:00
#SBATCH --output=kernels-merge-%j.log
set -euo pipefail

work=harness-nights/$NIGHT
status=0
harness report --merge "$work"/shard-*.json --fail-on error --json "$work/merged.json" || status=$?
# New, back, still there, gone: compared with the earlier nights of a month.
nights=harness-nights/merged
mkdir -p "$nights"
rm -f "$nights/$NIGHT.json" # of an earlier attempt
harness report "$work/merged.json" --history "$nights" -o "$work/report.html" --markdown "$work/summary.md" --junit "$work/junit.xml"
cp "$work/merged.json" "$nights/$NIGHT.json"
find "$nights" -name '*.json' -mtime +30 -delete
exit "$status"
