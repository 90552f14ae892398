import assert from "node:assert/strict";
import { ASKED, DECIDED, type Elements, render, textOf } from "../testing/detail_page_scene.ts";
import { READ_AT, recordOf } from "../testing/sample_record.ts";
import { type DetailPage, renderDetailPage } from "./detail_page.tsx";

function factsOf(elements: Elements): Readonly<Record<string, string>> {
  const [names, values] = ["dt", "dd"].map((wanted) =>
    elements.filter(({ tag }) => tag === wanted).map(({ text }) => text.trim())
  );
  return Object.fromEntries((names ?? []).map((name, index) => [name, values?.[index] ?? ""]));
}

const buttonsOf = (elements: Elements) =>
  elements.filter(({ tag, attributes }) => tag === "button" && "value" in attributes).map(({ attributes }) =>
    attributes["value"]
  );

Deno.test("renderDetailPage() shows all facts of a request", () => {
  const elements = render({
    approval: recordOf({
      end_user: "alice@example.com",
      sudo: true,
      rule: "behavior",
      anomalies: ["new-host:web01", "new-command:systemctl", "other"],
      account: "deploy",
      addr: "10.0.0.1:22",
      life_seconds: 300,
      reason: "deploy 4711",
      joined: ["f".repeat(32)],
    }),
    asked: { ...ASKED, ttl_seconds: 120, pty: true, file_transfer: true, end_user_groups: ["web", "oncall"] },
  });
  assert.deepEqual(factsOf(elements), {
    "Runs as": "deploy, then sudo as root",
    "Address": "10.0.0.1:22",
    "Trigger": "unusual request: first request for host web01, first request to run systemctl, other",
    "Requests": "2; the decision applies to all",
    "Age": "1 min; time left: 1 min",
    "Requester": "broker-1",
    "On behalf of": "alice@example.com",
    "Groups (reported by the broker)": "web, oncall",
    "Host": "web01",
    "Elevation": "sudo as root",
    "Kind": "one command, with a terminal, transfers a file",
    "Requested lifetime": "2 min",
    "Certificate lifetime": "5 minutes",
    "Matched rule": "behavior",
    "Anomalies": "first request for host web01first request to run systemctlother",
    "Requested": "1 min ago, on 2026-01-02 03:04:05 UTC",
    "Request ID": "00112233445566778899aabbccddeeff",
    "Decided together with": "f".repeat(32),
  });
  assert.ok(
    elements.some(({ attributes, text }) =>
      attributes["class"] === "reason" && text === "Reason given: deploy 4711"
    ),
  );
  assert.ok(textOf(elements, "command").includes("systemctl restart nginx"));
  assert.match(
    textOf(elements, "decision"),
    /certificate for exactly this command, valid for 5 minutes. Each request gets its own./,
  );
  assert.equal(
    elements.find(({ attributes }) => attributes["class"] === "lead")?.text,
    "broker-1, for alice@example.com, asks to run this command, as root, on web01.",
  );
});

Deno.test("renderDetailPage() shows a trailing space of a rule without a warning", () => {
  const elements = render({ approval: recordOf({ rule: "require_approval:^rm " }) });
  assert.equal(factsOf(elements)["Matched rule"], "require_approval:^rm␣");
  assert.ok(elements.every(({ tag }) => tag !== "mark"));
});

const SHELL = recordOf({
  command: "",
  access: ["session:pty", "pty"],
  sudo: true,
  session_max_seconds: 1800,
  life_seconds: 300,
});

Deno.test("renderDetailPage() describes a shell as access whose input is not shown", () => {
  const lead = (approval: typeof SHELL) =>
    render({ approval }).find(({ attributes }) => attributes["class"] === "lead")?.text;
  assert.equal(
    lead(SHELL),
    "broker-1 asks for an interactive shell, as root, on web01; what is typed there is not shown to you; it may live 30 minutes.",
  );
  assert.match(
    textOf(render({ approval: SHELL }), "command"),
    /None. The request is for access, not for a command./,
  );
  assert.match(
    textOf(render({ approval: SHELL }), "decision"),
    /certificate for any command, valid for 5 minutes. A session that it opens can last longer./,
  );
  const disguised = recordOf({ ...SHELL, command: "uptime" });
  assert.equal(lead(disguised), lead(SHELL), "whatever command its broker names");
  assert.match(textOf(render({ approval: disguised }), "command"), /not limited to this command/);
});

Deno.test("renderDetailPage() mentions no certificate if nothing is signed", () => {
  for (const access of [["session:exec"], ["bastion", "session"], []]) {
    const elements = render({ approval: recordOf({ access, dry_run: true, life_seconds: 300 }) });
    const decision = textOf(elements, "decision");
    assert.match(decision, /Nothing is signed. The broker continues with its open connection./);
    assert.doesNotMatch(decision, /gets a certificate/);
  }
});

