#!/usr/bin/env bash
# A night on Slurm: it goes on where the last one ended, divided among the tasks of an array.  Run it from the root of
# your repository, on a disk that all nodes see:
#
#   night=$(sbatch --parsable ci/slurm-array.sh)
#   sbatch --dependency=afterany:"$night" --export=ALL,NIGHT="$night" ci/slurm-merge.sh
#
# What a night searches stands in the table `night` of the project's settings: `engine = "cuda"` for GPUs, and `minutes`
# below --time.
# `harness` must be on PATH there: a virtual environment on that disk, or a container.
#SBATCH --job-name=kernels
#SBATCH --array=1-8
#SBATCH --gpus=1
#SBATCH --cpus-per-task=8
#SBATCH --time=02:00:00
#SBATCH --output=kernels-%A-%a.log
set -euo pipefail

# All tasks plan one night from the memory of earlier ones.  Each has a copy: slurm-merge.sh joins them at the end.
memory=harness-nights/$SLURM_ARRAY_JOB_ID/task-$SLURM_ARRAY_TASK_ID
mkdir -p nights "$memory"
cp -a nights/. "$memory"
harness night --memory "$memory" --night "$SLURM_ARRAY_JOB_ID" --shard auto
