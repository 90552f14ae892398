import assert from "node:assert/strict";
import { approvalLines, readApprovals } from "./approval.ts";

const FACTS = { title: "CheckoutMemory", severity: "critical" };
const redact = (text: string) => text.replaceAll("hunter22x", "[REDACTED]");

const REQUEST = {
  type: "tool_approval_request",
  timestamp: "2026-11-28T12:00:00.250Z",
  ...{ call_id: "c1", tool_name: "run_kubectl", args: { kubectl_args: "get pods -n shop" } },
};

const resolved = (more: object) => ({ type: "tool_approval_resolved", call_id: "c1", ...more });

function linesOf(request: object, ...events: { readonly type: string }[]) {
  const [approval] = readApprovals([{ ...REQUEST, ...request }, ...events], 300_000);
  assert.ok(approval);
  return approvalLines(FACTS, approval, redact);
}

Deno.test("approvalLines() of a request are alert, command, reason and deadline", () => {
  assert.deepEqual(linesOf({ need: "a.test:443 is not listed", reason: "To see\nthe pods" }), [
    "Approval needed: CheckoutMemory (critical)",
    "$ kubectl get pods -n shop",
    "Reason: a.test:443 is not listed. Agent: To see the pods",
    "Expires: 2026-11-28T12:05:00Z",
  ]);
  assert.equal(linesOf({})[2], "Reason: the agent states none");
});

Deno.test.each([
  {
    name: "an approval",
    event: { approved: true, resolution: "approved" },
    line: /^Approved: \$ kubectl get/,
  },
  { name: "a rejection", event: { approved: false, resolution: "rejected" }, line: /^Rejected: \$ kubectl/ },
  {
    name: "an expiry",
    event: { approved: false, resolution: "timeout" },
    line: /^Expired, not run: \$ kube/,
  },
  {
    name: "an approval with other arguments",
    event: { approved: true, resolution: "approved", args: { kubectl_args: "top pods" } },
    line: /^Approved: \$ kubectl top pods$/,
  },
])("approvalLines() of $name are one line", ({ event, line }) => {
  const lines = linesOf({}, resolved(event));
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", line);
});

Deno.test.each([
  { name: "of this machine", tool: "run_local_command", args: { command: "df -h" }, says: "$ df -h" },
  {
    name: "of another host, with all other arguments",
    tool: "run_ssh_command",
    args: { host: "web01", command: "df -h", port: 2222 },
    says: '$ ssh web01 df -h {"port":2222}',
  },
  { name: "of a URL", tool: "http_get", args: { url: "http://a.test/x?y" }, says: "$ GET http://a.test/x?y" },
  { name: "of another tool", tool: "mcp_deploy", args: { a: ["b"] }, says: '$ mcp_deploy {"a":["b"]}' },
  { name: "of a tool named like a property", tool: "constructor", args: {}, says: "$ constructor " },
  {
    name: "of a wrong type",
    tool: "run_kubectl",
    args: { kubectl_args: [1] },
    says: '$ kubectl {"kubectl_args":[1]}',
  },
  {
    name: "with line breaks and marks",
    tool: "run_local_command",
    args: { command: "ls\n# approved\u202e\u200b\u00a0" },
    says: "$ ls\\x0a# approved\\u{202e}\\u{200b}\\xa0",
  },
  {
    name: "with letters that look alike",
    tool: "http_get",
    args: { url: "https://\u0430pple.example/" },
    says: "$ GET https://\\u{430}pple.example/",
  },
  {
    name: "with a secret",
    tool: "run_local_command",
    args: { command: "grep hunter22x /var/log/app" },
    says: "$ grep [REDACTED] /var/log/app",
  },
  {
    name: "of 100 KB with a secret at the cut",
    tool: "run_local_command",
    args: { command: `${"x".repeat(393)}hunter22x${"y".repeat(99_000)}` },
    says: `$ ${"x".repeat(393)}[REDA… [TRUNCATED: 400 of 99405 characters]`,
  },
])("the command $name is shown as it runs", ({ tool, args, says }) => {
  assert.equal(linesOf({ tool_name: tool, args })[1], says);
});
