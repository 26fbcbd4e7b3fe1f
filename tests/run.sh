#!/usr/bin/env bash
# Installs, builds and runs the tests. The last lines are ctest's own summary.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: tests/run.sh [option]
  (none)          install packages, build, run every test that is not marked slow
  --slow          also the slow ones
  --vectors FILE  only the trajectory tests, on another file of the form of tests/worker/outer/vectors.json
  --sanitize      ASan+UBSan: all but the trainer; then TSan: all with threads that links neither gRPC nor LibTorch
  --tsan          the TSan half alone
TEXT
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=$(nproc)

# build FOLDER CMAKE-OPTION...
build() {
  local folder=$1
  shift
  cmake -S . -B "$folder" -G Ninja "$@" >"$folder.configure.log" 2>&1 || {
    cat "$folder.configure.log" >&2
    return 1
  }
  rm -f "$folder.configure.log"
  cmake --build "$folder" --parallel "$jobs" -- --quiet
}

# test FOLDER CTEST-OPTION...
test_in() {
  local folder=$1
  shift
  ctest --test-dir "$folder" --parallel "$jobs" --output-on-failure --no-tests=error --progress "$@"
}

sanitize_thread() {
  build build-tsan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DDILOCO_SANITIZE=thread
  TSAN_OPTIONS=halt_on_error=1 test_in build-tsan -LE 'slow|one-thread'
}

sanitize_address() {
  build build-asan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DDILOCO_SANITIZE=address
  ASAN_OPTIONS=detect_stack_use_after_return=1 test_in build-asan -LE slow
}

mode=${1:-}
case $mode in
  "" | --slow | --sanitize | --tsan) [[ $# -le 1 ]] || { usage >&2; exit 2; } ;;
  --vectors)
    [[ $# -eq 2 ]] || { usage >&2; exit 2; }
    [[ -r $2 ]] || { echo "tests/run.sh: $2: cannot be read; give a file like tests/worker/outer/vectors.json" >&2; exit 2; }
    DILOCO_VECTORS=$(realpath "$2")
    export DILOCO_VECTORS
    ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

deploy/install.sh
case $mode in
  --tsan) sanitize_thread ;;
  --sanitize)
    sanitize_address
    sanitize_thread
    ;;
  --vectors)
    build build
    test_in build -R 'Trajector'
    ;;
  --slow)
    build build
    test_in build
    ;;
  *)
    build build
    test_in build -LE slow
    ;;
esac
