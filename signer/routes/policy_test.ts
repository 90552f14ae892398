import assert from "node:assert/strict";
import { CONFIG, get, startSigner } from "../testing/memory_signer.ts";

type Signer = Awaited<ReturnType<typeof startSigner>>;

function edit(signer: Signer, method: "POST" | "DELETE", pattern: unknown, host = "web01", cn = "operator") {
  return signer.send(
    new Request(`https://signer/v1/policy/hosts/${encodeURIComponent(host)}/allow`, {
      method,
      body: JSON.stringify({ pattern }),
      headers: { "content-type": "application/json" },
    }),
    cn,
  );
}

Deno.test("POST and DELETE …/allow change policy and file together", async () => {
  const signer = await startSigner();
  signer.file.text = `// by hand\n${signer.file.text}`;
  assert.deepEqual((await edit(signer, "POST", "^id$")).body, { status: "ok", host: "web01", hosts: 3 });
  assert.equal((await signer.sign({ command: "id" })).status, 200);
  assert.match(signer.file.text, /^\/\/ by hand\n/);
  assert.ok(signer.file.text.includes('"^id$"'));
  await edit(signer, "DELETE", "^id$");
  assert.equal((await signer.sign({ command: "id" })).status, 403);
  assert.ok(!signer.file.text.includes('"^id$"'));
  assert.deepEqual(
    signer.log.entries.filter(({ outcome }) => outcome === "policy-changed").map(({ command, policy_rule }) =>
      `${command} ${policy_rule}`
    ),
    ["policy-allow-add allow:^id$", "policy-allow-remove allow:^id$"],
  );
});

Deno.test("…/allow keeps the comments inside the list, when a pattern comes and when it goes", async () => {
  const signer = await startSigner();
  const commented = '"^uptime$", // INC-1: ann\n          // "^reboot$"\n          /* INC-2 */';
  signer.file.text = signer.file.text.replace('"^uptime$",', commented);
  const before = signer.file.text;
  assert.equal((await edit(signer, "POST", "^id$")).status, 200);
  assert.ok(signer.file.text.includes(commented));
  assert.equal((await edit(signer, "DELETE", "^id$")).status, 200);
  assert.equal(signer.file.text, before, "as it was, to the letter");
});

Deno.test("the first allow rule makes a host an allowlist, and removing the last denies everything", async () => {
  const signer = await startSigner();
  assert.equal((await signer.sign({ host: "open01", command: "id" })).status, 200);
  await edit(signer, "POST", "^uptime$", "open01");
  assert.equal((await signer.sign({ host: "open01", command: "id" })).status, 403);
  assert.equal((await signer.sign({ host: "open01", command: "uptime" })).status, 200);
  await edit(signer, "DELETE", "^uptime$", "open01");
  assert.equal((await signer.sign({ host: "open01", command: "uptime" })).status, 403);
});

Deno.test.each(
  [
    { name: "a missing pattern", method: "POST", pattern: undefined, status: 400 },
    { name: "an empty pattern", method: "POST", pattern: "", status: 400 },
    {
      name: "a bad pattern, also on an unknown host",
      method: "POST",
      pattern: "(",
      host: "web02",
      status: 400,
    },
    { name: "an unknown host", method: "POST", pattern: "^id$", host: "web02", status: 404 },
    {
      name: "a host by the name of an object's member",
      method: "POST",
      pattern: "^id$",
      host: "constructor",
      status: 404,
    },
    { name: "a pattern that is there", method: "POST", pattern: "^uptime$", status: 409 },
    { name: "the removal of one that is not", method: "DELETE", pattern: "^id$", status: 409 },
  ] as const,
)("…/allow refuses $name", async ({ method, pattern, status, ...row }) => {
  const signer = await startSigner();
  const before = signer.file.text;
  const answer = await edit(signer, method, pattern, "host" in row ? row.host : "web01");
  assert.equal(answer.status, status, String(answer.body.detail));
  assert.equal(signer.file.text, before);
});