Deno.test("renderDetailPage() shows digest, size and first lines of a transfer", () => {
  const write = recordOf({
    command: "cat > '/etc/app.conf'",
    access: ["file_transfer"],
    content_sha256: "ab".repeat(32),
    content_bytes: 12_345,
    content_head: "a {\n\t b\u202e\n",
  });
  const elements = render({ approval: write });
  const content = textOf(elements, "content");
  assert.match(content, new RegExp(`First lines of 12,345 bytes, SHA-256 ${"ab".repeat(32)}`));
  assert.ok(content.includes("a {\n\t b\\u{202e}\n"), content);
  assert.match(textOf(elements, "decision"), /exactly this command with exactly this content/);
  const of = (fields: Partial<typeof write>) =>
    textOf(render({ approval: recordOf({ ...write, content_head: undefined, ...fields }) }), "content");
  assert.doesNotMatch(of({ content_head: "abc", content_bytes: 3 }), /First lines/);
  assert.match(of({}), /Not text\./);
  assert.match(of({ content_bytes: 0 }), /Empty: the file is truncated/);
});

Deno.test("renderDetailPage() explains the plain form if the script would be rejected", () => {
  const formOf = (elements: Elements) => elements.find(({ tag }) => tag === "form")?.attributes ?? {};
  assert.ok("data-api" in formOf(render()));
  const elements = render({ isElsewhere: true });
  assert.equal("data-api" in formOf(elements), false);
  assert.match(textOf(elements, "decision"), /differs from approval.approval_url_template/);
});

Deno.test("renderDetailPage() shows the number of collected results and the approver's comment", () => {
  const approved = recordOf({ ...DECIDED, status: "approved", joined: ["f".repeat(32)], comment: "fine" });
  const text = textOf(render({ approval: { ...approved, collected: 1 } }), "decision");
  assert.match(text, /Comment: fine/);
  assert.match(text, /1 of 2 requests have collected the result; time left: 1 min/);
});

Deno.test.each<{ name: string; page: Partial<DetailPage>; fact: string; value: string | undefined }>([
  {
    name: "that no end user is reported",
    page: {},
    fact: "On behalf of",
    value: "not reported by a trusted broker",
  },
  { name: "no elevation", page: {}, fact: "Elevation", value: "none" },
  {
    name: "another sudo user",
    page: { approval: recordOf({ sudo: true, sudo_user: "db" }) },
    fact: "Elevation",
    value: "sudo as db",
  },
  {
    name: "root for an empty user",
    page: { approval: recordOf({ sudo: true, sudo_user: "" }) },
    fact: "Elevation",
    value: "sudo as root",
  },
  {
    name: "a session",
    page: { asked: { ...ASKED, purpose: "session", session_mode: "shell" } },
    fact: "Kind",
    value: "session, mode shell",
  },
  {
    name: "a bastion",
    page: { asked: { ...ASKED, role: "bastion" } },
    fact: "Kind",
    value: "bastion, to connect to other hosts",
  },
  { name: "a cluster", page: { asked: { ...ASKED, target_type: "k8s" } }, fact: "Cluster", value: "web01" },
  {
    name: "a user in no group",
    page: { asked: { ...ASKED, end_user_groups: [] } },
    fact: "Groups (reported by the broker)",
    value: "none",
  },
  {
    name: "no groups if none are reported",
    page: { asked: ASKED },
    fact: "Groups (reported by the broker)",
    value: undefined,
  },
])("renderDetailPage() shows $name", ({ page, fact, value }) => {
  assert.equal(factsOf(render(page))[fact], value);
});

Deno.test("renderDetailPage() offers approve, deny and learn in a form without script", () => {
  const elements = render();
  const form = elements.find(({ tag }) => tag === "form");
  assert.equal(form?.attributes["method"], "post");
  assert.equal(form?.attributes["action"], "/ui/approvals/00112233445566778899aabbccddeeff");
  assert.equal(form?.attributes["data-api"], "/ui/approvals/00112233445566778899aabbccddeeff");
  assert.deepEqual(buttonsOf(elements), ["approve", "deny", "learn"]);
  const chosen = elements.find(({ attributes }) => "selected" in attributes);
  assert.equal(chosen?.text, "1 hour");
});

Deno.test("renderDetailPage() explains why an approval cannot be learned", () => {
  const elements = render({ nothingToLearn: "<b>it</b> is so" });
  assert.deepEqual(buttonsOf(elements), ["approve", "deny"]);
  assert.match(textOf(elements, "decision"), /can only be approved once: <b>it<\/b> is so\./);
});

Deno.test("renderDetailPage() links to the next pending request", () => {
  const [id, command] = ["ffeeddccbbaa99887766554433221100", `rm <b> ${"x".repeat(300)}`];
  const next = recordOf({ id, command, host: "db01" });
  const elements = render({ approval: recordOf({ ...DECIDED, status: "denied" }), next });
  const link = elements.find(({ attributes }) => attributes["id"] === "next");
  assert.equal(link?.attributes["href"], `/ui/approvals/${id}`);
  const main = elements.find(({ tag }) => tag === "main")?.text ?? "";
  assert.match(main, /Next pending request: rm <b> x{50,200}…? ?.* on db01, time left: 1 min/);
});

