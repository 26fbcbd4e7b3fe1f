#!/usr/bin/env bash
# Installs the packages of a list that are missing (Debian 12). Needs root, or sudo, only if any is.
#
# Usage: deploy/install.sh [LIST]     default: deploy/packages.txt
set -euo pipefail
list=${1:-$(dirname "${BASH_SOURCE[0]}")/packages.txt}
if [[ $# -gt 1 || ! -r $list ]]; then
  echo "install.sh: $list: cannot be read; give one list of packages, or none" >&2
  exit 2
fi

mapfile -t packages < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$list")
missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ $status == ii* ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "install.sh: these packages are missing and installing them needs root: ${missing[*]}" >&2
    echo "install.sh: run deploy/install.sh as root once, then go on without it" >&2
    exit 1
  fi
  root=(sudo)
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${root[@]}" apt-get update -q &&
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"; } \
  >"$log" 2>&1 </dev/null; then
  tail -n 30 "$log" >&2
  echo "install.sh: apt-get failed; the end of its output is above" >&2
  exit 1
fi
