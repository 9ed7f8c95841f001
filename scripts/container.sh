#!/usr/bin/env bash
# Build the image and try it, with buildah: it needs no daemon, and runs in a container itself.
#
#   scripts/container.sh [OPTIONS of buildah build]      for example --build-arg PYTHON=localhost/python
#
# The server runs as a user without a name or a home, who owns nothing but the volume. What must hold: it answers
# /health, has made a vault and a token, embeds and finds by the models of the image, and ends within two seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v buildah >/dev/null; then
    echo "buildah is not installed; nothing was built." >&2
    exit 3
fi

user=12345:12345
port=${SPELLBOOK_PORT:-17951}
buildah build --isolation chroot --format docker --tag spellbook:latest "$@" .

data=$(mktemp -d)
container=$(buildah from spellbook:latest)
trap 'buildah rm "$container" >/dev/null; rm -rf "$data"' EXIT
chown "$user" "$data"
inside() {
    buildah run --isolation chroot --user "$user" --volume "$data:/data" "$container" -- "$@"
}

inside spellbook serve --container --port "$port" 2>"$data/log" &
server=$!
for _ in $(seq 100); do
    if inside python -c "from urllib.request import urlopen; urlopen('http://127.0.0.1:$port/health')" 2>/dev/null; then
        healthy=yes
        break
    fi
    sleep 0.1
done
cat "$data/log"
test "${healthy:-}" = yes
test -f "$data/vault/welcome.md"
inside spellbook reindex
inside spellbook search "how long should a chunk be?" --filter category=system -n 1
test ! -e "$data/cache/models" # those of the image were used

started=$(date +%s%N)
kill -TERM "$server"
wait "$server" || true
took=$((($(date +%s%N) - started) / 1000000))
echo "The server ended after $took ms."
test "$took" -lt 2500
