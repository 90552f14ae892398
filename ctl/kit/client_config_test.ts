import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import {
  clientConfigPlaces,
  type ClientSources,
  findUnknownKeys,
  resolveClient,
  SERVICES,
} from "./client_config.ts";
import { Command } from "commander";
import { countOf, normalizeArguments, once, repeated, rulesOf } from "./arguments.ts";
import { adviseOnContact } from "./contact_advice.ts";
import { joinPath } from "./remote.ts";

const SOURCES: ClientSources = { flags: {}, env: {}, workingFolder: "/work", defaultUrl: "127.0.0.1:9443" };
const FILE = {
  config: { signer: { url: "https://file:1", cert: "f.crt", key: "/abs/f.key", ca: "f.ca" } },
  folder: "/etc/gateway",
};

Deno.test.each<{ name: string; sources: Partial<ClientSources>; expected: Record<string, string> }>([
  {
    name: "defaults in the working directory without a file",
    sources: {},
    expected: {
      url: "https://127.0.0.1:9443",
      cert: "/work/pki/operator.crt",
      key: "/work/pki/operator.key",
      ca: "/work/pki/mtls_ca.crt",
    },
  },
  {
    name: "the file before defaults, relative to the file (C7)",
    sources: { file: FILE },
    expected: {
      url: "https://file:1",
      cert: "/etc/gateway/f.crt",
      key: "/abs/f.key",
      ca: "/etc/gateway/f.ca",
    },
  },
  {
    name: "defaults relative to the file if it does not set a value",
    sources: { file: { config: {}, folder: "/etc/gateway" } },
    expected: { cert: "/etc/gateway/pki/operator.crt", url: "https://127.0.0.1:9443" },
  },
  {
    name: "the file names of another implementation if those files exist",
    sources: { file: { config: {}, folder: "/etc/gateway" }, defaultPair: SERVICES.signer.foreign },
    expected: { cert: "/etc/gateway/pki/broker.crt", key: "/etc/gateway/pki/broker.key" },
  },
  {
    name: "the environment before the file, unchanged",
    sources: {
      file: FILE,
      env: { BROKER_CTL_SIGNER_URL: "env:2", BROKER_CTL_SIGNER_CERT: "e.crt", BROKER_CTL_CP_KEY: "cp.key" },
    },
    expected: { url: "https://env:2", cert: "e.crt", key: "/abs/f.key" },
  },
  {
    name: "no empty variable",
    sources: { file: FILE, env: { BROKER_CTL_SIGNER_URL: "", BROKER_CTL_SIGNER_CERT: "" } },
    expected: { url: "https://file:1", cert: "/etc/gateway/f.crt" },
  },
  {
    name: "a flag before all other sources, unchanged",
    sources: {
      file: FILE,
      env: { BROKER_CTL_SIGNER_CERT: "e.crt" },
      flags: { cert: "./g.crt", url: "[::1]:3" },
    },
    expected: { url: "https://[::1]:3", cert: "./g.crt" },
  },
])("resolveClient() uses $name", ({ sources, expected }) => {
  const client = resolveClient("signer", { ...SOURCES, ...sources });
  assert.deepEqual({ ...client, ...expected }, client);
});

Deno.test("resolveClient() keeps the settings of different services separate", () => {
  const env = { BROKER_CTL_CP_CERT: "cp.crt", BROKER_CTL_SIGNER_KEY: "s.key" };
  const client = resolveClient("control_plane", {
    ...SOURCES,
    env,
    file: FILE,
    defaultUrl: "127.0.0.1:7443",
  });
  assert.deepEqual(client, {
    url: "https://127.0.0.1:7443",
    cert: "cp.crt",
    key: "/etc/gateway/pki/approver.key",
    ca: "/etc/gateway/pki/mtls_ca.crt",
  });
});

Deno.test.each([
  { name: "plain HTTP", url: "http://127.0.0.1:9443" },
  { name: "credentials", url: "https://a:b@127.0.0.1:9443" },
  { name: "a query", url: "https://127.0.0.1:9443/?x" },
  { name: "no host", url: "https://" },
])("resolveClient() rejects a URL with $name", ({ url }) => {
  assert.throws(
    () => resolveClient("signer", { ...SOURCES, flags: { url } }),
    (error) => error instanceof AppError && error.code === "invalid_request",
  );
});

Deno.test("findUnknownKeys() returns the unknown keys", () => {
  const config = { signer: { url: "a:1", urll: "b:2" }, controlplane: {}, comment: "x" };
  assert.deepEqual(findUnknownKeys(config), ["signer.urll", "controlplane", "comment"]);
  assert.deepEqual(findUnknownKeys({ signer: {}, control_plane: { ca: "x" } }), []);
});

const BOOLEANS = new Set(["force", "json"]);

Deno.test.each<{ name: string; args: string[]; expected: string[] }>([
  { name: "a single dash before a long option", args: ["-config", "f"], expected: ["--config", "f"] },
  { name: "a single dash with a value", args: ["-config=f=g"], expected: ["--config=f=g"] },
  {
    name: "short spellings of --output",
    args: ["-o", "json", "-ojson", "-o=wide"],
    expected: ["-o", "json", "--output=json", "--output=wide"],
  },
  { name: "a true boolean", args: ["--force=true", "-json=true"], expected: ["--force", "--json"] },
  { name: "a false boolean", args: ["init", "--force=false"], expected: ["init"] },
  { name: "a short option unchanged", args: ["-h", "-", "--"], expected: ["-h", "-", "--"] },
  { name: "a text option with a boolean value unchanged", args: ["--log=true"], expected: ["--log=true"] },
  { name: "no option after two dashes", args: ["-json", "--", "-json"], expected: ["--json", "--", "-json"] },
])("normalizeArguments() accepts $name", ({ args, expected }) => {
  assert.deepEqual(normalizeArguments(args, { booleans: BOOLEANS }), expected);
});

