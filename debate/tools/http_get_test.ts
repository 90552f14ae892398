import assert from "node:assert/strict";
import { HttpExchangeError } from "./http_fetch.ts";
import { httpGet } from "./http_tools.ts";
import { compileAllowList, vet } from "./net_guard.ts";
import { BARE_SETTINGS, call, FakePorts, textAnswer } from "./testing/tool_bench.ts";
import { AppError } from "@gateway/shared/errors";

const PUBLIC = "93.184.216.34";

function setUp(allowed: readonly string[] = ["public"]) {
  const ports = new FakePorts();
  ports.addresses = {
    "app.test": [[PUBLIC]],
    "inner.test": [["10.0.0.5"]],
    "127.0.0.1": [["127.0.0.1"]],
    "[::1]": [["::1"]],
    "169.254.169.254": [["169.254.169.254"]],
    // Only the first lookup returns a public address.
    "rebind.test": [[PUBLIC], ["127.0.0.1"]],
    "mixed.test": [[PUBLIC, "127.0.0.1"]],
  };
  return { ports, tool: httpGet({ ports, settings: BARE_SETTINGS, allowed: compileAllowList(allowed) }) };
}

Deno.test.each([
  { name: "an unlisted name", url: "http://secret.app.test/", allowed: ["app.test"] },
  { name: "a public name with an empty list", url: "http://app.test/", allowed: [] },
  { name: "a public address", url: `http://${PUBLIC}/`, allowed: ["app.test"] },
  {
    name: "a public name outside the listed networks",
    url: "http://app.test/",
    allowed: ["10.0.0.0/8"],
  },
])("http_get rejects $name", async ({ url, allowed }) => {
  const { ports, tool } = setUp(allowed);
  const { ok, text } = await call(tool, { url });
  assert.equal(ok, false);
  assert.match(text, /is not allowed.*HTTP_ALLOWED_HOSTS|does not resolve/);
  assert.deepEqual(ports.requests, []);
  assert.deepEqual(ports.lookups.filter((host) => host !== PUBLIC), []);
});

const redirect = (location: string) => textAnswer("", { status: 302, headers: { location } });

Deno.test("http_get connects to the checked address and shows status, type and text", async () => {
  const { ports, tool } = setUp();
  ports.answer = () => textAnswer("all hunter2", { status: 503 });
  const { ok, text } = await call(tool, { url: "http://app.test/health" });
  assert.equal(ok, true);
  assert.match(text, /^GET http:\/\/app\.test\/health: 503 /);
  assert.match(text, /content-type: text\/plain\n\nall \[REDACTED\]$/);
  assert.deepEqual(ports.requests.map(({ address, url, method }) => [address, url.host, method]), [
    [PUBLIC, "app.test", "GET"],
  ]);
});

Deno.test.each([
  { url: "http://127.0.0.1:9090/", why: /loopback/ },
  { url: "http://[::1]/", why: /loopback/ },
  { url: "http://0x7f.1/", why: /loopback/ },
  { url: "http://2130706433/", why: /loopback/ },
  { url: "http://inner.test/", why: /private/ },
  { url: "http://169.254.169.254/latest/meta-data", why: /metadata/ },
  { url: "http://mixed.test/", why: /loopback/ },
  { url: "http://nowhere.test/", why: /does not resolve/ },
  { url: "file:///etc/passwd", why: /only http: and https: URLs are allowed/ },
  { url: "gopher://app.test/", why: /only http: and https: URLs are allowed/ },
  { url: "http://user:pw@app.test/", why: /credentials/ },
  { url: "app.test", why: /invalid URL/ },
  { url: "http://", why: /invalid URL/ },
  { url: "http://app.test\0.evil/", why: /invalid URL/ },
].map((row) => ({ ...row, name: row.url })))("http_get rejects $name", async ({ url, why }) => {
  const { ports, tool } = setUp();
  const { ok, text } = await call(tool, { url });
  assert.equal(ok, false);
  assert.match(text, why);
  assert.deepEqual(ports.requests, []);
});

