import assert from "node:assert/strict";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { join } from "node:path";
import { createFolder, names, run, words } from "./ctl_fixture.ts";
import { tryLockFile } from "@gateway/shared/files";

async function setUp(...initFlags: string[]) {
  const folder = await createFolder();
  const { exit, err } = await run(folder.path, "init", "--dir=.", ...initFlags);
  assert.deepEqual([exit, err], [0, ""]);
  const at = (path: string) => join(folder.path, path);
  const pki = (name: string) => at(`pki/${name}`);
  return {
    ...folder,
    at,
    pki,
    identity: (...args: string[]) => run(folder.path, "identity", ...args),
    cert: async (name: string) => new X509Certificate(await Deno.readTextFile(pki(`${name}.crt`))),
    read: (path: string) => Deno.readTextFile(at(path)),
    write: (path: string, text: string) => Deno.writeTextFile(at(path), text),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

const DAY_MS = 86_400_000;
const daysOf = ({ validFrom, validTo }: X509Certificate) =>
  Math.round((Date.parse(validTo) - Date.parse(validFrom)) / DAY_MS);

Deno.test("init issues certificates for 90 days, a CA for ten years and a renewal unit", async () => {
  await using it = await setUp();
  assert.equal(daysOf(await it.cert("broker")), 90);
  assert.equal(daysOf(await it.cert("mtls_ca")), 3653);
  assert.match(await it.read("systemd/gateway-renew.service"), /"identity" "renew" "--due" "--config"/);
});

Deno.test("init --name creates listeners for other machines and a CA limited to that name", async () => {
  await using it = await setUp("--name", "gw.example.org", "--listen", "0.0.0.0");
  assert.match((await it.cert("signer")).subjectAltName ?? "", /DNS:gw\.example\.org/);
  const [signer, client] = [await it.read("signer.json"), await it.read("broker-ctl.json")];
  assert.match(signer, /"listen": "0\.0\.0\.0:9443"/);
  assert.match(signer, /"monitor_listen": "127\.0\.0\.1:9160"/);
  assert.match(client, /"url": "127\.0\.0\.1:7443"/);
  assert.match(await it.read("control-plane.json"), /https:\/\/gw\.example\.org:7443\/ui\/approvals/);
  const { err, exit } = await it.identity("add", "signer", "s2", "--san", "evil.example.org");
  assert.equal(exit, 2);
  assert.match(err, /Cannot issue a certificate for "evil\.example\.org"/);
  const good = await it.identity("add", "signer", "s2", "--san", "a.gw.example.org");
  assert.deepEqual([good.err, good.exit], ["", 0]);
});

Deno.test("init rejects a public --listen without --name", async () => {
  await using folder = await createFolder();
  const { err, exit } = await run(folder.path, "init", "--dir=.", "--listen", "0.0.0.0");
  assert.match(err, /pass --name for other machines/);
  assert.equal(exit, 2);
});

Deno.test("identity add issues a key and certificate, and identity list shows them", async () => {
  await using it = await setUp();
  const { exit, err } = await it.identity("add", "agent", "agent-7", "--days", "10");
  assert.deepEqual([exit, err], [0, ""]);
  const certificate = await it.cert("agent-7");
  assert.equal(certificate.toLegacyObject().subject?.CN, "agent-7");
  assert.ok(certificate.verify((await it.cert("mtls_ca")).publicKey));
  assert.ok(certificate.checkPrivateKey(createPrivateKey(await Deno.readTextFile(it.pki("agent-7.key")))));
  assert.equal(((await Deno.stat(it.pki("agent-7.key"))).mode ?? 0) & 0o777, 0o600);
  const rows = JSON.parse((await it.identity("list", "--json")).out);
  const row = rows.find(({ name }: { name: string }) => name === "agent-7");
  assert.deepEqual([row.kind, row.cn, row.key_is_here], ["agent", "agent-7", true]);
  assert.match(row.state, /^expires in 9 days/);
  assert.equal(rows.find(({ name }: { name: string }) => name === "operator").kind, "operator");
});

Deno.test("identity add adds each kind of name to the configs", async () => {
  await using it = await setUp();
  const add = async (kind: string, name: string) => {
    const { out, err, exit } = await it.identity("add", kind, name);
    assert.deepEqual([err, exit], ["", 0]);
    return out;
  };
  await add("operator", "olga");
  await add("approver", "ann");
  await add("control-plane", "cp2");
  const next = await add("broker", "broker-2");
  assert.match(await it.read("signer.json"), /"reload_callers": \["operator-local", "olga"\]/);
  assert.match(await it.read("signer.json"), /"trusted_forwarders": \["control-plane-local", "cp2"\]/);
  assert.match(await it.read("control-plane.json"), /"callers": \["approver-local", "ann"\]/);
  assert.match(await it.read("control-plane.json"), /"sign_callers": \["broker-local", "broker-2"\]/);
  assert.match(next, /callers add --name broker-2 --groups GROUPS --only-via control-plane-local,cp2/);
});

Deno.test("identity add does not add a broker to an empty sign_callers", async () => {
  await using it = await setUp();
  const text = (await it.read("control-plane.json")).replace(/(?<="sign_callers": \[)"broker-local"/, "");
  await it.write("control-plane.json", text);
  const { out, exit } = await it.identity("add", "broker", "broker-2");
  assert.equal(exit, 0);
  assert.doesNotMatch(out, /sign_callers/);
  assert.equal(await it.read("control-plane.json"), text);
  assert.match(text, /"sign_callers": \[\]/);
});

Deno.test.each([
  {
    name: "the rights of an operator for an agent",
    args: "agent operator-local",
    text: /rights of a operator/,
  },
  { name: "the rights of an approver for an operator", args: "operator approver-local", text: /approver/ },
  {
    name: "a name that has a certificate",
    args: "agent agent-local",
    text: /Cannot add "agent-local": ".*agent\.crt" exists/,
  },
  { name: "a name that is a path", args: "agent ../x", text: /Cannot use name "..\/x"/ },
  { name: "a name of a host's", args: "agent web01.krl", text: /without the suffix .krl of hosts/ },
  { name: "another word for a kind", args: "root x", text: /Allowed choices are agent/ },
  {
    name: "names for whom nobody connects to",
    args: "agent x --san localhost",
    text: /'--san' has no effect for kind agent/,
  },
  { name: "a bundle without the key", args: "agent x --p12 --csr f", text: /Cannot use --p12 with --csr/ },
  { name: "an invalid request", args: "agent x --csr signer.json", text: /expected a PKCS #10 request/ },
  { name: "the CA key of another CA", args: "agent x --ca-key pki/agent.key", text: /does not belong/ },
  { name: "a CA key that is not there", args: "agent x --ca-key no.key", text: /Cannot read the CA's key/ },
])("identity add rejects $name and creates no files", async ({ args, text }) => {
  await using it = await setUp();
  const before = [await names(it.pki(".")), await it.read("signer.json")];
  const { err, exit } = await it.identity("add", ...words(args));
  assert.notEqual(exit, 0);
  assert.match(err, text);
  assert.deepEqual([await names(it.pki(".")), await it.read("signer.json")], before);
});

Deno.test("identity request creates the key, and identity add --csr the certificate", async () => {
  await using it = await setUp();
  await using elsewhere = await createFolder();
  assert.equal((await run(elsewhere.path, "identity", "request", "agent-8", "--out", "its/own")).exit, 0);
  const csr = join(elsewhere.path, "its/own/agent-8.csr");
  assert.equal((await it.identity("add", "agent", "agent-8", "--csr", csr)).exit, 0);
  assert.ok(!(await names(it.pki("."))).includes("agent-8.key"));
  const key = createPrivateKey(await Deno.readTextFile(join(elsewhere.path, "its/own/agent-8.key")));
  assert.ok((await it.cert("agent-8")).checkPrivateKey(key));
  assert.equal((await it.identity("renew", "agent-8")).exit, 0);
  assert.ok((await it.cert("agent-8")).checkPrivateKey(key));
});

Deno.test("identity add resumes an interrupted attempt and reuses the key", async () => {
  await using it = await setUp();
  await it.identity("add", "agent", "agent-7");
  await Deno.remove(it.pki("agent-7.crt"));
  assert.equal((await it.identity("add", "agent", "agent-7")).exit, 0);
  const key = createPrivateKey(await Deno.readTextFile(it.pki("agent-7.key")));
  assert.ok((await it.cert("agent-7")).checkPrivateKey(key));
});

Deno.test("identity renew --due renews expiring certificates and keeps key, name and usage", async () => {
  await using it = await setUp();
  await it.identity("add", "broker", "b2", "--days", "20");
  const before = await it.cert("b2");
  const untouched = await it.read("pki/agent.crt");
  const { out, err, exit } = await it.identity("renew", "--due");
  assert.deepEqual([err, exit], ["", 0]);
  assert.match(out, /^b2 renewed until [-0-9]+T[0-9:]+Z/);
  const after = await it.cert("b2");
  assert.ok(Date.parse(after.validTo) - Date.parse(before.validTo) > 60 * DAY_MS);
  const facts = ({ subject, subjectAltName, publicKey }: X509Certificate) => [
    subject,
    subjectAltName,
    publicKey.export({ type: "spki", format: "pem" }),
  ];
  assert.deepEqual(facts(after), facts(before));
  assert.equal(await it.read("pki/agent.crt"), untouched);
  assert.match((await it.identity("renew", "--due")).out, /no certificate expires soon/);
});

Deno.test("identity renew rejects and reports certificates that are invalid or from another CA", async () => {
  await using it = await setUp();
  await using foreign = await setUp();
  const planted = await foreign.read("pki/operator.crt");
  await Deno.writeTextFile(it.pki("planted.crt"), planted);
  await Deno.writeTextFile(it.pki("torn.crt"), planted.slice(0, 200));
  const problems = { planted: /no CA of client_ca signed it/, torn: /it is not a certificate/ };
  for (const [name, why] of Object.entries(problems)) {
    const before = await Deno.readTextFile(it.pki(`${name}.crt`));
    const { out, exit } = await it.identity("renew", name);
    assert.equal(exit, 1);
    assert.match(out, why);
    assert.equal(await Deno.readTextFile(it.pki(`${name}.crt`)), before);
  }
});

Deno.test("identity renew switches to a new CA in client_ca, within its name constraints", async () => {
  await using it = await setUp("--name", "gw.example.org");
  await using next = await setUp("--name", "gw.example.org");
  await using other = await setUp("--name", "other.example.org");
  const former = await it.read("pki/mtls_ca.crt");
  const renewWith = (folder: typeof next) =>
    it.identity("renew", "signer", "broker", "--ca-key", folder.pki("mtls_ca.key"));

  assert.match((await renewWith(next)).err, /the CA/);
  await Deno.writeTextFile(it.pki("mtls_ca.crt"), former + await next.read("pki/mtls_ca.crt"));
  const { err, exit } = await renewWith(next);
  assert.deepEqual([err, exit], ["", 0]);
  for (const name of ["signer", "broker"]) {
    const [cert, key] = [await it.cert(name), createPrivateKey(await it.read(`pki/${name}.key`))];
    assert.ok(cert.verify((await next.cert("mtls_ca")).publicKey), name);
    assert.ok(cert.checkPrivateKey(key), name);
  }
  await Deno.writeTextFile(it.pki("mtls_ca.crt"), former + await other.read("pki/mtls_ca.crt"));
  assert.match(
    (await it.identity("renew", "signer", "--ca-key", other.pki("mtls_ca.key"))).out,
    /no CA of client_ca/,
  );
  const { out } = await it.identity("renew", "broker-server", "--ca-key", other.pki("mtls_ca.key"));
  assert.match(out, /Cannot issue a certificate for "gw\.example\.org"/);
});

Deno.test("identity revoke adds the name to denied_callers permanently", async () => {
  await using it = await setUp();
  await it.identity("add", "agent", "agent-7");
  const { out, exit } = await it.identity("revoke", "agent-7", "--no-freeze", "--reason", "INC-42");
  assert.deepEqual([exit, out.includes("warning")], [0, false]);
  assert.match(await it.read("pki/denied_callers"), /^# .*\n# \S+ INC-42\nagent-7\n$/);
  assert.equal((await it.identity("revoke", "agent-7", "--no-freeze")).exit, 0);
  for (const args of [["add", "agent", "agent-7"], ["renew", "agent-7"]]) {
    const refused = await it.identity(...args);
    assert.match(refused.err, /was revoked/);
  }
  const rows = JSON.parse((await it.identity("list", "--json")).out);
  assert.equal(rows.find(({ name }: { name: string }) => name === "agent-7").state, "revoked");
});

Deno.test("identity revoke denies the name and reports the failure if the freeze fails", async () => {
  await using it = await setUp();
  const { out, exit } = await it.identity("revoke", "agent-local", "--client-config", "broker-ctl.json");
  assert.equal(exit, 1);
  assert.match(out, /added to .*denied_callers/);
  assert.match(out, /NOT frozen/);
});

Deno.test("identity revoke reports a name that denied_callers cannot contain as NOT added", async () => {
  await using it = await setUp();
  const before = await it.read("pki/denied_callers");
  // A comment for people who read the list.
  const { out, exit } = await it.identity("revoke", "#agent-7", "--no-freeze", "--force");
  assert.equal(exit, 1);
  assert.match(out, /NOT added to .*Cannot add "#agent-7" to denied_callers/);
  assert.equal(await it.read("pki/denied_callers"), before);
});

Deno.test("identity revoke does not freeze or deny an unknown CN without --force", async () => {
  await using it = await setUp();
  const before = await it.read("pki/denied_callers");
  const { err, exit } = await it.identity("revoke", "agent-locla");
  assert.match(
    err,
    /no certificate and no config has this CN \(did you mean "agent-local"\?\)\nfix: .*--force/,
  );
  assert.deepEqual([exit, await it.read("pki/denied_callers")], [1, before]);
});

Deno.test("identity revoke rejects a truncated denied_callers", async () => {
  await using it = await setUp();
  await Deno.writeTextFile(it.pki("denied_callers"), "agent-1\nage");
  const { err, exit } = await it.identity("revoke", "x", "--no-freeze");
  assert.equal(exit, 1);
  assert.match(err, /may be incomplete/);
});

Deno.test("commands that read a config warn of a certificate that expires within 14 days", async () => {
  await using it = await setUp();
  const quiet = await run(it.path, "host", "list");
  assert.equal(quiet.err, "");
  await it.identity("renew", "signer", "--days", "5");
  const { out, err, exit } = await run(it.path, "host", "list");
  assert.deepEqual([out, exit], [quiet.out, 0]);
  assert.match(
    err,
    /^warning: certificate ".*signer\.crt" expires in 4 days, at 20.*: broker-ctl identity renew\n$/,
  );
});

Deno.test.each([
  { kind: "operator", name: "olga", config: "signer.json" },
  { kind: "approver", name: "ann", config: "control-plane.json" },
])("identity add of an $kind resumes if the config entry is missing", async (row) => {
  await using it = await setUp();
  const before = await it.read(row.config);
  const add = () => it.identity("add", row.kind, row.name);
  assert.equal((await add()).exit, 0);
  const certificate = await it.read(`pki/${row.name}.crt`);
  await it.write(row.config, before);
  const again = await add();
  assert.deepEqual([again.exit, again.err], [0, ""]);
  assert.notEqual(await it.read(row.config), before);
  assert.equal(await it.read(`pki/${row.name}.crt`), certificate, "no second certificate");
  assert.match((await add()).err, /Cannot add ".*": ".*\.crt" (?:exists|is another certificate)/);
});

Deno.test("identity add --out resumes after an interrupted copy and does not accept another certificate", async () => {
  await using it = await setUp();
  await Deno.mkdir(it.at("usb"));
  const add = () => it.identity("add", "agent", "agent-8", "--out", it.at("usb"));
  assert.equal((await add()).exit, 0);
  const certificate = await it.read("usb/agent-8.crt");
  assert.match((await add()).err, /Cannot add "agent-8": ".*\.crt" exists/);
  for (const lost of ["pki/agent-8.crt", "usb/agent-8.crt"]) {
    await Deno.remove(it.at(lost));
    const again = await add();
    assert.deepEqual([again.exit, again.err], [0, ""], lost);
    assert.equal(await it.read(lost), certificate);
  }
  await Deno.remove(it.at("pki/agent-8.crt"));
  await Deno.copyFile(it.at("pki/agent.crt"), it.at("usb/agent-8.crt"));
  const other = await add();
  assert.equal(other.exit, 1);
  assert.match(other.err, /agent-8\.crt" is another certificate/);
});

Deno.test("of 20 concurrent revocations, only names reported as added are in denied_callers", async () => {
  await using it = await setUp();
  const names = Array.from({ length: 20 }, (_, index) => `agent-${index}`);
  const results = await Promise.all(
    names.map((name) => it.identity("revoke", name, "--no-freeze", "--force")),
  );
  const listed = (await it.read("pki/denied_callers")).split("\n");
  results.forEach(({ exit, out }, index) => {
    const name = names[index] ?? "";
    assert.equal(listed.includes(name), exit === 0, name);
    if (exit !== 0) {
      assert.match(out, /NOT added to .*another process (?:is editing|changed) it[^]*try again/);
    }
  });
  assert.ok(results.some(({ exit }) => exit === 0));
});

Deno.test("identity revoke completes the possible half and prints the command for the other", async () => {
  await using it = await setUp();
  const unfrozen = await it.identity("revoke", "agent-1", "--force", "--url", "127.0.0.1:1");
  assert.equal(unfrozen.exit, 1);
  assert.match(
    unfrozen.out,
    /added to .*denied_callers[^]*NOT frozen: [^]*broker-ctl freeze --caller agent-1/,
  );
  using _lock = await tryLockFile(it.at("pki/denied_callers"));
  const unlisted = await it.identity("revoke", "agent-2", "--no-freeze", "--force");
  assert.equal(unlisted.exit, 1);
  assert.match(unlisted.out, /NOT added to .*run broker-ctl identity revoke agent-2 again/);
});

const COMMANDS = [
  ["add", "agent", "agent-7"],
  ["renew", "broker"],
  ["revoke", "agent", "--no-freeze"],
] as const;

Deno.test("identity fails as root if another user can write to the directory (as root)", {
  ignore: Deno.uid() !== 0,
}, async () => {
  await using it = await setUp();
  const state = async () => [
    await Array.fromAsync(Deno.readDir(it.at("pki")), ({ name }) => name),
    await it.read("pki/broker.crt"),
    await it.read("pki/denied_callers"),
  ];
  const before = await state();
  const spoil: readonly (readonly [() => Promise<void>, () => Promise<void>])[] = [
    [() => Deno.chown(it.at("pki"), 1234, 1234), () => Deno.chown(it.at("pki"), 0, 0)],
    [() => Deno.chmod(it.at("pki"), 0o777), () => Deno.chmod(it.at("pki"), 0o700)],
    [() => Deno.chown(it.path, 1234, 1234), () => Deno.chown(it.path, 0, 0)],
  ];
  for (const [worse, better] of spoil) {
    await worse();
    for (const args of COMMANDS) {
      const { exit, err } = await it.identity(...args);
      assert.equal(exit, 1, args.join(" "));
      assert.match(err, /Cannot work as root with .* is not root's alone/);
    }
    await better();
  }
  await Deno.chown(it.at("pki/mtls_ca.key"), 1234, 1234);
  assert.match((await it.identity("add", "agent", "agent-7")).err, /mtls_ca\.key" is not root's alone/);
  await Deno.chown(it.at("pki/mtls_ca.key"), 0, 0);
  assert.deepEqual(await state(), before);
  assert.equal((await it.identity("add", "agent", "agent-7")).exit, 0);
});

Deno.test("identity --pki rejects a config whose client_ca is in another directory", async () => {
  await using it = await setUp();
  await Deno.mkdir(it.at("other"));
  for (const args of [...COMMANDS, ["list"]]) {
    const { exit, err } = await it.identity(...args, "--pki", it.at("other"));
    assert.equal(exit, 1, args.join(" "));
    assert.match(err, /Cannot use client_ca in ".*pki": expected it in ".*other" \(--pki\)/);
  }
  assert.equal((await it.identity("list", "--pki", "pki")).exit, 0);
});
