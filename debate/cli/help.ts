export const EXAMPLES = `
Start here, without any token: models named replay/… play a script.
  export DIAGNOSTIC_MODEL=replay/memory_leak SKEPTIC_MODEL=replay/memory_leak
  export MODERATOR_MODEL=replay/memory_leak
  debate "The memory of the API grows"
      see what a debate looks like
  debate "The API has been slow since the deploy at noon" --project .
      debate an incident, with your project's files as context
  debate --file incident.md --template errors --language es
      the same from a file, with another prompt, in Spanish
  debate serve
      the same in a browser: stored runs, approvals, comments, resume

Models are <provider>/<name>. hub/… needs HUB_TOKEN and HUB_BASE_URL, assist/…
needs ASSIST_TOKEN (or debate login) and ASSIST_BASE_URL. Both speak the chat
completions protocol. Settings are environment variables, or lines of .env in
the current folder; debate/CONFIG.md has them all.

Exit codes: 0 done, whatever the verdict; 1 failed; 2 not understood, or wrongly
configured; 130 stopped.
`;

export const RUN_EXAMPLES = `
Examples:
  debate run "Orders get lost between shop and stock" --base-context systems.md
  debate run --file incident.md --project . --include "src/orders/**"
  debate run "Disk full on db1" --json > run.json
      keep the record, for debate benchmark

The result goes to standard output, progress to standard error. Tools run
without asking, since you are watching and can stop them with Ctrl-C.
TOOLS_ENABLED=false offers none, ENABLED_TOOLS=http_get,query_loki only these.
`;

export const SERVE_EXAMPLES = `
Examples:
  debate serve
  WEB_USERNAME=ann WEB_PASSWORD=… debate serve --host 0.0.0.0

Without WEB_USERNAME and WEB_PASSWORD it listens on loopback only. TLS is a
the task of a reverse proxy; give it a read timeout of hours: runs are streamed.
`;

export const LOGIN_EXAMPLES = `
Needs an OAuth application of your own with the device flow:
  ASSIST_CLIENT_ID         its client id
  ASSIST_DEVICE_CODE_URL   where the flow starts
  ASSIST_DEVICE_TOKEN_URL  where it ends
  ASSIST_SCOPE             what to ask for, if anything
The token is stored in ASSIST_TOKEN_FILE, which only you can read.
`;

export const BENCHMARK_EXAMPLES = `
Examples:
  debate benchmark --cases cases.json --output report.json

A case for --cases:
  {"id": "pool", "ground_truth": "The pool leaks", "run_file": "run.json"}
A run_file is relative to the file of the cases, and is what debate run --json
prints or debate serve stores in DATA_DIR; "run" holds the record itself
instead. ground_truth may be a list: any of them is right. Words are compared,
not meanings. A case without a usable record counts as wrong, and says why.

The exit code is 0 even for poor results, 2 for input that cannot be used.
`;

export const RUNS_EXAMPLES = `
Examples:
  debate runs list --search checkout
  debate runs show 3f2a91c0
  debate runs compare 3f2a91c0 77b01e5d
  debate runs resume 3f2a91c0 --evidence "The pool was full at 14:02"
  debate runs report 3f2a91c0 --html --output report.html

Runs are those in DATA_DIR, of debate serve and of the command line. An id may
be shortened to what is unique, at least 4 digits.
`;

export const PROMPTS_EXAMPLES = `
Examples:
  debate prompts
  debate prompts --show errors.en > network.en.yaml
      start your own: change name and texts, and move it to PROMPTS_DIR

Your own are files <name>.<language>.yaml in PROMPTS_DIR; one named like a
built-in replaces it. If there is no template in the language, English is used,
then the template default. Exit code 2 when one of yours is broken.
`;
