#!/usr/bin/env bash
# A night on Slurm: a search on GPUs, divided among the tasks of an array.  Run it from the root of your repository:
#
#   night=$(sbatch --parsable ci/slurm-array.sh)
#   sbatch --dependency=afterany:"$night" --export=ALL,NIGHT="$night" ci/slurm-merge.sh
#
# `harness` must be on PATH there: a virtual environment on a file system that all nodes see, or a container.
#SBATCH --job-name=kernels
#SBATCH --array=1-8
#SBATCH --gpus=1
#SBATCH --cpus-per-task=8
#SBATCH --time=02:00:00
#SBATCH --output=kernels-%A-%a.log
set -euo pipefail

root=$PWD
suites=${SUITES:-$root/suites}
library=${LIBRARY:-$root}
work=$root/harness-nights/$SLURM_ARRAY_JOB_ID

# Each task has a folder of its own, for its findings: two tasks must not write one finding at the same time.
mkdir -p "$work/task-$SLURM_ARRAY_TASK_ID"
cd "$work/task-$SLURM_ARRAY_TASK_ID"

status=0
# Less than --time: a search that takes longer ends, and what it found is kept.
timeout --preserve-status "${MINUTES:-105}m" harness fuzz "$suites" --with "$library" --engine "${ENGINE:-cuda}" --cases "${CASES:-5000}" \
    --seed "$SLURM_ARRAY_JOB_ID" --shard auto --json "$work/shard-$SLURM_ARRAY_TASK_ID.json" || status=$?
# Findings (1) and ops that could not be checked (3) are for the merge to judge.
case $status in 0 | 1 | 3) ;; *) exit "$status" ;; esac
