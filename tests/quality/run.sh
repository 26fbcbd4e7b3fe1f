#!/usr/bin/env bash
# Trains every method at equal tokens and equal seeds with `diloco-worker simulate`, and writes RESULTS.md and its plots.
# One JSON file a cell under results/: what is done stays done, so that it goes on where it was stopped.
#   tests/quality/run.sh [--budget-minutes N] [--jobs N]   # what fits, the most telling first
#   tests/quality/run.sh --quick                           # minutes: whether all of it works; writes to build/quality
#   tests/quality/run.sh --report                          # only writes RESULTS.md anew
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

cmake -S . -B build -G Ninja >/dev/null
cmake --build build --target diloco-worker -- --quiet

text=build/quality/text
if [[ ! -s $text/held-out.txt ]]; then
  command -v bible >/dev/null || { echo "run.sh: no \`bible\`; deploy/install.sh installs it" >&2; exit 1; }
  mkdir -p "$text"
  bible -f gen1:1-rev22:21 >"$text/all.txt"
  training=$(($(stat -c %s "$text/all.txt") * 95 / 100))
  head -c "$training" "$text/all.txt" >"$text/train.txt"
  tail -c +$((training + 1)) "$text/all.txt" >"$text/held-out.tmp"
  mv "$text/held-out.tmp" "$text/held-out.txt"
fi
out=tests/quality
for argument in "$@"; do [[ $argument != --quick ]] || out=build/quality; done
exec python3 tests/quality/runner.py --program build/bin/diloco-worker --text "$text" --out "$out" "$@"
