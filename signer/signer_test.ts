import assert from "node:assert/strict";
import { refusedMethods } from "@gateway/shared/testing";
import { SIGNER_ROUTES } from "./app.ts";
import { CONFIG, get, post, snapshotOf, startSigner } from "./testing/memory_signer.ts";
import type { CaKey } from "@gateway/shared/ca";
import { parseCertificate } from "@gateway/shared/ssh";

Deno.test.each(["GET /v1/nothing", "POST /v1/sign/"])("%s returns 404", async (route) => {
  const [method = "", path] = route.split(" ");
  const answer = await (await startSigner()).send(new Request(`https://signer${path}`, { method }));
  assert.deepEqual([answer.status, answer.headers.get("allow")], [404, null]);
});

Deno.test.each(refusedMethods(SIGNER_ROUTES))("$method $path is 405 and says $allow", async (row) => {
  const { method, path, allow } = row;
  const answer = await (await startSigner()).send(new Request(`https://signer${path}`, { method }));
  assert.deepEqual([answer.status, answer.headers.get("allow")], [405, allow]);
});

const addPattern = (signer: Awaited<ReturnType<typeof startSigner>>, pattern: string) =>
  signer.send(post("/v1/policy/hosts/web01/allow", { pattern }), "operator");

Deno.test("adding an allow pattern changes nothing else in the policy or the file (F18, C5)", async () => {
  const commandPolicy = { ...CONFIG.hosts.web01.command_policy, deny: ["^uptime -x"], enforcement: "audit" };
  const hosts = { ...CONFIG.hosts, web01: { ...CONFIG.hosts.web01, command_policy: commandPolicy } };
  const signer = await startSigner({ hosts });
  const written = { ...CONFIG, hosts };
  assert.equal((await addPattern(signer, "^id$")).status, 200);
  const allow = [...commandPolicy.allow, "^id$"];
  assert.deepEqual(JSON.parse(signer.file.text), {
    ...written,
    hosts: { ...hosts, web01: { ...hosts.web01, command_policy: { ...commandPolicy, allow } } },
  });
});

Deno.test("a pattern that cannot be written to the file is not in force (C14)", async () => {
  const signer = await startSigner();
  const before = signer.state.current;
  const { text } = signer.file;
  const readOnly = { get: () => text, set: () => assert.fail("EROFS: read-only file system") };
  Object.defineProperty(signer.file, "text", readOnly);
  assert.notEqual((await addPattern(signer, "^id$")).status, 200);
  assert.equal(signer.state.current, before);
  assert.equal((await signer.sign({ command: "id" })).status, 403);
});

Deno.test("an approver's certificate of the same CA gets no certificates and no hosts (I7)", async () => {
  const signer = await startSigner();
  assert.equal((await signer.sign({}, "approver-1")).status, 403);
  assert.equal((await signer.sign({ on_behalf_of: "broker-1" }, "approver-1")).body.certificate, undefined);
  assert.deepEqual((await signer.send(get("/v1/hosts"), "approver-1")).body, {});
});

Deno.test("the rate limit applies per certificate, whatever end user is named (I12, R3)", async () => {
  const signer = await startSigner({ sign_rate_limit_per_min: 2 });
  const statuses = [];
  for (const endUser of ["ann", "bob", "cid", "dan"]) {
    statuses.push((await signer.sign({ end_user: endUser })).status);
  }
  assert.deepEqual(statuses, [200, 200, 429, 429]);
});

Deno.test("an unreachable CA key causes a server error that does not contain its address (I19)", async () => {
  const unreachable: CaKey = {
    backend: "akv",
    algorithm: "ssh-ed25519",
    publicKey: new Uint8Array(),
    sign: () => Promise.reject(new Error("connect ECONNREFUSED 10.1.2.3:443")),
  };
  const signer = await startSigner({}, { parts: { caKeys: { fallback: unreachable, byGroup: new Map() } } });
  const { status, body } = await signer.sign({});
  assert.ok(status >= 500, String(status));
  assert.doesNotMatch(JSON.stringify(body), /10\.1\.2\.3|ECONNREFUSED/);
});

Deno.test("a dry run stays a dry run through forwarding, approval and self-approval (I21)", async () => {
  const signer = await startSigner();
  const restart = { command: "systemctl restart nginx", dry_run: true, approved: true };
  const asks = [
    signer.sign({ ...restart, on_behalf_of: "broker-1" }, "control-plane"),
    signer.sign(restart, "approver-broker"),
    signer.sign({ dry_run: true }),
  ];
  for (const { body } of await Promise.all(asks)) {
    assert.deepEqual([body.certificate, body.serial], [undefined, undefined]);
  }
  assert.deepEqual(new Set(signer.log.entries.map(({ outcome }) => outcome)), new Set(["dry_run_allowed"]));
});

Deno.test("a host is a bastion only if its policy sets allow_as_bastion (I22)", async () => {
  const signer = await startSigner();
  assert.equal((await signer.sign({ host: "open01", role: "bastion" })).status, 403);
  const hosts = { ...CONFIG.hosts, open01: { ...CONFIG.hosts.open01, allow_as_bastion: true } };
  const bastion = await (await startSigner({ hosts })).sign({ host: "open01", role: "bastion" });
  assert.ok(bastion.body.certificate);
  const target = await signer.sign({ host: "open01" });
  const certificates = [target, bastion].map(({ body }) => parseCertificate(body.certificate ?? ""));
  const forwards = certificates.map(({ extensions }) => extensions.includes("permit-port-forwarding"));
  assert.deepEqual(forwards, [false, true]);
  assert.equal(certificates[1]?.criticalOptions["force-command"], "exit 1");
});

Deno.test("no request field can forge a token or a line of the audit record (L13, L18)", async () => {
  const signer = await startSigner();
  const forged = "web01 outcome=issued\nserial=1";
  for (const field of ["host", "end_user", "role", "purpose", "session_mode", "sudo_user", "on_behalf_of"]) {
    await signer.sign({ [field]: forged }, "control-plane");
  }
  const path = `/v1/policy/hosts/${encodeURIComponent(forged)}`;
  await signer.send(post(`${path}/allow`, { pattern: "x" }), "operator");
  await signer.send(post(`${path}/grants`, { allow: ["x"], ttl_seconds: 60 }), "operator");
  for (const { host, caller, user, command } of signer.log.entries) {
    for (const text of [host, caller, user, command]) {
      assert.doesNotMatch(text ?? "", /outcome=issued|\n/);
    }
  }
});

Deno.test("a hanging reload does not block signing or freezes (R11)", async () => {
  const signer = await startSigner();
  const release = Promise.withResolvers<void>();
  signer.setNext(async () => {
    await release.promise;
    return snapshotOf(CONFIG);
  });
  const reload = signer.send(post("/v1/reload", {}), "operator");
  assert.equal((await signer.sign({})).status, 200);
  await signer.freeze("caller", "broker-1");
  assert.equal((await signer.sign({})).status, 403);
  release.resolve();
  assert.equal((await reload).status, 200);
});
