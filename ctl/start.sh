#!/bin/sh
# Starts a service with exactly the permissions that its config requires. Replaces itself with the service, so
# signals, exit code and standard streams are the service's. start.ts prints the command with quoted words.
start=$(dirname -- "$0")/start.js # the bundle in packages
[ -f "$start" ] || start=${start%js}ts
command=$("${DENO:-deno}" run --quiet --no-prompt --cached-only --allow-read "$start" "$@" </dev/null) || exit
# By default, glibc gives each I/O thread its own memory arena, which grows and is not returned.
MALLOC_ARENA_MAX=${MALLOC_ARENA_MAX:-2}
export MALLOC_ARENA_MAX
eval "exec $command"
