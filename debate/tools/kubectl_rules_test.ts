import assert from "node:assert/strict";
import { ToolFailure } from "./run_program.ts";
import { checkKubectl } from "./program_tools.ts";

const LIMIT = "--request-timeout=20s";

function argv(text: string): readonly string[] | string {
  try {
    return checkKubectl(text, 20).map((argument) => argument.text);
  } catch (error) {
    assert.ok(error instanceof ToolFailure);
    return error.message;
  }
}

Deno.test.each([
  { text: "get pods -n prod", runs: ["get", LIMIT, "-n", "prod", "pods"] },
  { text: "-n prod get pods", runs: ["get", LIMIT, "-n", "prod", "pods"] },
  { text: "--namespace=prod get pods", runs: ["get", LIMIT, "--namespace=prod", "pods"] },
  { text: "kubectl get pods", runs: ["get", LIMIT, "pods"] },
  { text: "get pods,svc -A -o wide", runs: ["get", LIMIT, "-A", "-o", "wide", "pods,svc"] },
  { text: "get pod/web -o=json", runs: ["get", LIMIT, "-o", "json", "pod/web"] },
  {
    text: "get po -l 'app in (a,b)' --context staging",
    runs: ["get", LIMIT, "-l", "app in (a,b)", "--context=staging", "po"],
  },
  {
    text: "get pods -o jsonpath='{.items[*].metadata.name}'",
    runs: ["get", LIMIT, "-o", "jsonpath={.items[*].metadata.name}", "pods"],
  },
  {
    text: `get pods -o jsonpath='{range .items[*]}{.metadata.labels.app\\.kubernetes\\.io/name}{"\\n"}{end}'`,
    runs: [
      ...["get", LIMIT, "-o"],
      `jsonpath={range .items[*]}{.metadata.labels.app\\.kubernetes\\.io/name}{"\\n"}{end}`,
      "pods",
    ],
  },
  {
    text: "get pods -o custom-columns=N:.spec.containers[*].env[*].name",
    runs: ["get", LIMIT, "-o", "custom-columns=N:.spec.containers[*].env[*].name", "pods"],
  },
  { text: "get deploy secretary", runs: ["get", LIMIT, "deploy", "secretary"] },
  { text: "get deploy secrets", runs: ["get", LIMIT, "deploy", "secrets"] },
  { text: "describe pod web", runs: ["describe", LIMIT, "pod", "web"] },
  {
    text: "logs web -c app --tail=50 -p",
    runs: ["logs", "--limit-bytes=262144", LIMIT, "-c", "app", "--tail=50", "-p", "web"],
  },
  { text: "logs deploy/web", runs: ["logs", "--limit-bytes=262144", LIMIT, "--tail=500", "deploy/web"] },
  { text: "top pods --sort-by=cpu", runs: ["top", LIMIT, "--sort-by=cpu", "pods"] },
  { text: "events --for pod/web", runs: ["events", LIMIT, "--for=pod/web"] },
  { text: "explain pods.spec", runs: ["explain", LIMIT, "pods.spec"] },
  { text: "version --client", runs: ["version", LIMIT, "--client"] },
  { text: "api-resources", runs: ["api-resources", LIMIT] },
  { text: "cluster-info", runs: ["cluster-info", LIMIT] },
  { text: "config view --minify", runs: ["config", LIMIT, "--minify", "view"] },
].map((row) => ({ ...row, name: row.text })))("checkKubectl() writes $name anew", ({ text, runs }) => {
  assert.deepEqual(argv(text), runs);
});

/** Rejected arguments of each command, separated by " | ". */
const REFUSED: Readonly<Record<string, string>> = {
  get: "secrets | secret | Secrets | secrets.v1. | secret/db | pods,secrets | pod/a secret/b | " +
    "pods secret/b | --raw /api | --raw=/api | pods --kubeconfig /tmp/x | pods --kubeconfig=/tmp/x | " +
    "pods --server=http://evil | pods -s http://evil | pods --token=x | pods --as=admin | " +
    "pods --as-group system:masters | pods --cluster x | pods --user x | " +
    "pods --insecure-skip-tls-verify | pods --certificate-authority=/x | -f http://evil/x | " +
    "--filename=/etc/x | -k /etc | pods -w | pods --watch | pods --watch-only | " +
    "pods -o jsonpath-file=/etc/x | pods -o go-template-file=/etc/x | " +
    "pods -o custom-columns-file=/etc/x | pods --template=/etc/x | " +
    "pods --profile=cpu --profile-output=/x | pods --cache-dir=/x | pods -v 9 | pods --v=9 | " +
    "pods --request-timeout=0 | pods -n | pods -n -A | pods; id | pods -o jsonpath=$(id)",
  logs: "-f web | --follow web | web --limit-bytes=0 | web --pod-running-timeout=1h",
  config: "view --raw | view --flatten | set x y | use-context x | ",
  "cluster-info": "dump | dump --output-directory=/x",
};
/** Paths to values without the names that mark them as secret. */
const BARE_VALUES = ".spec.containers[*].env[*].value | .data.* | .data['*'] | ..value | .val\\\\ue | " +
  ".containers[0].args[1] | .command | .env[0]['name','value'] | .data.DB_PASSWORD | .spec.token | " +
  ".env[?(@.value>'a')].name | .metadata.name\\\\n | ['db-pass_word','secret']";
Deno.test.each([
  ...BARE_VALUES.split(" | ").flatMap((path) =>
    ["-o jsonpath=", "--output=custom-columns=A:", "--sort-by="].map((option) =>
      `get pods ${option}"${path}"`
    )
  ),
  ...["", "kubectl", "delete pod web", "exec web -- id", "apply -f x", "edit pod web", "proxy"],
  ...["port-forward web 80", "cp web:/etc/x x", "debug web", "attach web", "plugin list"],
  ...["auth can-i get pods", "constructor", "describe secrets db", "--kubeconfig=/tmp/x get pods"],
  ...["events -w", "-n", "get pods\n--raw"],
  ...Object.entries(REFUSED).flatMap(([command, all]) =>
    all.split(" | ").map((args) => `${command} ${args}`.trim())
  ),
].map((text) => ({ name: JSON.stringify(text), text })))("checkKubectl() refuses $name", ({ text }) => {
  assert.equal(typeof argv(text), "string", JSON.stringify(argv(text)));
});
