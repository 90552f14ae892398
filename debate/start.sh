#!/bin/sh
# Starts the web server from source, under exactly the permissions that its settings call for, and becomes it: signals,
# exit code and the standard streams are the server's own. start.ts prints the command, each word in quotes.
command=$("${DENO:-deno}" run --quiet --no-prompt --cached-only --allow-read --allow-env "$(dirname -- "$0")/start.ts" "$@" </dev/null) || exit
eval "exec $command"
