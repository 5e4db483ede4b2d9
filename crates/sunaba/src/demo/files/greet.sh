#!/bin/sh
# Greets somebody.
#
# usage: greet.sh [NAME]

set -eu

greeting="Hello"
name="${1:-world}"
printf '%s, %s!\n' "$greeting" "$name"
