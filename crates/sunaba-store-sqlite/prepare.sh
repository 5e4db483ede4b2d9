#!/bin/sh
# Regenerates the offline data of the compile-checked queries (.sqlx), so that a
# build needs no database. `prepare.sh --check` fails if the data is out of date.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat "$here"/migrations/*.sql | python3 -c '
import sqlite3, sys
sqlite3.connect(sys.argv[1]).executescript(sys.stdin.read())' "$work/check.db"
mkdir "$work/sqlx"
# The compiler does not know that the queries depend on the database; a touched file makes it look again.
touch "$here/src/lib.rs"
(cd "$here" && SUNABA_SQLITE_CHECK_URL="sqlite://$work/check.db" SQLX_OFFLINE=false SQLX_OFFLINE_DIR="$work/sqlx" \
    cargo check --quiet --profile "${PROFILE:-ci}" -p sunaba-store-sqlite --lib)
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
