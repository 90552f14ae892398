import assert from "node:assert/strict";
import { ROOT } from "../stage/service_command.ts";

const PROGRAM = `${ROOT}deploy/gateway.ts`;

/** Runs `gateway` from source under these permissions. */
async function gateway(args: readonly string[], permissions: readonly string[] = []) {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--no-prompt", "--cached-only", "--no-check", ...permissions, PROGRAM, ...args],
    env: { NO_COLOR: "1" },
  }).output();
  const decoder = new TextDecoder();
  return { code, out: decoder.decode(stdout), err: decoder.decode(stderr) };
}

Deno.test.each<{ name: string; args: readonly string[]; code: number; out: RegExp; err: RegExp }>([
  {
    name: "nothing",
    args: [],
    code: 2,
    out: /^$/,
    err: /^gateway: a command is required\n\nUsage: gateway /,
  },
  {
    name: "an unknown command",
    args: ["srve"],
    code: 2,
    out: /^$/,
    err: /unknown command "srve"\n\nUsage: /,
  },
  { name: "help", args: ["help"], code: 0, out: /^$/, err: /^Usage: gateway / },
  { name: "-version", args: ["-version"], code: 0, out: /^\S+\n$/, err: /^$/ },
  { name: "version --verbose", args: ["version", "--verbose"], code: 0, out: /deno/i, err: /^$/ },
  { name: "init --help", args: ["init", "--help"], code: 0, out: /^Usage: broker-ctl init /, err: /^$/ },
])("gateway understands $name", async ({ args, code, out, err }) => {
  const ended = await gateway(args, ["--allow-read"]);
  assert.equal(ended.code, code, ended.err);
  assert.match(ended.out, out);
  assert.match(ended.err, err);
});

Deno.test("gateway serve-mcp -config= reads the file that is named, and ends with 1 when it can't", async () => {
  const { code, err } = await gateway(["serve-mcp", "-config=/no/such.json"], [
    "--allow-read",
    "--ignore-env",
  ]);
  assert.equal(code, 1);
  assert.match(err, /Cannot load broker config "\/no\/such.json": no such file/);
});

Deno.test("gateway init makes the set-up of broker-ctl init", async () => {
  const dir = await Deno.makeTempDir({ prefix: "gateway-init-" });
  try {
    const { code, out, err } = await gateway(
      ["init", "-dir", `${dir}/set`],
      ["--allow-read", `--allow-write=${dir}`, "--allow-sys=uid", "--ignore-env"],
    );
    assert.equal(code, 0, err);
    assert.match(out, /^Set up /);
    const names = [...Deno.readDirSync(`${dir}/set`)].map(({ name }) => name);
    for (const name of ["config.json", "mcp.json", "signer.json", "pki"]) {
      assert.ok(names.includes(name), name);
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("gateway init under the broker's permissions says who may do it", async () => {
  const set = [`--config=${ROOT}broker/deno.json`, "-P=gateway"];
  const { code, err } = await gateway(["init"], set);
  assert.equal(code, 1);
  assert.match(err, /hint: broker-ctl init does the same/);
});
