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

Deno.test.each([
  "",
  "kubectl",
  "delete pod web",
  "exec web -- id",
  "apply -f x",
  "edit pod web",
  "proxy",
  "port-forward web 80",
  "cp web:/etc/x x",
  "debug web",
  "attach web",
  "plugin list",
  "auth can-i get pods",
  "constructor",
  "get secrets",
  "get secret",
  "get Secrets",
  "get secrets.v1.",
  "get secret/db",
  "get pods,secrets",
  "get pod/a secret/b",
  "get pods secret/b",
  "describe secrets db",
  "get --raw /api",
  "get --raw=/api",
  "get pods --kubeconfig /tmp/x",
  "get pods --kubeconfig=/tmp/x",
  "--kubeconfig=/tmp/x get pods",
  "get pods --server=http://evil",
  "get pods -s http://evil",
  "get pods --token=x",
  "get pods --as=admin",
  "get pods --as-group system:masters",
  "get pods --cluster x",
  "get pods --user x",
  "get pods --insecure-skip-tls-verify",
  "get pods --certificate-authority=/x",
  "get -f http://evil/x",
  "get --filename=/etc/x",
  "get -k /etc",
  "get pods -w",
  "get pods --watch",
  "get pods --watch-only",
  "get pods -o jsonpath-file=/etc/x",
  "get pods -o go-template-file=/etc/x",
  "get pods -o custom-columns-file=/etc/x",
  "get pods --template=/etc/x",
  "get pods --profile=cpu --profile-output=/x",
  "get pods --cache-dir=/x",
  "get pods -v 9",
  "get pods --v=9",
  "get pods --request-timeout=0",
  "logs -f web",
  "logs --follow web",
  "logs web --limit-bytes=0",
  "logs web --pod-running-timeout=1h",
  "events -w",
  "config view --raw",
  "config view --flatten",
  "config set x y",
  "config use-context x",
  "config",
  "cluster-info dump",
  "cluster-info dump --output-directory=/x",
  "get pods -n",
  "-n",
  "get pods -n -A",
  "get pods; id",
  "get pods -o jsonpath=$(id)",
  "get pods\n--raw",
].map((text) => ({ name: JSON.stringify(text), text })))("checkKubectl() refuses $name", ({ text }) => {
  assert.equal(typeof argv(text), "string", JSON.stringify(argv(text)));
});
