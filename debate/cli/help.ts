export const EXAMPLES = `
Start here, without a token. Models named replay/<scenario> play a script:
  export DIAGNOSTIC_MODEL=replay/memory_leak SKEPTIC_MODEL=replay/memory_leak
  export MODERATOR_MODEL=replay/memory_leak
  debate "The memory of the API grows"
With your models:
  debate "The API has been slow since the deploy at noon" --project .
  debate --file incident.md --template errors --language es
  debate serve

A model is <provider>/<name>. To add a provider, such as openai, write to .env:
  MODEL_PROVIDERS='{"openai": {"base_url": "https://api.openai.com/v1",
    "key_variable": "OPENAI_API_KEY"}}'
docs/guides/providers.md has other providers. Settings are environment
variables or lines of .env: see docs/reference/configuration-debate.md.

Exit codes: 0 success, 1 failure, 2 usage or configuration error, 130 stopped.
`;

export const RUN_EXAMPLES = `
Examples:
  debate run "Orders get lost between shop and stock" --base-context systems.md
  debate run --file incident.md --project . --include "src/orders/**"
  debate run "Disk full on db1" --model openai/gpt-4.1
  debate run "Disk full on db1" --json > run.json

The result is written to standard output, progress to standard error. Tools
run without approval, because you watch and can press Ctrl-C. To limit them,
set TOOLS_ENABLED=false, or ENABLED_TOOLS=http_get,query_loki. The run starts
with a list of the tools that are off, and the reasons.
`;

export const SERVE_EXAMPLES = `
Examples:
  debate serve
  WEB_USERNAME=ann WEB_PASSWORD=… debate serve --host 0.0.0.0

Without WEB_USERNAME and WEB_PASSWORD, the server listens on loopback only.
For TLS, put a reverse proxy in front of it. Set the proxy's read timeout to
hours, because runs are streamed.
`;

export const LOGIN_EXAMPLES = `
Needs an OAuth application of yours with the device flow enabled:
  ASSIST_CLIENT_ID         client ID
  ASSIST_DEVICE_CODE_URL   device authorization endpoint
  ASSIST_DEVICE_TOKEN_URL  token endpoint
  ASSIST_SCOPE             scope to request (optional)
The token is stored in ASSIST_TOKEN_FILE with mode 0600.
`;

export const BENCHMARK_EXAMPLES = `
Examples:
  debate benchmark --cases cases.json --output report.json

A case of --cases:
  {"id": "pool", "ground_truth": "The pool leaks", "run_file": "run.json"}
run_file is a record, as printed by debate run --json or stored in DATA_DIR,
relative to the file of the cases. "run" can hold the record itself instead.
If ground_truth is a list, each entry is a right answer. Words are compared,
not meanings. A case without a usable record counts as wrong.

The exit code is 0 for any scores, and 2 for unusable input.
`;

export const RUNS_EXAMPLES = `
Examples:
  debate runs list --search checkout
  debate runs show 3f2a91c0
  debate runs show 3f2a91c0 --json > run.json
  debate runs resume 3f2a91c0 --evidence "The pool was full at 14:02"
  debate runs report 3f2a91c0 --html --output report.html

Runs of debate serve and of the command line are stored in DATA_DIR. An ID can
be shortened to a unique prefix of at least 4 digits.
`;

export const PROMPTS_EXAMPLES = `
Examples:
  debate prompts
  debate prompts --show errors.en > network.en.yaml

To add a template, change the name and the texts of this file and move it to
PROMPTS_DIR as <name>.<language>.yaml. It replaces a built-in template of the
same name. If a template lacks a language, its English version is used, or
else the template "default". The exit code is 2 if a template is broken.
`;
