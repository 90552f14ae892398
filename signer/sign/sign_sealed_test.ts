import assert from "node:assert/strict";
import { createEnvelopeKey } from "@gateway/shared/envelope";
import { parseCertificate } from "@gateway/shared/ssh";
import { logEnvelopeKey, snapshotWarnings } from "../config/warnings.ts";
import { recorded } from "../testing/live_state_scene.ts";
import { CONFIG, NOW_MS, snapshotOf, startSigner } from "../testing/memory_signer.ts";

const envelopeKey = createEnvelopeKey(new Uint8Array(32).fill(1));
const HOSTS = {
  ...CONFIG.hosts,
  sealed01: { ...CONFIG.hosts.web01, principal: "host:sealed01", sealed_exec: true, envelope: "v1" },
  sealed02: {
    ...CONFIG.hosts.open01,
    principal: "host:sealed02",
    sealed_exec: true,
    stop_on_disconnect: true,
    allow_pty: true,
    allow_as_bastion: true,
  },
  watched: {
    ...CONFIG.hosts.web01,
    principal: "host:watched",
    sealed_exec: true,
    envelope: "v1",
    command_policy: { ...CONFIG.hosts.web01.command_policy, enforcement: "audit" },
  },
};
const SESSION = { purpose: "session", session_mode: "exec", command: "" };
const PREFLIGHT = { host: "sealed01", ...SESSION, command: "uptime", dry_run: true, preflight: true };

const startSealed = () =>
  startSigner({ hosts: HOSTS, envelope_key: "envelope.seed" }, { parts: { envelopeKey } });

function commandIn(envelope: unknown): string {
  const [first = "", signature] = String(envelope).split(".");
  const text = new TextDecoder().decode(Uint8Array.fromBase64(first, { alphabet: "base64url" }));
  return signature === undefined ? JSON.parse(text).c : text.split("\n").slice(3).join("\n");
}

Deno.test("POST /v1/sign gives a preflight on a sealed host the command in an envelope, for 30 seconds", async () => {
  const signer = await startSealed();
  const { status, body } = await signer.sign(PREFLIGHT);
  assert.equal(status, 200);
  assert.equal(body.decision?.["allowed"], true);
  const wire = Uint8Array.fromBase64(String(body["envelope"]), { alphabet: "base64url" });
  const { n, h, c, e } = JSON.parse(new TextDecoder().decode(wire));
  assert.deepEqual({ n, h, c, e }, {
    n: "fe".repeat(16),
    h: "sealed01",
    c: "uptime",
    e: NOW_MS / 1000 + 30,
  });
  assert.equal("certificate" in body, false);
  assert.equal(signer.log.entries.at(-1)?.outcome, "dry_run_allowed");
});

Deno.test.each([
  ["elevated as the shell gets it", { sudo: true }, "sudo -n -- uptime"],
  [
    "in v2, where that is what the host's shim understands",
    { host: "sealed02", command: "printf 'a\nb'" },
    undefined,
  ],
  ["under audit mode, though it would deny", { host: "watched", command: "id" }, "id"],
])("POST /v1/sign seals a command %s", async (_name, fields, command) => {
  const { body } = await (await startSealed()).sign({ ...PREFLIGHT, ...fields });
  assert.equal(typeof body["envelope"], "string", JSON.stringify(body));
  if (command !== undefined) return assert.equal(commandIn(body["envelope"]), command);
  assert.match(commandIn(body["envelope"]), /printf/);
  assert.notEqual(commandIn(body["envelope"]), fields.command, "it watches its standard input");
});

Deno.test("POST /v1/sign says in an envelope of v3 what the command may read", async () => {
  const sealed03 = {
    ...HOSTS.sealed01,
    principal: "host:sealed03",
    envelope: "v3",
    allow_file_transfer: true,
  };
  const hosts = { ...HOSTS, sealed03 };
  const signer = await startSigner({ hosts, envelope_key: "envelope.seed" }, { parts: { envelopeKey } });
  const digest = "ab".repeat(32);
  const stdins = [];
  for (const fields of [{}, { content_sha256: digest }, { content_sha256: digest, file_transfer: true }]) {
    const { body } = await signer.sign({ ...PREFLIGHT, host: "sealed03", ...fields });
    const [prefix, message = ""] = String(body["envelope"]).split(".");
    const text = new TextDecoder().decode(Uint8Array.fromBase64(message, { alphabet: "base64url" }));
    stdins.push([prefix, ...text.split("\n").slice(3)]);
  }
  assert.deepEqual(stdins, [["v3", "none", "uptime"], ["v3", "none", "uptime"], ["v3", digest, "uptime"]]);
});

