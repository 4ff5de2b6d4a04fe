#!/usr/bin/env bash
# Installs the database servers that `make up` and `make test-real` start, from Debian's packages. What is there is left alone.
set -euo pipefail
missing=()
ls -d /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing+=(postgresql)
PATH="$PATH:/usr/sbin" command -v mariadbd >/dev/null || missing+=(mariadb-server)
[ ${#missing[@]} -eq 0 ] && exit 0
sudo=""
[ "$(id -u)" -eq 0 ] || sudo="sudo"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "installing ${missing[*]}"
if ! { $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    cat "$log" >&2
    echo "error: ${missing[*]} cannot be installed; install them and run again" >&2
    exit 1
fi