Deno.test("http_get resolves a name once, so a later different address has no effect", async () => {
  const { ports, tool } = setUp();
  assert.equal((await call(tool, { url: "http://rebind.test/" })).ok, true);
  assert.deepEqual(ports.lookups, ["rebind.test"]);
  assert.deepEqual(ports.requests.map(({ address }) => address), [PUBLIC]);
});

Deno.test("http_get checks the address of each redirect", async () => {
  const { ports, tool } = setUp();
  ports.answer = () => redirect("/again");
  const { ok, text } = await call(tool, { url: "http://rebind.test/" });
  assert.equal(ok, false);
  assert.match(text, /loopback/);
  assert.deepEqual(ports.requests.map(({ address }) => address), [PUBLIC]);
});

Deno.test.each([
  { name: "to loopback", location: "http://127.0.0.1/", why: /loopback/ },
  { name: "to the metadata service", location: "http://169.254.169.254/", why: /metadata/ },
  { name: "to a file", location: "file:///etc/passwd", why: /only http: and https: URLs are allowed/ },
  { name: "with credentials", location: "http://a:b@app.test/", why: /credentials/ },
  { name: "to no URL", location: "http://[", why: /invalid URL/ },
])("http_get rejects a redirect $name", async ({ location, why }) => {
  const { ports, tool } = setUp();
  ports.answer = () => redirect(location);
  const { ok, text } = await call(tool, { url: "http://app.test/" });
  assert.equal(ok, false);
  assert.match(text, why);
  assert.equal(ports.requests.length, 1);
});

Deno.test("http_get follows at most three redirects", async () => {
  const { ports, tool } = setUp();
  let left = 3;
  ports.answer = () => left-- > 0 ? redirect(`/hop${left}`) : textAnswer("there");
  const { ok, text } = await call(tool, { url: "http://app.test/" });
  assert.equal(ok, true);
  assert.match(text, /final URL: http:\/\/app\.test\/hop0\n/);
  left = 4;
  assert.match((await call(tool, { url: "http://app.test/" })).text, /more than 3 redirects/);
});

Deno.test.each([
  { url: "http://app.test/x", need: "app.test:80" },
  { url: "https://app.test:8443/", need: "app.test:8443" },
  { url: "https://\u0430pp.test/", need: "xn--pp-6kc.test:443" },
  { url: `http://${PUBLIC}/`, need: `${PUBLIC}:80` },
  { url: "http://listed.test/" },
  { url: "http://10.9.1.1/" },
  { url: "http://checkout/" },
  { url: "http://localhost./" },
  { url: "http://127.0.0.1/" },
  { url: "http://[::1]/" },
  { url: "http://0x7f.1/" },
  { url: "http://169.254.169.254/" },
  { url: "http://10.8.1.1/" },
  { url: "ftp://app.test/" },
  { url: "http://a:b@app.test/" },
  { url: "http://" },
].map((row) => ({ need: undefined, ...row })))("http_get needs for $url: $need", ({ url, need }) => {
  const { ports, tool } = setUp(["listed.test", "10.9.0.0/16"]);
  assert.equal(tool.needOf?.({ url }), need && `${need} is not in HTTP_ALLOWED_HOSTS`);
  assert.deepEqual(ports.lookups, []);
});

