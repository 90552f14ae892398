#!/bin/sh
# Starts the approval bridge under exactly the permissions that its settings call for, and becomes it: signals, exit
# code and the standard streams are its own. start.ts prints the command, each word in quotes.
start=$(dirname -- "$0")/start.js # bundled, as packages have it
[ -f "$start" ] || start=${start%js}ts
command=$("${DENO:-deno}" run --quiet --no-prompt --cached-only --allow-read --allow-env "$start" "$@" </dev/null) || exit
eval "exec $command"
