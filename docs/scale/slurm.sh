#!/usr/bin/env bash
# A Ray cluster over the nodes of a Slurm job, and a sweep on it. Submit with, for example:
#   sbatch --nodes=4 --gpus-per-node=1 --time=2:00:00 docs/scale/slurm.sh sweep.yaml /shared/sweeps/demo
# The environment with rampup[ray] must be active; the folder must be one that all nodes share. Give the same command again
# after a time limit or a crash: it goes on where it was.
set -euo pipefail
file=$1 out=$2
port=${RAY_PORT:-6379}
cpus=${SLURM_CPUS_ON_NODE:-$(nproc)}
# A Ray cluster runs whatever it is sent: with a token of this job's own, only this job can send it anything.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')

nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head=${nodes[0]}
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | awk '{print $1}'):$port
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

srun --nodes=1 --ntasks=1 --nodelist="$head" ray start --head --block --port "$port" --num-cpus "$cpus" \
    --include-dashboard=false --disable-usage-stats &
until ray status --address "$address" >/dev/null 2>&1; do sleep 2; done
for node in "${nodes[@]:1}"; do
    srun --nodes=1 --ntasks=1 --nodelist="$node" ray start --block --address "$address" --num-cpus "$cpus" \
        --disable-usage-stats &
done

resume=()
if [ -e "$out/sweep.yaml" ]; then resume=(--resume); fi
rampup sweep "$file" --engine ray --address "$address" --out "$out" "${resume[@]}"
