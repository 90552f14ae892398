import assert from "node:assert/strict";
import { callText } from "../page/call_text.ts";
import { formatClock } from "../page/format.ts";

Deno.test.each([
  { tool: "run_local_command", args: { command: "df -h", timeout: 15 }, text: "$ df -h" },
  { tool: "run_kubectl", args: { kubectl_args: "get pods" }, text: "$ kubectl get pods" },
  { tool: "run_kubectl", args: { kubectl_args: "kubectl get pods" }, text: "$ kubectl get pods" },
  {
    tool: "run_ssh_command",
    args: { host: "db01", command: "uptime", user: "ops", port: 2222 },
    text: "$ ssh -p 2222 ops@db01 uptime",
  },
  // No value may pass for another part of the command.
  {
    tool: "run_ssh_command",
    args: { host: "db01 rm -rf /", command: "uptime" },
    text: "$ ssh 'db01 rm -rf /' uptime",
  },
  // An unknown argument is never hidden.
  {
    tool: "run_local_command",
    args: { command: "df -h", cwd: "/etc" },
    text: 'run_local_command command="df -h" cwd="/etc"',
  },
  { tool: "run_local_command", args: { command: ["df"] }, text: 'run_local_command command=["df"]' },
  { tool: "http_get", args: { url: "http://a/", timeout: 5 }, text: 'http_get url="http://a/" timeout=5' },
  { tool: "constructor", args: {}, text: "constructor" },
])("callText() shows $text", ({ tool, args, text }) => {
  const shown = callText(tool, args);
  assert.equal(`${shown.isCommand ? "$ " : ""}${shown.text}`, text);
});

Deno.test("formatClock() counts down to zero", () => {
  assert.deepEqual([0, 1, 59_001, 247_000].map(formatClock), ["0:00", "0:01", "1:00", "4:07"]);
});