Deno.test.each([
  { url: "http://app.test/", ok: true },
  { url: `http://${PUBLIC}/`, ok: true },
  { url: "http://app.test/", location: "https://app.test/", ok: true },
  { url: "http://app.test/", location: "http://listed.test/", ok: true },
  { url: "http://app.test/", location: "http://other.test/", why: /other\.test is not allowed/ },
  { url: "http://app.test/", location: "http://app.test:81/", why: /app\.test:81 is not allowed/ },
  { url: "http://app.test/", location: "http://8.8.8.8/", why: /8\.8\.8\.8 is public/ },
  { url: "http://inner.test/", why: /10\.0\.0\.5 is private/ },
  { url: "http://mixed.test/", why: /loopback/ },
  { url: "http://clouds.test/", why: /metadata/ },
  { url: "http://checkout/", why: /checkout is not allowed/ },
  { url: "http://127.0.0.1/", why: /loopback/ },
].map((row) => ({ location: "", ok: false, why: /./, ...row })))(
  "an approved http_get of $url with a redirect to '$location' succeeds: $ok",
  async ({ url, location, ok, why }) => {
    const { ports, tool } = setUp(["listed.test", "10.0.0.0/8"]);
    ports.addresses = {
      ...ports.addresses,
      ...{ [PUBLIC]: [[PUBLIC]], "8.8.8.8": [["8.8.8.8"]], "clouds.test": [["169.254.169.254"]] },
      ...{ "listed.test": [["10.0.0.9"]], "other.test": [[PUBLIC]] },
    };
    ports.answer = ({ url: { href } }) =>
      location === "" || href === location ? textAnswer("x") : redirect(location);
    const context = { signal: new AbortController().signal, runId: "run", isApproved: true };
    const result = await call(tool, { url }, context);
    assert.deepEqual([result.ok, why.test(result.text)], [ok, true], result.text);
    assert.doesNotMatch(ports.lookups.join(" "), /other\.test|checkout/);
  },
);

Deno.test.each([
  { type: "application/json", shown: true },
  { type: "application/health+json; charset=utf-8", shown: true },
  { type: "text/html", shown: true },
  { type: "", shown: true },
  { type: "image/png", shown: false },
  { type: "application/octet-stream", shown: false },
  { type: "application/zip", shown: false },
].map((row) => ({ ...row, name: row.type || "no type" })))(
  "http_get, text only: $name",
  async ({ type, shown }) => {
    const { ports, tool } = setUp();
    ports.answer = () => textAnswer("payload", { headers: { "content-type": type } });
    const { text } = await call(tool, { url: "http://app.test/" });
    assert.equal(text.includes("payload"), shown);
    assert.equal(text.includes("binary data"), !shown);
  },
);

Deno.test("http_get does not show binary data with a text type", async () => {
  const { ports, tool } = setUp();
  ports.answer = () => textAnswer("a\0b");
  assert.match((await call(tool, { url: "http://app.test/" })).text, /3 bytes of binary data/);
});

Deno.test("http_get tries the next address only if the first is not reachable", async () => {
  const { ports, tool } = setUp();
  ports.addresses = { "app.test": [["2606:4700::1", PUBLIC]] };
  ports.answer = ({ address }) => {
    if (address === PUBLIC) return textAnswer("ok");
    throw new HttpExchangeError("no route to the network", true);
  };
  assert.equal((await call(tool, { url: "http://app.test/" })).ok, true);
  ports.answer = () => {
    throw new HttpExchangeError("connection reset", false);
  };
  const before = ports.requests.length;
  assert.match((await call(tool, { url: "http://app.test/" })).text, /does not respond: connection reset/);
  assert.equal(ports.requests.length, before + 1);
});

const PUBLIC_ONLY = compileAllowList(["public"]);

