import assert from "node:assert/strict";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import {
  type Certificate,
  type CertificateFields,
  decodeCertificate,
  encodeOpensshPrivateKey,
  issueCertificate,
} from "@gateway/shared/ssh";
import { describeCertificate } from "./describe_certificate.ts";
import { freePort } from "./free_port.ts";
import { join } from "node:path";
import { createInstallation } from "./installation.ts";

const ca = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
const fields: CertificateFields = {
  publicKey: new Uint8Array(32).fill(2),
  nonce: new Uint8Array(32).fill(3),
  serial: 2n ** 64n - 1n,
  keyId: "agent=broker-1 host=web01 role=target t=1700000000",
  principals: ["host:web01"],
  validAfter: 1_699_999_970,
  validBefore: 1_700_000_120,
  criticalOptions: { "force-command": "uptime" },
  extensions: ["permit-pty", "login@example"],
};

async function issue(change: Partial<CertificateFields> = {}): Promise<Certificate> {
  return decodeCertificate(await issueCertificate({ ...fields, ...change }, ca));
}

// The output of TZ=UTC ssh-keygen -L -f x-cert.pub for this certificate.
Deno.test("describeCertificate() returns the output of ssh-keygen -L", async () => {
  assert.equal(
    describeCertificate(await issue(), { title: "x-cert.pub" }),
    `x-cert.pub:
        Type: ssh-ed25519-cert-v01@openssh.com user certificate
        Public key: ED25519-CERT SHA256:baqJQcVDEweKmw1OiZxGooCG2MGxYtwsQQzzOstxmiA
        Signing CA: ED25519 SHA256:fe85JkIjo8VPe+XqXJGH5Mau1EMFdK1OdKvJUFicyA8 (using ssh-ed25519)
        Key ID: "agent=broker-1 host=web01 role=target t=1700000000"
        Serial: 18446744073709551615
        Valid: from 2023-11-14T22:12:50 to 2023-11-14T22:15:20
        Principals:${" "}
                host:web01
        Critical Options:${" "}
                force-command uptime
        Extensions:${" "}
                login@example UNKNOWN FLAG OPTION
                permit-pty
`,
  );
});

Deno.test.each([
  { name: "without end", change: { validBefore: Infinity }, shown: "after 2023-11-14T22:12:50" },
  { name: "without beginning", change: { validAfter: 0 }, shown: "before 2023-11-14T22:15:20" },
  { name: "without both", change: { validAfter: 0, validBefore: Infinity }, shown: "forever" },
  {
    name: "in the year 10000",
    change: { validBefore: 253_402_300_800 },
    shown: "from 2023-11-14T22:12:50 to @253402300800",
  },
  {
    name: "beyond the range of Date",
    change: { validBefore: Number.MAX_SAFE_INTEGER },
    shown: "from 2023-11-14T22:12:50 to @9007199254740991",
  },
])("describeCertificate() shows a validity $name", async ({ change, shown }) => {
  assert.ok(describeCertificate(await issue(change)).includes(`        Valid: ${shown}\n`));
});

Deno.test("describeCertificate() escapes values that could control the terminal or fake a line", async () => {
  const hostile = "a\x1b[2J\n        Serial: 1\u202e\x9b";
  const text = describeCertificate(
    await issue({
      keyId: hostile,
      principals: [hostile],
      criticalOptions: { "force-command": hostile, [hostile]: "x" },
      extensions: [hostile],
    }),
    { title: hostile },
  );
  assert.equal(text.match(/^ {8}Serial: /gm)?.length, 1);
  assert.match(text, /^[^\p{Cf}]*$/u);
  assert.match(text.replaceAll("\n", ""), /^\P{Cc}*$/u);
  assert.equal(text.split(String.raw`a\x1b[2J\x0a        Serial: 1\u{202e}\x9b`).length, 7);
});

const PROGRAM = `
  import { freePort } from "${new URL("free_port.ts", import.meta.url).href}";
  console.log(JSON.stringify(Array.from({ length: 100 }, freePort)));
  await Deno.stdin.read(new Uint8Array(1));
`;

Deno.test("freePort() returns no port that another process has received and not used yet", async () => {
  const mine = Array.from({ length: 100 }, freePort);
  const others = Array.from({ length: 3 }, () =>
    new Deno.Command(Deno.execPath(), {
      args: ["eval", "--quiet", "--ext=ts", PROGRAM],
      stdin: "piped",
      stdout: "piped",
    }).spawn());
  const given = await Promise.all(others.map(async ({ stdout }) => {
    for await (const text of stdout.pipeThrough(new TextDecoderStream())) {
      if (text.endsWith("\n")) return JSON.parse(text);
    }
  }));
  // All processes held their ports at the same time.
  await Promise.all(others.map(({ stdin }) => stdin.close()));
  await Promise.all(others.map(({ status }) => status));
  const all = [...mine, ...given.flat()];
  assert.equal(new Set(all).size, 400);
});

Deno.test("freePort() skips a port in use", () => {
  const taken = freePort();
  using _listener = Deno.listen({ hostname: "127.0.0.1", port: taken });
  const next = Array.from({ length: 200 }, freePort);
  assert.ok(!next.includes(taken));
  assert.equal(new Set(next).size, 126);
});

/** Returns mode and content of each file, by its path in the installation. */
async function readAll(folder: string, under = ""): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for await (const { name, isDirectory } of Deno.readDir(join(folder, under))) {
    const path = join(under, name);
    const mode = (await Deno.stat(join(folder, path))).mode;
    found.set(path, `${mode} ${isDirectory ? "" : (await Deno.readFile(join(folder, path))).toHex()}`);
    if (isDirectory) {
      for (const [inner, content] of await readAll(folder, path)) found.set(inner, content);
    }
  }
  return found;
}

const textOf = (shown: string) => new TextDecoder().decode(Uint8Array.fromHex(shown.split(" ")[1]!));

Deno.test("a copied installation equals the one of init, except for directory and ports", async () => {
  const dir = await Deno.makeTempDir({ prefix: "gateway-test-" });
  try {
    const first = await createInstallation(`${dir}/first`, []);
    const before = await readAll(first.folder);
    // Changes of the first installation must not appear in the copy.
    await Deno.writeTextFile(first.signer_config, "{}");
    const second = await createInstallation(`${dir}/second`, []);
    const after = await readAll(second.folder);
    assert.deepEqual([...after.keys()].sort(), [...before.keys()].sort());
    const changed = [...after.keys()].filter((path) => after.get(path) !== before.get(path)).sort();
    assert.deepEqual(changed, [
      "broker-ctl.json",
      "config.json",
      "control-plane.json",
      "mcp.json",
      "signer.json",
      "systemd/gateway-renew.service",
      "systemd/gateway-renew.timer",
    ]);
    const ports = (text: string) => new Set(text.match(/127\.0\.0\.1:\d+/g));
    for (const path of changed) {
      const [old, now] = [textOf(before.get(path)!), textOf(after.get(path)!)];
      assert.equal(now.includes(first.folder), false, path);
      assert.deepEqual(ports(now).intersection(ports(old)), new Set(), path);
      assert.equal(ports(now).size, ports(old).size, path);
      const blank = (text: string, { folder }: { folder: string }) =>
        text.replaceAll(folder, "").replaceAll(/127\.0\.0\.1:\d+/g, "");
      assert.equal(blank(now, second), blank(old, first), path);
    }
    assert.equal(second.signer_config, `${dir}/second/signer.json`);
    assert.equal(JSON.stringify(second).includes(first.folder), false);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
