import assert from "node:assert/strict";
import { createOperator } from "./ctl_signer_fixture.ts";
import { join } from "node:path";
import { AppError } from "@gateway/shared/errors";
import type { PeerHandler } from "@gateway/shared/http";
import { createFolder, run, runInTerminal } from "./ctl_fixture.ts";
import { issue, startServer } from "./mtls_fixture.ts";

const reloads: PeerHandler = (request, { caller }) => {
  const { pathname } = new URL(request.url);
  if (request.method !== "POST" || pathname !== "/v1/reload") {
    throw new AppError("not_found", "No such route");
  }
  if (caller !== "operator-local") throw new AppError("forbidden", "caller is not in reload_callers");
  return Response.json({ hosts: 3, status: "ok" });
};

Deno.test("reload connects to the client config's signer, with paths relative to the config", async () => {
  await using server = await startServer(reloads);
  await using folder = await createOperator(server);
  const config = join(folder.path, "client.json");
  assert.deepEqual(await run("/", "reload", "--client-config", config), {
    out: "signer reloaded via HTTP (hosts: 3)\n",
    err: "",
    exit: 0,
  });
  assert.equal(
    (await run("/", "--json", "reload", "-client-config", config)).out,
    '{"hosts":3,"status":"ok","new_patterns":0,"findings":[]}\n',
  );
});

Deno.test("a command warns of an expiring client certificate from flags or environment", async () => {
  const soon = await issue({
    subject: "CN=operator-local",
    usage: "client",
    notAfter: new Date(Date.now() + 5 * 86_400_000),
  });
  await using server = await startServer(reloads);
  await using folder = await createOperator(server);
  const [cert, key] = [join(folder.path, "soon.crt"), join(folder.path, "soon.key")];
  await Deno.writeTextFile(cert, soon.cert);
  await Deno.writeTextFile(key, soon.key);
  const reload = ["reload", "--client-config", join(folder.path, "client.json")];
  const variables = { BROKER_CTL_SIGNER_CERT: cert, BROKER_CTL_SIGNER_KEY: key };
  for (
    const { err, exit } of [
      await run("/", ...reload, "--cert", cert, "--key", key),
      await runInTerminal({ workingFolder: "/", variables }, ...reload),
    ]
  ) {
    assert.equal(exit, 0, err);
    assert.match(err, /^warning: certificate ".*soon\.crt" expires in 4 days, at [^\n]*\n$/);
  }
});

Deno.test.each<{ name: string; flags: string[]; error: RegExp }>([
  {
    name: "who may not",
    flags: ["--cert", "agent.crt", "--key", "agent.key"],
    error:
      /failed \(HTTP 403\): caller is not in reload_callers\nfix: the CN of certificate .*agent\.crt must be in reload_callers/,
  },
  {
    name: "a signer of another CA",
    flags: ["--ca", "foreign.crt"],
    error: /^error: .*\nfix: the signer's certificate was not signed by the CA in .*foreign\.crt\n$/,
  },
  {
    name: "nobody",
    flags: ["--url", "127.0.0.1:1"],
    error:
      /^error: .* the signer at https:\/\/127\.0\.0\.1:1\nfix: nothing listens at this address: start the signer/,
  },
  {
    name: "an expired certificate",
    flags: ["--cert", "old.crt", "--key", "old.key"],
    error: /expired at .*\nfix: broker-ctl identity renew old\n$/,
  },
  {
    name: "a certificate path that does not exist",
    flags: ["--cert", "nowhere.crt"],
    error: /Cannot read certificate .*no such file\nfix: pass --client-config, or --cert, --key and --ca/,
  },
  {
    name: "a key of another certificate",
    flags: ["--key", "agent.key"],
    error:
      /Cannot use the TLS private key.*\nfix: check certificate .*operator\.crt, private key .*agent\.key, CA /,
  },
])("reload fails with exit code 1 for $name", async ({ flags, error }) => {
  await using server = await startServer(reloads);
  await using folder = await createOperator(server);
  const old = await issue({ subject: "CN=operator-local", usage: "client", notAfter: new Date() });
  await Deno.writeTextFile(join(folder.path, "old.crt"), old.cert);
  await Deno.writeTextFile(join(folder.path, "old.key"), old.key);
  // Paths in flags are relative to the working directory, not to the client config.
  const absolute = flags.map((flag) => /\.(?:crt|key)$/.test(flag) ? join(folder.path, flag) : flag);
  const result = await run(folder.path, "reload", "--client-config", "client.json", ...absolute);
  assert.match(result.err, error);
  assert.deepEqual([result.exit, result.out], [1, ""]);
});

Deno.test("reload accepts a client config of another build and reports keys that have no effect", async () => {
  await using server = await startServer(reloads);
  await using folder = await createOperator(server);
  const { port } = new URL(JSON.parse(await Deno.readTextFile(join(folder.path, "client.json"))).signer.url);
  const text = JSON.stringify({ version: 3, signer: { url: `127.0.0.1:${port}`, timeout: "10s" } });
  await Deno.writeTextFile(join(folder.path, "client.json"), text);
  await Deno.mkdir(join(folder.path, "pki"));
  for (
    const [from, to] of [["operator.crt", "broker.crt"], ["operator.key", "broker.key"], [
      "ca.crt",
      "mtls_ca.crt",
    ]]
  ) {
    await Deno.rename(join(folder.path, from ?? ""), join(folder.path, "pki", to ?? ""));
  }
  const { exit, out, err } = await run(folder.path, "reload", "--client-config", "client.json");
  assert.deepEqual([exit, out], [0, "signer reloaded via HTTP (hosts: 3)\n"], err);
  assert.match(
    err,
    /^warning: client config ".*client\.json": unknown keys are ignored: "signer\.timeout", "version"\n$/,
  );
});

Deno.test("reload rejects a response that is not a signer's", async () => {
  await using server = await startServer(() => Response.json({ hello: "world" }));
  await using folder = await createOperator(server);
  const result = await run(folder.path, "reload", "--client-config", "client.json");
  assert.equal(result.exit, 1);
  assert.match(result.err, /did not respond like a signer/);
});

Deno.test.each([
  { name: "that is not there", text: undefined, error: /Cannot load client config .*no such file/ },
  {
    name: "with an unknown section that is no object",
    text: '{ "signer": [] }',
    error: /signer: must be an object/,
  },
])("reload rejects a client config $name", async ({ text, error }) => {
  await using folder = await createFolder();
  if (text !== undefined) await Deno.writeTextFile(join(folder.path, "client.json"), text);
  const result = await run(folder.path, "reload", "--client-config", "client.json");
  assert.equal(result.exit, 1);
  assert.match(result.err, error);
});
