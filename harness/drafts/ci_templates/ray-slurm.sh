#!/usr/bin/env bash
# A Ray cluster inside one Slurm allocation, and a search on it:  sbatch ci/ray-slurm.sh
# `harness` and `ray` must be on PATH on all nodes, for example from a virtual environment on a shared file system.
# Without Ray, a job array does the same with less: harness init --ci slurm.
#SBATCH --job-name=kernels
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --gpus-per-node=0
#SBATCH --time=02:00:00
#SBATCH --output=kernels-%j.log
set -euo pipefail

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
address=$head:6379
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

srun --nodes=1 --ntasks=1 --nodelist="$head" --overlap \
    ray start --head --node-ip-address="$head" --port=6379 --num-cpus="$SLURM_CPUS_PER_TASK" --block &
for node in "${nodes[@]:1}"; do
    srun --nodes=1 --ntasks=1 --nodelist="$node" --overlap \
        ray start --address="$address" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
done
until [ "$(harness doctor --ray "$address" 2>/dev/null | grep -c ' node ')" = "${#nodes[@]}" ]; do
    sleep 2
done

harness fuzz "${SUITES:-suites}" --with "${LIBRARY:-$PWD}" --device "${DEVICES:-h200,b200,rtx-pro-6000,a100}" \
    --cases "${CASES:-5000}" --seed "$SLURM_JOB_ID" --ray "$address" --json "night-$SLURM_JOB_ID.json"
