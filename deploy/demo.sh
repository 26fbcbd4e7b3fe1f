#!/usr/bin/env bash
# The whole service on one machine: installs, builds, starts a coordinator and two workers, "east" and "west", that talk
# gRPC over loopback, trains a byte-level transformer on English text, and cleans up. Ctrl-C stops it at any time.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: deploy/demo.sh [--rounds N] [--config FILE]
  --rounds N     train N rounds instead of the configuration's
  --config FILE  run configuration; default deploy/demo.yaml
TEXT
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."
config=deploy/demo.yaml
rounds=
while [[ $# -gt 0 ]]; do
  case $1 in
    --rounds) rounds=${2:-}; [[ $rounds =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }; shift 2 ;;
    --config) config=${2:-}; [[ -r $config ]] || { echo "demo.sh: $config: cannot be read" >&2; exit 2; }; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

pids=()
stop_all() {
  trap - EXIT INT TERM
  local pid
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  # Each program leaves within seconds; whatever is left after this deadline is killed.
  local deadline=$((SECONDS + 20))
  for pid in "${pids[@]}"; do
    while kill -0 "$pid" 2>/dev/null && [[ $SECONDS -lt $deadline ]]; do sleep 0.1; done
    kill -KILL "$pid" 2>/dev/null || true
  done
  wait 2>/dev/null || true
}
trap 'echo "demo.sh: the command at line $LINENO failed" >&2' ERR
trap 'stop_all' EXIT
trap 'echo; echo "stopping"; stop_all; exit 130' INT
trap 'stop_all; exit 143' TERM

deploy/install.sh
echo "building"
cmake -S . -B build -G Ninja >/dev/null
cmake --build build --target diloco-coordinator diloco-worker dilococtl -- --quiet

work=build/demo
run=$work/$(date +%Y%m%d-%H%M%S)-$$
mkdir -p "$work/text" "$run"
if [[ ! -s $work/text/held-out.txt ]]; then
  bible -f gen1:1-rev22:21 >"$work/text/all.txt"
  total=$(stat -c %s "$work/text/all.txt")
  half=$((total * 95 / 200))
  head -c "$half" "$work/text/all.txt" >"$work/text/east.txt"
  head -c $((2 * half)) "$work/text/all.txt" | tail -c "$half" >"$work/text/west.txt"
  tail -c +$((2 * half + 1)) "$work/text/all.txt" >"$work/text/held-out.tmp"
  mv "$work/text/held-out.tmp" "$work/text/held-out.txt"
fi
if [[ -n $rounds ]]; then
  sed -E "s/^( *rounds: )[0-9]+/\1$rounds/" "$config" >"$run/run.yaml"
else
  cp "$config" "$run/run.yaml"
fi

# fail LOG MESSAGE
fail() {
  tail -n 20 "$1" >&2
  echo "demo.sh: $2; the end of $1 is above" >&2
  exit 1
}

bin=build/bin
"$bin/diloco-coordinator" --config "$run/run.yaml" --data-dir "$run/coordinator" --listen 127.0.0.1:0 \
  --http 127.0.0.1:0 --port-file "$run/ports.json" >"$run/coordinator.log" 2>&1 &
coordinator=$!
pids+=("$coordinator")
deadline=$((SECONDS + 30))
until [[ -s $run/ports.json ]]; do
  kill -0 "$coordinator" 2>/dev/null || fail "$run/coordinator.log" "the coordinator did not start"
  [[ $SECONDS -lt $deadline ]] || fail "$run/coordinator.log" "the coordinator did not open its port in 30 s"
  sleep 0.05
done
address=$(sed -nE 's/.*"listen": *"([^"]+)".*/\1/p' "$run/ports.json")

declare -A names=(["$coordinator"]=coordinator)
for name in east west; do
  "$bin/diloco-worker" --coordinator "$address" --id "$name" --data "$work/text/$name.txt" \
    --held-out "$work/text/held-out.txt" --device cpu --threads 1 --progress none >"$run/$name.log" 2>&1 &
  names[$!]=$name
  pids+=("$!")
done

"$bin/dilococtl" --coordinator "$address" status --watch &
watch=$!
pids+=("$watch")
while true; do
  ended=
  status=0
  wait -n -p ended "${pids[@]}" || status=$?
  [[ $ended != "$watch" ]] || break
  [[ $status -eq 0 ]] || fail "$run/${names[$ended]}.log" "${names[$ended]} ended with exit code $status"
  left=()
  for pid in "${pids[@]}"; do [[ $pid == "$ended" ]] || left+=("$pid"); done
  pids=("${left[@]}")
done
[[ $status -eq 0 ]] || { echo "demo.sh: the run did not finish (dilococtl exit code $status)" >&2; exit 1; }

echo "for comparison, a unigram byte model of the same text:"
"$bin/diloco-worker" unigram --data "$work/text/east.txt" --held-out "$work/text/held-out.txt"
echo "logs and checkpoint: $run"
