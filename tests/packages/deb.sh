#!/usr/bin/env bash
# Installs a Debian package, serves a board as its user, and removes it: deb.sh FILE.deb
# That happens in a view of this machine's files of which nothing stays; it takes root's rights.
set -euo pipefail

package=$(realpath "$1")
[ "$(id -u)" = 0 ] || exec sudo "$0" "$package"
view=$(mktemp -d)
trap 'rm -rf "$view"' EXIT

unshare --mount --pid --fork --kill-child bash -euo pipefail -s "$package" "$view" <<'OUTSIDE'
package=$1 view=$2 machine=$2/machine
mount -t tmpfs tmpfs "$view"
mkdir "$view"/{upper,work} "$machine"
mount -t overlay overlay -o "lowerdir=/,upperdir=$view/upper,workdir=$view/work" "$machine"
mount -t proc proc "$machine/proc"
mount --rbind /dev "$machine/dev"
cp "$package" "$machine/opt/laurel.deb"
chroot "$machine" bash -euo pipefail -s <<'INSIDE'
fail() { echo "deb.sh: $*" >&2; exit 1; }
# Becomes a command of the user's with the settings: call it in a subshell or in the background.
as_laurel() {
    cd /var/lib/laurel
    set -a
    . /etc/laurel.env
    exec setpriv --reuid laurel --regid laurel --clear-groups "$@"
}

dpkg --install /opt/laurel.deb >/opt/installed
[ "$(stat -c '%U %a' /var/lib/laurel)" = "laurel 700" ] || fail "the data directory is not the user's alone"
[ "$(stat -c '%U %a' /etc/laurel.env)" = "root 600" ] || fail "others may read the settings"
systemd-analyze verify /usr/lib/systemd/system/laurel.service /usr/lib/systemd/system/laurel-worker.service
for program in laurel laurel-analytics laurel-ingest; do
    "/usr/bin/$program" --version >/opt/version || fail "$program does not start"
done
bash -n /usr/share/bash-completion/completions/laurel
grep -q 'complete .* laurel$' /usr/share/bash-completion/completions/laurel || fail "no completion"
# dpkg may be told to leave manual pages out, as images of containers do.
dpkg-deb --contents /opt/laurel.deb >/opt/contents
for page in laurel laurel-serve laurel-token-create; do
    grep -q "/man1/$page.1.gz$" /opt/contents || fail "no manual page of $page"
done

serve() {
    LAUREL_LISTEN=127.0.0.1:0 as_laurel /usr/bin/laurel serve >/opt/out 2>&1 &
    server=$!
    for _ in $(seq 300); do
        url=$(grep -oE 'http://127\.0\.0\.1:[0-9]+' /opt/out | head -n 1 || true)
        [ -z "$url" ] || ! curl -fs "$url/readyz" >/dev/null || return 0
        sleep 0.1
    done
    cat /opt/out >&2
    fail "the server does not start"
}
ask() { curl -fsS "$url/graphql" -H 'Content-Type: application/json' -H "Authorization: Bearer $token" -d "{\"query\": \"$1\"}"; }
stop() { kill -TERM "$server"; wait "$server" || fail "the server does not stop in order"; }

serve
token=$(as_laurel /usr/bin/laurel token create --scope admin)
ask 'mutation { createBoard(input: { slug: \"b\" }) { board { slug } } }' | grep -q '"slug":"b"'
ask 'mutation { submitScores(input: { board: \"b\", scores: [{ member: \"ann\", score: 7 }], ack: DURABLE }) { accepted } }' | grep -q '"accepted":1'
stop
# An upgrade leaves settings and data.
echo 'LAUREL_LOG_FORMAT=text' >>/etc/laurel.env
dpkg --install /opt/laurel.deb >/opt/installed
grep -q '^LAUREL_LOG_FORMAT=text' /etc/laurel.env || fail "the settings went with an upgrade"
serve
ask '{ board(slug: \"b\") { standings { top(first: 1) { nodes { score member { key } } } } } }' | grep -q '"score":"7"'
stop

dpkg --remove laurel >/opt/removed
[ ! -e /usr/bin/laurel ] || fail "the program stays"
dpkg --purge laurel >/opt/purged
[ ! -e /etc/laurel.env ] || fail "the settings stay"
[ -s /var/lib/laurel/laurel.sqlite ] || fail "the scores went with the package"
echo "deb.sh: installed, served, upgraded and removed"
INSIDE
OUTSIDE
