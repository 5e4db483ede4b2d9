#!/bin/sh
# Regenerates the offline data of the compile-checked queries (.sqlx), so that a
# build needs no database. `prepare.sh --check` fails if the data is out of date.
# Starts a PostgreSQL of its own in a temporary directory (package postgresql).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
[ -z "$programs" ] || PATH="$programs:$PATH"
work=$(mktemp -d /tmp/sunaba-pg-XXXXXX)
as=""
if [ "$(id -u)" = 0 ]; then
    # PostgreSQL refuses to run as root.
    as="setpriv --reuid 65534 --regid 65534 --clear-groups"
    chown 65534:65534 "$work"
fi
trap '$as pg_ctl -D "$work/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
mkdir "$work/sqlx"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
$as initdb -D "$work/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >/dev/null
$as pg_ctl -D "$work/data" -l "$work/log" -w start >/dev/null \
    -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$work"
cat "$here"/migrations/*.sql | psql -X -q -1 -v ON_ERROR_STOP=1 -h "$work" -p "$port" -U postgres postgres
# The compiler does not know that the queries depend on the database; a touched file makes it look again.
touch "$here/src/lib.rs"
(cd "$here" && SUNABA_POSTGRES_CHECK_URL="postgres://postgres@127.0.0.1:$port/postgres" SQLX_OFFLINE=false \
    SQLX_OFFLINE_DIR="$work/sqlx" \
    cargo check --quiet --profile "${PROFILE:-ci}" -p sunaba-store-postgres --lib)
touch "$here/src/lib.rs"
if [ "${1:-}" = "--check" ]; then
    diff -r "$work/sqlx" "$here/.sqlx" >/dev/null || {
        echo "the offline query data is out of date: run $0" >&2
        exit 1
    }
else
    rm -rf "$here/.sqlx"
    mkdir "$here/.sqlx"
    cp "$work"/sqlx/*.json "$here/.sqlx/"
fi