Deno.test.each([
  { address: "8.8.8.8", kind: undefined },
  { address: "2606:4700::1111", kind: undefined },
  { address: "127.0.0.1", kind: "loopback" },
  { address: "127.255.255.254", kind: "loopback" },
  { address: "::1", kind: "loopback" },
  { address: "::ffff:127.0.0.1", kind: "loopback" },
  { address: "::ffff:7f00:1", kind: "loopback" },
  { address: "64:ff9b::7f00:1", kind: "loopback" },
  { address: "64:ff9b::a00:1", kind: "private" },
  { address: "64:ff9b::808:808", kind: undefined },
  { address: "10.0.0.1", kind: "private" },
  { address: "172.16.0.1", kind: "private" },
  { address: "172.32.0.1", kind: undefined },
  { address: "192.168.1.1", kind: "private" },
  { address: "fc00::1", kind: "private" },
  { address: "fdff::1", kind: "private" },
  { address: "100.64.0.1", kind: "carrier" },
  { address: "100.128.0.1", kind: undefined },
  { address: "169.254.1.1", kind: "link-local" },
  { address: "fe80::1", kind: "link-local" },
  { address: "169.254.169.254", kind: "metadata" },
  { address: "168.63.129.16", kind: "metadata" },
  { address: "100.100.100.200", kind: "metadata" },
  { address: "fd00:ec2::254", kind: "metadata" },
  { address: "::ffff:169.254.169.254", kind: "metadata" },
  { address: "224.0.0.1", kind: "multicast" },
  { address: "ff02::1", kind: "multicast" },
  { address: "0.0.0.0", kind: "reserved" },
  { address: "255.255.255.255", kind: "reserved" },
  { address: "198.18.0.1", kind: "reserved" },
  { address: "::", kind: "reserved" },
  { address: "::7f00:1", kind: "reserved" },
  { address: "2002:7f00:1::", kind: "reserved" },
  { address: "2001::1", kind: "reserved" },
  { address: "2001:db8::1", kind: "reserved" },
  { address: "64:ff9b:1::1", kind: "reserved" },
  { address: "fec0::1", kind: "reserved" },
  { address: "4000::1", kind: "reserved" },
  { address: "fe80::1%eth0", kind: "no" },
  { address: "127.1", kind: "no" },
  { address: "0x7f000001", kind: "no" },
  { address: "example.com", kind: "no" },
].map((row) => ({ ...row, name: `${row.address}: ${row.kind ?? "allowed"}` })))(
  "vet() with public addresses only, $name",
  ({ address, kind }) => {
    assert.equal(vet("h.test", [address], PUBLIC_ONLY)?.addressKind, kind);
  },
);

Deno.test.each([
  {
    name: "a listed name behind which is loopback",
    host: "Health.test.",
    addresses: ["127.0.0.1", "::1"],
    allowed: true,
  },
  {
    name: "a listed name behind which is a private address",
    host: "health.test",
    addresses: ["10.1.2.3"],
    allowed: true,
  },
  {
    name: "a listed name behind which is the metadata service",
    host: "health.test",
    addresses: ["169.254.169.254"],
  },
  { name: "a listed name with a link-local address", host: "health.test", addresses: ["fe80::1"] },
  { name: "a name below a listed one", host: "x.health.test", addresses: ["10.1.2.3"] },
  { name: "a name with a listed name as its suffix", host: "xhealth.test", addresses: ["10.1.2.3"] },
  { name: "an address in a listed network", host: "any.test", addresses: ["10.9.1.1"], allowed: true },
  {
    name: "the same address written as IPv6",
    host: "any.test",
    addresses: ["::ffff:10.9.1.1"],
    allowed: true,
  },
  {
    name: "one address in a listed network and one outside",
    host: "any.test",
    addresses: ["10.9.1.1", "10.8.1.1"],
  },
  { name: "the metadata service in a listed network", host: "any.test", addresses: ["100.100.100.200"] },
  {
    name: "another metadata service listed by its address",
    host: "any.test",
    addresses: ["168.63.129.16"],
    allowed: true,
  },
  { name: "a listed name with a public address", host: "health.test", addresses: [PUBLIC], allowed: true },
  { name: "another name with a public address", host: "any.test", addresses: [PUBLIC] },
  { name: "no address", host: "health.test", addresses: [] },
])("vet() $name", ({ host, addresses, allowed = false }) => {
  const list = compileAllowList([
    "health.test",
    "10.9.0.0/16",
    "100.64.0.0/10",
    "168.63.129.16",
    "[fd12::1]",
  ]);
  assert.equal(vet(host, addresses, list) === undefined, allowed);
});

Deno.test.each(
  ["http://h", "10.0.0.0/33", "a b", "-h", "300.1.1.1", "h:80", "*.h", "h/8"].map((entry) => ({
    name: entry,
    entry,
  })),
)(
  "compileAllowList() rejects $name",
  ({ entry }) => {
    assert.throws(
      () => compileAllowList(["ok.test", entry]),
      (error: unknown) =>
        error instanceof AppError && error.code === "invalid_config" && error.message.includes(`"${entry}"`),
    );
  },
);