Deno.test.each([
  { name: "as broker", approver: "broker-1" },
  { name: "through a trusted broker", approver: "alice" },
])("renderDetailPage() explains why an own request, $name, has no buttons", ({ approver }) => {
  const elements = render({ approver, approval: recordOf({ end_user: "alice" }) });
  assert.deepEqual(buttonsOf(elements), []);
  assert.ok(elements.every(({ tag }) => tag !== "form"));
  assert.match(
    textOf(elements, "decision"),
    /cannot decide your own request\. Another approver has to decide it/,
  );
});

Deno.test.each([
  {
    name: "who denied it and when",
    record: { ...DECIDED, status: "denied", expires_at: undefined } as const,
    text: "Denied by approver-2 30 s ago, on 2026-01-02 03:04:35 UTC.",
  },
  {
    name: "that it waits to be collected",
    record: { ...DECIDED, status: "approved", expires_at: "2026-01-02T03:06:35.000Z" } as const,
    text: "The broker has not collected the result yet; time left: 1 min 30 s.",
  },
  {
    name: "that it was collected",
    record: { ...DECIDED, status: "approved", expires_at: undefined } as const,
    text: "The broker has collected the result.",
  },
  {
    name: "what is to be learned once it is collected",
    record: { ...DECIDED, status: "approved", learn_ttl: 7_200_000_000_000n } as const,
    text: "After the collection, identical requests need no approval for 2 h.",
  },
  {
    name: "for how long it was to be learned",
    record: { ...DECIDED, status: "approved", learn_ttl: 7_200_000_000_000n, expires_at: undefined } as const,
    text:
      "Since the collection, identical requests need no approval for 2 h, or for the signer’s maximum if that is shorter.",
  },
  {
    name: "that nothing was learned of what nobody collected",
    record: { ...DECIDED, status: "expired", learn_ttl: 7_200_000_000_000n, expires_at: undefined } as const,
    text: "not collected in time.Nothing was learned.",
  },
  {
    name: "that nobody decided",
    record: { status: "expired", expires_at: undefined } as const,
    text: "No approver decided in time.",
  },
  {
    name: "that nobody collected it",
    record: { ...DECIDED, status: "expired", expires_at: undefined } as const,
    text: "Approved by approver-2 30 s ago, on 2026-01-02 03:04:35 UTC, but not collected in time.",
  },
])("renderDetailPage() shows $name, and no buttons", ({ record, text }) => {
  const elements = render({ approval: recordOf(record) });
  assert.ok(textOf(elements, "decision").includes(text), textOf(elements, "decision"));
  assert.deepEqual(buttonsOf(elements), []);
});

Deno.test.each([
  { name: "while it is pending", record: {}, seconds: "3" },
  { name: "until it is collected", record: { ...DECIDED, status: "approved" } as const, seconds: "3" },
  {
    name: "no longer once it is final",
    record: { ...DECIDED, status: "denied", expires_at: undefined } as const,
    seconds: "0",
  },
])("renderDetailPage() polls for changes $name", ({ record, seconds }) => {
  const main = render({ approval: recordOf(record) }).find(({ tag }) => tag === "main");
  assert.equal(main?.attributes["data-refresh"], seconds);
});

Deno.test("renderDetailPage() never reloads itself, because that would clear the form", () => {
  assert.ok(render().every(({ attributes }) => attributes["http-equiv"] === undefined));
});

Deno.test("renderDetailPage() shows a problem first and keeps the entered values", () => {
  const elements = render({
    problem: "learn <b>",
    entered: { ttl: "other", amount: '"5', unit: "60", comment: "" },
  });
  const alert = elements.find(({ attributes }) => attributes["role"] === "alert");
  assert.equal(alert?.text, "Decision failed: learn <b>.");
  assert.match(elements.find(({ tag }) => tag === "title")?.text ?? "", /^Failed – Pending: web01/);
  const checked = elements.filter(({ attributes }) => "selected" in attributes);
  assert.deepEqual(checked.map(({ attributes }) => attributes["value"]), ["other", "60"]);
  assert.equal(elements.find(({ attributes }) => attributes["name"] === "amount")?.attributes["value"], '"5');
});

Deno.test("renderDetailPage() shows the manifest warning and the ServiceAccount", () => {
  const approval = recordOf({
    target_type: "k8s",
    account: "system:serviceaccount:gateway:agent",
    addr: "https://10.0.0.1:6443",
    k8s_manifest: "{}",
    k8s_manifest_sha256: "ab".repeat(32),
    k8s_diff: { kind: "unknown", reason: "timed out" },
  });
  const page = renderDetailPage({ approval, approver: "a", now: READ_AT });
  assert.match(page, /<p class="warning">At the time of the request, /);
  assert.doesNotMatch(page, /class=&quot;/);
  assert.match(page, /system:serviceaccount:gateway:agent/);
});
