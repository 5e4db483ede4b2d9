#!/bin/sh
# Checks greet.sh. One line for each check; fails if any of them does.

set -u
failed=0

check() { # DESCRIPTION WANTED ARGUMENTS...
    description=$1
    wanted=$2
    shift 2
    # Each check takes its time, as a real suite does.
    sleep 0.5
    got=$(sh ./greet.sh "$@" 2>&1)
    if [ "$got" = "$wanted" ]; then
        echo "ok      $description"
    else
        echo "FAILED  $description: wanted '$wanted', got '$got'"
        failed=1
    fi
}

check "greets the world" "Hello, world!"
check "greets by name" "Hello, Ada!" Ada
check "shouts" "HELLO, ADA!" --shout Ada
check "shouts at the world" "HELLO, WORLD!" --shout

exit $failed
