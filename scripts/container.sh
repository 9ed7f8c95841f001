#!/usr/bin/env bash
# Build the image and try it, with buildah, which needs no daemon.
#
#   scripts/container.sh [OPTIONS of buildah build]      for example --build-arg PYTHON=localhost/python
#
# The server runs as a user without a name or a home, who owns nothing but the volume. What must hold: it answers
# /health, has made a vault and a token, finds by the image's own models, and ends within two seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v buildah >/dev/null; then
    echo "buildah is not installed; nothing was built." >&2
    exit 3
fi

user=12345:12345
buildah build --isolation chroot --format docker --tag spellbook:latest "$@" .

data=$(mktemp -d)
container=$(buildah from spellbook:latest)
trap 'buildah rm "$container" >/dev/null; rm -rf "$data"' EXIT
chown "$user" "$data"
buildah config --volume /data- "$container" # else buildah mounts an empty folder there, not ours
buildah run --isolation chroot --user "$user" --volume "$data:/data" "$container" -- bash -euc '
    spellbook serve --container --port 17951 2>/data/log &
    server=$!
    trap "cat /data/log; kill -KILL $server 2>/dev/null || true" EXIT
    for try in $(seq 200); do
        python -c "import urllib.request as web; web.urlopen(\"http://127.0.0.1:17951/health\")" 2>/dev/null && break
        test "$try" -lt 200
        sleep 0.1
    done
    grep -q Bearer /data/log
    test -f /data/vault/welcome.md
    spellbook reindex
    spellbook search "how long should a chunk be?" --filter category=system -n 1
    test -z "$(find /data/cache -name manifest.json)" # no model was prepared: those of the image are used
    before=$(date +%s%N)
    kill -TERM "$server"
    wait "$server" || true
    took=$((($(date +%s%N) - before) / 1000000))
    echo "The server ended after $took ms."
    test "$took" -lt 2500
'
