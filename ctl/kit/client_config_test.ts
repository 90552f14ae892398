import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { type ClientSources, findUnknownKeys, resolveClient, SERVICES } from "./client_config.ts";

const SOURCES: ClientSources = { flags: {}, env: {}, workingFolder: "/work", defaultUrl: "127.0.0.1:9443" };
const FILE = {
  config: { signer: { url: "https://file:1", cert: "f.crt", key: "/abs/f.key", ca: "f.ca" } },
  folder: "/etc/gateway",
};

Deno.test.each<{ name: string; sources: Partial<ClientSources>; expected: Record<string, string> }>([
  {
    name: "defaults in the working folder without a file",
    sources: {},
    expected: {
      url: "https://127.0.0.1:9443",
      cert: "/work/pki/operator.crt",
      key: "/work/pki/operator.key",
      ca: "/work/pki/mtls_ca.crt",
    },
  },
  {
    name: "the file over defaults, relative to the file (C7)",
    sources: { file: FILE },
    expected: {
      url: "https://file:1",
      cert: "/etc/gateway/f.crt",
      key: "/abs/f.key",
      ca: "/etc/gateway/f.ca",
    },
  },
  {
    name: "defaults relative to the file when it is silent",
    sources: { file: { config: {}, folder: "/etc/gateway" } },
    expected: { cert: "/etc/gateway/pki/operator.crt", url: "https://127.0.0.1:9443" },
  },
  {
    name: "the default names of another build where they are what is there",
    sources: { file: { config: {}, folder: "/etc/gateway" }, defaultPair: SERVICES.signer.foreign },
    expected: { cert: "/etc/gateway/pki/broker.crt", key: "/etc/gateway/pki/broker.key" },
  },
  {
    name: "the environment over the file, as written",
    sources: {
      file: FILE,
      env: { BROKER_CTL_SIGNER_URL: "env:2", BROKER_CTL_SIGNER_CERT: "e.crt", BROKER_CTL_CP_KEY: "cp.key" },
    },
    expected: { url: "https://env:2", cert: "e.crt", key: "/abs/f.key" },
  },
  {
    name: "an empty variable as unset",
    sources: { file: FILE, env: { BROKER_CTL_SIGNER_URL: "", BROKER_CTL_SIGNER_CERT: "" } },
    expected: { url: "https://file:1", cert: "/etc/gateway/f.crt" },
  },
  {
    name: "a flag over all, as written",
    sources: {
      file: FILE,
      env: { BROKER_CTL_SIGNER_CERT: "e.crt" },
      flags: { cert: "./g.crt", url: "[::1]:3" },
    },
    expected: { url: "https://[::1]:3", cert: "./g.crt" },
  },
])("resolveClient() takes $name", ({ sources, expected }) => {
  const client = resolveClient("signer", { ...SOURCES, ...sources });
  assert.deepEqual({ ...client, ...expected }, client);
});

Deno.test("resolveClient() keeps the services apart", () => {
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
])("resolveClient() refuses a URL with $name", ({ url }) => {
  assert.throws(
    () => resolveClient("signer", { ...SOURCES, flags: { url } }),
    (error) => error instanceof AppError && error.code === "invalid_request",
  );
});

Deno.test("findUnknownKeys() tells what means nothing", () => {
  const config = { signer: { url: "a:1", urll: "b:2" }, controlplane: {}, comment: "x" };
  assert.deepEqual(findUnknownKeys(config), ["signer.urll", "controlplane", "comment"]);
  assert.deepEqual(findUnknownKeys({ signer: {}, control_plane: { ca: "x" } }), []);
});