Deno.test.each([
  ["a pure dry run", { preflight: false }],
  ["a session's opening", { dry_run: false, preflight: false, command: "" }],
  ["a preflight that is not a dry run", { dry_run: false }],
  ["a preflight without a command", { command: "" }],
  ["a denied command", { command: "id" }],
  ["a command that waits for a human", { command: "systemctl restart nginx" }],
  ["such a command that is said to be approved", { command: "systemctl restart nginx", approved: true }],
  ["a one-shot", { purpose: "oneshot", session_mode: "" }],
  ["a bastion", { host: "sealed02", role: "bastion" }],
  ["a host that is not sealed", { host: "web01" }],
])("POST /v1/sign makes no envelope for %s", async (_name, fields) => {
  const signer = await startSealed();
  for (const cn of ["broker-1", "approver-broker"]) {
    const { body } = await signer.sign({ ...PREFLIGHT, ...fields }, cn);
    assert.equal("envelope" in body, false);
  }
});

Deno.test("POST /v1/sign makes no envelope for an approved preflight of a control plane", async () => {
  const fields = {
    ...PREFLIGHT,
    command: "systemctl restart nginx",
    approved: true,
    on_behalf_of: "broker-1",
  };
  const { body } = await (await startSealed()).sign(fields, "control-plane");
  assert.equal(body.decision?.["require_approval"], true);
  assert.equal("envelope" in body, false);
});

Deno.test("POST /v1/sign makes an envelope for a command that is spared its approval", async () => {
  const signer = await startSealed();
  const oneShot = { ...PREFLIGHT, purpose: "oneshot", session_mode: "", dry_run: false, preflight: false };
  const learned = { approved: true, learn_ttl_seconds: 60, learn_approver: "boss", learn_approval_id: "a1" };
  const command = { command: "systemctl restart nginx", on_behalf_of: "broker-1" };
  const issued = await signer.sign({ ...oneShot, ...command, ...learned }, "control-plane");
  assert.equal(typeof issued.body.certificate, "string");
  const { body } = await signer.sign({ ...PREFLIGHT, ...command }, "control-plane");
  assert.equal(commandIn(body["envelope"]), "systemctl restart nginx");
});

Deno.test("POST /v1/sign gives every preflight an envelope of its own", async () => {
  const hosts = { hosts: HOSTS, envelope_key: "envelope.seed" };
  const signer = await startSigner(hosts, { parts: { envelopeKey }, randomBytes: [...Array(251).keys()] });
  const nonces = new Set<unknown>();
  for (let n = 0; n < 5; n++) nonces.add((await signer.sign(PREFLIGHT)).body["envelope"]);
  assert.equal(nonces.size, 5);
});

Deno.test("POST /v1/sign locks the certificate of a sealed host's session to its shim", async () => {
  const { body } = await (await startSealed()).sign({ host: "sealed01", ...SESSION, sudo: true });
  const certificate = parseCertificate(String(body.certificate));
  assert.equal(certificate.criticalOptions["force-command"], "gateway-shim sealed01");
  assert.equal(body["elevation_prefix"], "sudo -n");
});

Deno.test.each([{ session_mode: "shell" }, { session_mode: "pty", pty: true }, { session_mode: "" }])(
  "POST /v1/sign refuses $session_mode on a sealed host, also one without rules",
  async (fields) => {
    const { status, body } = await (await startSealed()).sign({ host: "sealed02", ...SESSION, ...fields });
    assert.equal(status, 403);
    assert.match(String(body.detail), /has sealed_exec: sessions require mode="exec"/);
  },
);