Deno.test("…/allow without a body and a type is 400", async () => {
  const signer = await startSigner();
  const request = new Request("https://signer/v1/policy/hosts/web01/allow", { method: "POST" });
  assert.equal((await signer.send(request, "operator")).status, 400);
});

Deno.test("…/allow is for admins, and audited when it is not one", async () => {
  const signer = await startSigner();
  assert.equal((await edit(signer, "POST", "^id$", "web01", "broker-1")).status, 403);
  assert.equal(signer.log.entries[0]?.outcome, "policy-denied");
});

Deno.test("…/allow fails as a whole on a denylist, whose new config would not load", async () => {
  const hosts = {
    ...CONFIG.hosts,
    deny01: {
      ...CONFIG.hosts.open01,
      principal: "host:deny01",
      command_policy: { mode: "denylist", deny: ["rm"] },
    },
  };
  const signer = await startSigner({ hosts });
  const before = signer.file.text;
  assert.equal((await edit(signer, "POST", "^id$", "deny01")).status, 500);
  assert.equal(signer.file.text, before);
  assert.equal(signer.log.entries.at(-1)?.outcome, "policy-failed");
});

Deno.test("…/allow changes neither policy nor file when it can't be recorded", async () => {
  const signer = await startSigner();
  const before = signer.file.text;
  signer.log.failing = true;
  assert.equal((await edit(signer, "POST", "^id$")).body.detail, "audit unavailable");
  signer.log.failing = false;
  assert.equal(signer.file.text, before);
  assert.equal((await signer.sign({ command: "id" })).status, 403);
});

Deno.test("…/allow edits what the file says, not what was loaded from it", async () => {
  const signer = await startSigner();
  signer.file.text = signer.file.text.replace('"^uptime$"', '"^uptime$",\n"^whoami$"');
  await edit(signer, "POST", "^id$");
  assert.ok(signer.file.text.includes('"^whoami$"'));
  assert.equal((await signer.sign({ command: "whoami" })).status, 200);
});

Deno.test("…/allow whose file changes while it is recorded takes the record back, and is made on the new text", async () => {
  const signer = await startSigner();
  const append = signer.log.append.bind(signer.log);
  let edits = 0;
  signer.log.append = async (entry) => {
    await append(entry);
    if (edits++ === 0) signer.file.text = signer.file.text.replace('"^uptime$"', '"^whoami$"');
  };
  assert.equal((await edit(signer, "POST", "^id$")).status, 200);
  assert.ok(signer.file.text.includes('"^whoami$"') && signer.file.text.includes('"^id$"'));
  assert.deepEqual(signer.log.entries.map(({ outcome }) => outcome), [
    "policy-changed",
    "policy-failed",
    "policy-changed",
  ]);
});

Deno.test("concurrent edits all end up in the policy and in the file (K23)", async () => {
  const signer = await startSigner();
  const patterns = Array.from({ length: 8 }, (_, i) => `^echo ${i}$`);
  const answers = await Promise.all(patterns.map((pattern) => edit(signer, "POST", pattern)));
  assert.deepEqual(answers.map(({ status }) => status), patterns.map(() => 200));
  for (const [i, pattern] of patterns.entries()) {
    assert.ok(signer.file.text.includes(JSON.stringify(pattern)), pattern);
    assert.equal((await signer.sign({ command: `echo ${i}` })).status, 200, pattern);
  }
});

Deno.test("GET /v1/policy/hosts shows the whole host policy to admins alone", async () => {
  const signer = await startSigner();
  const { body } = await signer.send(get("/v1/policy/hosts"), "operator");
  assert.deepEqual(body["web01"], CONFIG.hosts.web01);
  assert.deepEqual(body["db01"], { ...CONFIG.hosts.db01, command_policy: {} });
  assert.equal((await signer.send(get("/v1/policy/hosts"))).status, 403);
  assert.equal((await signer.send(get("/v1/policy/hosts"), "control-plane")).status, 403);
  assert.deepEqual(signer.log.entries.map(({ outcome, command }) => `${outcome} ${command}`), [
    "policy-read policy-hosts-read hosts=3",
    "policy-read-denied policy-hosts-read",
    "policy-read-denied policy-hosts-read",
  ]);
});
