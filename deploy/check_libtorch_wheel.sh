#!/usr/bin/env bash
# Checks that the project builds and trains with the LibTorch inside PyPI's `torch` wheel, on the CPU: the trainer's
# tests, then a run of two workers. Everything is kept under build-torch2/; the first time downloads about 800 MB.
#
# Usage: deploy/check_libtorch_wheel.sh [VERSION]     VERSION such as 2.15.0; default: the newest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=${1:-}
[[ $# -le 1 && $version =~ ^([0-9]+(\.[0-9]+)*)?$ ]] || { sed -n '2,5s/^# \?//p' "$0" >&2; exit 2; }

root=$PWD/build-torch2
venv=$root/venv
mkdir -p "$root"
[[ -x $venv/bin/pip ]] || python3 -m venv "$venv"
pip=("$venv/bin/pip" install --quiet --disable-pip-version-check)
# Without what it depends on, gigabytes of CUDA, but for the two libraries that even its CPU half loads.
"${pip[@]}" --no-deps "torch${version:+==$version}"
mapfile -t libraries < <("$venv/bin/python" -c '
import re
from importlib.metadata import requires
for requirement in requires("torch"):
    toolkit = re.match(r"cuda-toolkit\[.*\]==([^;]+)", requirement)
    library = re.match(r"nvidia-cuda-(runtime|cupti)[^;]*", requirement)
    if toolkit:
        print("cuda-toolkit[cudart,cupti]==" + toolkit[1].strip())
    elif library:
        print(library[0].strip())')
[[ ${#libraries[@]} -eq 0 ]] || "${pip[@]}" "${libraries[@]}" 2>/dev/null
torch=$("$venv/bin/python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')
version=$("$venv/bin/python" -c 'from importlib.metadata import version; print(version("torch"))')

echo "building with LibTorch $version"
cmake -S . -B "$root" -G Ninja -DDILOCO_LIBTORCH="$torch" -DDILOCO_CUDA=OFF >"$root/configure.log"
cmake --build "$root" --target trainer_test diloco-coordinator diloco-worker -- --quiet
"$root/tests/trainer_test" --gtest_brief=1

echo "training with two workers"
run=$root/run
rm -rf "$run"
mkdir "$run"
cat common/*/*.h >"$run/text"
cat >"$run/run.yaml" <<'YAML'
run: {id: wheel-check, workers: 2, rounds: 4}
method: eager
inner_steps: 5
model: {layers: 2, width: 32, heads: 2, sequence: 32}
inner: {warmup_steps: 5, batch_size: 8}
eval: {every: 2, sequences: 16}
YAML
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait' EXIT
bin=$root/bin
timeout 120 "$bin/diloco-coordinator" --config "$run/run.yaml" --data-dir "$run/data" --listen 127.0.0.1:0 --http none \
  --port-file "$run/ports.json" --exit-when-finished >"$run/coordinator.log" 2>&1 &
pids+=($!)
deadline=$((SECONDS + 30))
until [[ -s $run/ports.json ]]; do
  [[ $SECONDS -lt $deadline ]] && kill -0 "${pids[0]}" || { cat "$run/coordinator.log" >&2; exit 1; }
  sleep 0.1
done
address=$(sed -nE 's/.*"listen": *"([^"]+)".*/\1/p' "$run/ports.json")
for name in east west; do
  timeout 120 "$bin/diloco-worker" --coordinator "$address" --id "$name" --data "$run/text" --device cpu --threads 1 \
    --progress plain >"$run/$name.log" 2>&1 &
  pids+=($!)
done
for pid in "${pids[@]}"; do
  wait "$pid" || { tail -n 20 "$run"/*.log >&2; echo "the run failed; the ends of its logs are above" >&2; exit 1; }
done
pids=()
grep -h "event=start\| done: " "$run/east.log" "$run/west.log"
echo "LibTorch $version: trainer tests and a run of two workers passed"
