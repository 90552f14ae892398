#!/bin/sh
# Starts a service from source, under exactly the permissions that its config calls for, and becomes it: signals,
# exit code and the standard streams are the service's own. start.ts prints the command, each word in quotes.
start=$(dirname -- "$0")/start.js # bundled, as packages have it
[ -f "$start" ] || start=${start%js}ts
command=$("${DENO:-deno}" run --quiet --no-prompt --cached-only --allow-read "$start" "$@" </dev/null) || exit
# Else each of its threads that wait for the disk has memory of its own to hand out, which grows and is not given back.
MALLOC_ARENA_MAX=${MALLOC_ARENA_MAX:-2}
export MALLOC_ARENA_MAX
eval "exec $command"