Deno.test("once() and repeated() reject an option in place of a value", () => {
  assert.throws(() => once("--force", undefined));
  assert.throws(() => repeated("-h", ["a"]));
  assert.equal(once("-", undefined), "-");
  assert.deepEqual(repeated("b", ["a"]), ["a", "b"]);
});

Deno.test("once() rejects a second value", () => {
  assert.throws(() => once("b", "a"));
});

Deno.test("countOf() accepts whole numbers within its bounds", () => {
  const count = countOf(1, 20);
  assert.deepEqual([count("1"), count("020")], [1, 20]);
  for (const text of ["0", "21", "-1", "1.5", "1e1", "", " 1", "0x1", "9".repeat(30)]) {
    assert.throws(() => count(text), { message: /from 1 to 20/ }, text);
  }
});

Deno.test("rulesOf() returns the switches of the called command", () => {
  const program = new Command().option("--json").option("--config <file>");
  const host = program.command("host");
  host.command("add").option("--force").option("--sudo [value]");
  program.command("explain").option("--sudo").argument("<id>", "which");
  const rules = (...args: string[]) => [...rulesOf(program, args).booleans].sort();
  assert.deepEqual(rules("--config", "explain", "host", "add", "--sudo=false"), ["force", "help", "json"]);
  assert.deepEqual(rules("-json", "explain", "-sudo=true"), ["help", "json", "sudo"]);
  assert.deepEqual(rules("nothing"), ["help", "json"]);
});

const CONTACT = { name: "signer", url: "https://ca.example:9443", ca: "/pki/mtls_ca.crt" };

Deno.test.each([
  { code: "ECONNREFUSED", advice: /start the signer/ },
  { code: "ENOTFOUND", advice: /the name ca\.example$/ },
  { code: "EHOSTUNREACH", advice: /cannot be reached/ },
  { code: "ERR_SSL_WRONG_VERSION_NUMBER", advice: /does not use TLS/ },
  { code: "UNABLE_TO_VERIFY_LEAF_SIGNATURE", advice: /not signed by the CA in \/pki\/mtls_ca\.crt$/ },
  { code: "ERR_TLS_CERT_ALTNAME_INVALID", advice: /not for the name ca\.example$/ },
  { code: "CERT_HAS_EXPIRED", advice: /expired/ },
])("adviseOnContact() gives advice about $code, also if it is a nested cause", ({ code, advice }) => {
  let failure: Error = Object.assign(new Error("x"), { code });
  for (const message of ["", "asking", "Failed contacting"]) {
    if (message !== "") failure = new AppError("upstream_failure", message, { cause: failure });
    assert.match(adviseOnContact(failure, CONTACT) ?? "", advice);
  }
});

Deno.test("adviseOnContact() returns no advice for an unknown cause", () => {
  for (const cause of [undefined, "ECONNREFUSED", { code: "ECONNREFUSED" }, new Error("ECONNREFUSED")]) {
    assert.equal(adviseOnContact(cause, CONTACT), undefined);
  }
});

const SYSTEM = { path: "/etc/gateway/broker-ctl.json", named: false };

Deno.test.each<
  {
    name: string;
    flag?: string;
    variables: Record<string, string>;
    expected: ReturnType<typeof clientConfigPlaces>;
  }
>([
  {
    name: "the flag first",
    flag: "me.json",
    variables: { BROKER_CTL_CONFIG: "/env.json", HOME: "/home/ann" },
    expected: [{ path: "/work/me.json", named: true }],
  },
  {
    name: "the environment variable second",
    variables: { BROKER_CTL_CONFIG: "/env.json", HOME: "/home/ann" },
    expected: [{ path: "/env.json", named: true }],
  },
  {
    name: "the home directory and the system otherwise",
    variables: { BROKER_CTL_CONFIG: "", HOME: "/home/ann" },
    expected: [{ path: "/home/ann/.config/broker-ctl/config.json", named: false }, SYSTEM],
  },
  {
    name: "the XDG directory before the home directory",
    variables: { XDG_CONFIG_HOME: "/xdg", HOME: "/home/ann" },
    expected: [{ path: "/xdg/broker-ctl/config.json", named: false }, SYSTEM],
  },
  { name: "the system alone without a home", variables: {}, expected: [SYSTEM] },
])(
  "clientConfigPlaces() returns $name, and the working directory only for a flag",
  ({ flag, variables, expected }) => {
    assert.deepEqual(clientConfigPlaces(flag, { workingFolder: "/work", variables }), expected);
  },
);

Deno.test("joinPath() encodes each segment separately", () => {
  assert.equal(joinPath("v1", "hosts", "a/b c?#%ü"), "/v1/hosts/a%2Fb%20c%3F%23%25%C3%BC");
  assert.equal(joinPath("..."), "/...");
  assert.equal(joinPath("\ud800"), "/%EF%BF%BD");
});

Deno.test("joinPath() rejects segments that a URL would resolve", () => {
  for (const segment of ["", ".", ".."]) {
    assert.throws(() => joinPath("v1", segment, "allow"), { code: "invalid_request" }, segment);
  }
});