Deno.test("an envelope is withheld when its record can't be written, and when the caller is frozen meanwhile", async () => {
  const signer = await startSealed();
  signer.log.failing = true;
  const { status, body } = await signer.sign(PREFLIGHT);
  assert.equal(status, 500);
  assert.equal("envelope" in body, false);
  signer.log.failing = false;
  const append = signer.log.append.bind(signer.log);
  signer.log.append = async (entry) => {
    await append(entry);
    if (entry.outcome === "dry_run_allowed") {
      const subject = { kind: "caller", value: "broker-1" } as const;
      await signer.live.freeze({ ...subject, reason: "", frozenBy: "operator" }, recorded);
    }
  };
  const frozen = await signer.sign(PREFLIGHT);
  assert.equal(frozen.body.code, "frozen");
  assert.equal("envelope" in frozen.body, false);
});

Deno.test("a sealed host without envelope_key is a load error that names the host", () => {
  assert.throws(
    () => snapshotOf({ ...CONFIG, hosts: HOSTS }),
    /hosts\.sealed01\.sealed_exec: needs envelope_key[^]*hosts\.sealed02\.sealed_exec/,
  );
  assert.ok(snapshotOf({ ...CONFIG, hosts: { web01: { ...CONFIG.hosts.web01, sealed_exec: false } } }));
});

Deno.test("an unsealed name of a sealed account, and principals that are shared, are warned of", () => {
  const { web01 } = CONFIG.hosts;
  const hosts = {
    web01: { ...web01, shared_principal: true },
    sealed01: { ...web01, shared_principal: true, sealed_exec: true },
  };
  const warnings = snapshotWarnings(snapshotOf({ ...CONFIG, hosts, envelope_key: "seed" }, { envelopeKey }));
  assert.ok(warnings.some((text) => text.startsWith("hosts.web01: is not sealed and is the account of")));
  assert.ok(warnings.some((text) => text.startsWith('2 hosts share the principal "host:web01"')));
});

Deno.test("the public key is logged where a host is sealed, and nowhere else", () => {
  const logged: unknown[] = [];
  const logger = { info: (message: string, fields?: unknown) => void logged.push([message, fields]) };
  logEnvelopeKey(snapshotOf({ ...CONFIG, envelope_key: "seed" }, { envelopeKey }), logger);
  assert.deepEqual(logged, []);
  logEnvelopeKey(snapshotOf({ ...CONFIG, hosts: HOSTS, envelope_key: "seed" }, { envelopeKey }), logger);
  assert.deepEqual(logged, [["envelope public key", {
    envelope_public_key: "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=",
    envelope_signers: 'signer namespaces="gateway-sealed-exec-v2,gateway-sealed-exec-v3" ssh-ed25519 ' +
      "AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c",
  }]]);
});

Deno.test("a sealed host without envelope is warned of, with how to set v1", () => {
  const { envelope: _, ...silent } = HOSTS.sealed01;
  const warningsOf = (sealed01: object) =>
    snapshotWarnings(
      snapshotOf({ ...CONFIG, hosts: { ...HOSTS, sealed01 }, envelope_key: "seed" }, { envelopeKey }),
    )
      .filter((text) => text.startsWith("sealed_exec without envelope"));
  assert.match(
    warningsOf(silent).join(),
    /hosts sealed01[,)].*set "envelope": "v1" and its "envelope_domain"/,
  );
  assert.doesNotMatch(warningsOf({ ...silent, envelope: "v2" }).join(), /sealed01/);
});

Deno.test("POST /v1/sign withholds an envelope if a reload requires approval meanwhile, also of an approved preflight", async () => {
  const signer = await startSealed();
  const { sealed01 } = HOSTS;
  const command_policy = { ...sealed01.command_policy, require_approval: ["^uptime$"] };
  const hosts = { ...HOSTS, sealed01: { ...sealed01, command_policy } };
  const config = { ...CONFIG, hosts, envelope_key: "envelope.seed" };
  signer.setNext(() => Promise.resolve(snapshotOf(config, { envelopeKey })));
  const append = signer.log.append.bind(signer.log);
  signer.log.append = async (entry) => {
    await append(entry);
    if (entry.outcome === "dry_run_allowed") await signer.state.reload("operator");
  };
  const fields = { ...PREFLIGHT, on_behalf_of: "broker-1", approved: true };
  const { body } = await signer.sign(fields, "control-plane");
  assert.deepEqual([body.detail, body["envelope"]], ["it needs an approval now", undefined]);
});
