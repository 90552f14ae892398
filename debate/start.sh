#!/bin/sh
# Starts the web server with exactly the permissions that its settings require. Replaces itself with the server, so
# signals, exit code and standard streams are the server's. start.ts prints the command with quoted words.
start=$(dirname -- "$0")/start.js # the bundle in packages
[ -f "$start" ] || start=${start%js}ts
command=$("${DENO:-deno}" run --quiet --no-prompt --cached-only --allow-read --allow-env "$start" "$@" </dev/null) || exit
eval "exec $command"
