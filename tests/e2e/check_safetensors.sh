#!/bin/bash
# Opens a run's final checkpoint with the `safetensors` package from PyPI: names, shapes and values must be the
# consensus. Run by hand, after a build; needs python3 with venv and PyPI. Not part of the test suite.
#   tests/e2e/check_safetensors.sh [BUILD_FOLDER]
set -euo pipefail

build=$(realpath "${1:-build}")
work=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done  # It may have ended by itself.
  wait
  rm -rf "$work"
}
trap cleanup EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check numpy safetensors xxhash

# One fragment and an outer optimizer without state: the digest that workers log is that of the parameters alone.
cat > "$work/run.yaml" <<'YAML'
run: {id: safetensors, workers: 2, rounds: 5}
method: eager
inner_steps: 4
outer: {optimizer: sgd, rate: 0.7}
fragments: {count: 1}
wire: {uplink: e3m0, downlink: int8}
YAML
"$build/bin/diloco-coordinator" --config "$work/run.yaml" --data-dir "$work/data" --listen 127.0.0.1:0 --http none \
  --port-file "$work/ports.json" --exit-when-finished > "$work/coordinator.log" 2>&1 &
pids+=($!)
for _ in $(seq 100); do
  [ -e "$work/ports.json" ] && break
  sleep 0.1
done
address=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["listen"])' "$work/ports.json")
for id in 0 1; do
  "$build/tests/synthetic_worker" --coordinator "$address" --id "w$id" --worker "$id" --elements 10007 --tensors 3 \
    --trace "$work/w$id.jsonl" > "$work/w$id.log" 2>&1 &
  pids+=($!)
done
for pid in "${pids[@]}"; do
  wait "$pid" || { cat "$work"/*.log; exit 1; }
done
pids=()

"$work/venv/bin/python" - "$work" <<'PYTHON'
import glob, json, sys
from importlib.metadata import version

import numpy
import xxhash
from safetensors import safe_open

work = sys.argv[1]
[path] = glob.glob(f"{work}/data/checkpoints/*/model.safetensors")
sizes = [10007 * (t + 1) // 3 - 10007 * t // 3 for t in range(3)]  # As the synthetic worker cuts them.
expected = {f"drift{t}": [size] for t, size in enumerate(sizes)}
with safe_open(path, framework="numpy") as file:
    tensors = {name: file.get_tensor(name) for name in file.keys()}
    metadata = file.metadata()
assert {name: list(tensor.shape) for name, tensor in tensors.items()} == expected, tensors
assert all(tensor.dtype == numpy.float32 for tensor in tensors.values())
assert metadata["version"] == "5", metadata
values = numpy.concatenate([tensors[name] for name in expected])
assert numpy.isfinite(values).all() and numpy.count_nonzero(values) > values.size / 2, "nothing was trained"
digest = xxhash.xxh3_128(values.astype("<f4").tobytes()).hexdigest()
for worker in ("w0", "w1"):
    lines = [json.loads(line) for line in open(f"{work}/{worker}.jsonl")]
    [final] = [line["digest"] for line in lines if line["event"] == "consensus" and line["version"] == 5]
    assert final == digest, (worker, final, digest)
print(f"OK: safetensors {version('safetensors')}, {len(tensors)} tensors, {values.size} values, XXH3-128 {digest}")
PYTHON
