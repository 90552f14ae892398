import assert from "node:assert/strict";
import { callText } from "../page/call_text.ts";
import { formatClock } from "../page/format.ts";
import { isLater, streamed } from "../page/stream.ts";
import type { TimedEvent } from "../page/summary.ts";

Deno.test.each([
  { name: "the next event", id: "13", than: "12", later: true },
  { name: "the same event again", id: "12", than: "12", later: false },
  { name: "an event that is not stored", id: "12.1", than: "12", later: true },
  { name: "the next one after it", id: "12.10", than: "12.9", later: true },
  { name: "a stored event after it", id: "13", than: "12.10", later: true },
  { name: "an older one", id: "9.5", than: "12", later: false },
])("isLater() orders $name", ({ id, than, later }) => {
  assert.equal(isLater(id, than), later);
});

Deno.test("the streamed text is that of one turn", () => {
  const [one, other] = ["Primary Diagnosis", "Skeptical Reviewer"];
  const delta = (agent_role: string, text: string) => ({ type: "agent_delta", agent_role, delta: text });
  const textAfter = (...events: readonly object[]) =>
    events.reduce<ReturnType<typeof streamed>>(
      (live, event) => streamed(live, event as TimedEvent),
      undefined,
    );
  assert.deepEqual(textAfter(delta(one, "a"), delta(one, "b")), { role: one, text: "ab" });
  assert.deepEqual(textAfter(delta(one, "a"), delta(other, "b")), { role: other, text: "b" });
  assert.deepEqual(textAfter(delta(one, "a"), { type: "agent_turn_started", agent_role: one }), {
    role: one,
    text: "",
  });
  assert.equal(textAfter(delta(one, "a"), { type: "agent_completed" }), undefined);
});

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
