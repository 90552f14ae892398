import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { derivePermissions } from "../ctl/setup/service_permissions.ts";
import { formatV8Flags } from "@gateway/shared/permissions";
import { compileArguments, EXECUTABLES } from "../deploy/release/executables.ts";
import { findNpmExcludes } from "../deploy/compile.ts";

/** Permissions that `deno compile` writes into an executable. `null` means none, `[]` means all of a kind. */
type Embedded = Readonly<Record<string, readonly string[] | boolean | null>>;

interface SetJson {
  readonly read?: readonly string[] | boolean;
  readonly write?: readonly string[] | boolean;
  readonly net?: readonly string[] | boolean;
  readonly run?: readonly string[];
  readonly sys?: readonly string[];
  readonly env?: { readonly allow?: readonly string[]; readonly ignore?: readonly string[] | boolean };
}

const WORKSPACE = new URL("..", import.meta.url).pathname.replace(/\/$/, "");
const COMPILE_PERMISSIONS = [
  "--no-prompt",
  "--allow-read",
  "--allow-run",
  "--ignore-env",
  "--allow-env=DENORT_BIN",
];
const MARK = Buffer.from('"permissions":{"allow_env"');

/**
 * Reads the permissions in an executable with Deno as its base, because denort is not available everywhere. Never run
 * such a file: it is an unrestricted Deno.
 */
function readEmbedded(bytes: Buffer): Embedded {
  const start = bytes.lastIndexOf(MARK);
  assert.ok(start >= 0, "the executable holds no permissions");
  const from = start + '"permissions":'.length;
  return JSON.parse(bytes.toString("utf8", from, bytes.indexOf("}", from) + 1));
}

/** Reads a list of strings in an executable, after its key. */
function readList(bytes: Buffer, key: string): readonly string[] {
  const mark = `"${key}":[`;
  const from = bytes.lastIndexOf(mark) + mark.length - 1;
  return JSON.parse(bytes.toString("utf8", from, bytes.indexOf("]", from) + 1));
}

/** The services from source. `gateway` can be any frontend; its executable has the permissions of `serve-http`. */
const FROM_SOURCE: Readonly<
  Record<string, Pick<Parameters<typeof derivePermissions>[0], "service" | "frontend">>
> = {
  "signer": { service: "signer", frontend: "serve-http" },
  "control-plane": { service: "control-plane", frontend: "serve-http" },
  "gateway": { service: "broker", frontend: "serve-http" },
  "broker": { service: "broker", frontend: "serve-http" },
  "mcp-broker": { service: "broker", frontend: "serve-mcp" },
  "mcp-broker-http": { service: "broker", frontend: "serve-mcp-http" },
};
const CONFIGS = { "signer": "signer.json", "control-plane": "control-plane.json", "broker": "config.json" };

/** Returns the V8 memory flags of a service from source; none for other programs. */
async function memoryFlags(name: string): Promise<readonly string[]> {
  // The bridge has settings instead of a config. ctl/bridge/start.ts passes these flags.
  if (name === "approval-bridge") return formatV8Flags({}).slice("--v8-flags=".length).split(",");
  const process = FROM_SOURCE[name];
  if (process === undefined) return [];
  const configPath = `${WORKSPACE}/deploy/${CONFIGS[process.service]}`;
  const { flags } = await derivePermissions({ ...process, configPath, workingFolder: WORKSPACE });
  const memory = flags.find((flag) => flag.startsWith("--v8-flags="));
  assert.ok(memory !== undefined);
  return memory.slice("--v8-flags=".length).split(",");
}

function list(value: readonly string[] | boolean | undefined): readonly string[] | null {
  if (value === undefined || value === false) return null;
  return value === true ? [] : value;
}

async function readSet(member: string, name: string): Promise<SetJson> {
  return JSON.parse(await Deno.readTextFile(`${WORKSPACE}/${member}/deno.json`)).permissions[name];
}

function expectedPermissions(member: string, set: SetJson): Record<string, unknown> {
  return {
    allow_read: list(set.read),
    allow_write: list(set.write),
    allow_net: list(set.net),
    allow_env: list(set.env?.allow),
    ignore_env: list(set.env?.ignore),
    // The debate starts programs of its tools, and broker-ctl starts ssh. Services of the access broker start none.
    allow_run: member === "debate" || member === "ctl" ? list(set.run) : null,
    allow_ffi: null,
    // init reads its user ID to check the owners of directories.
    allow_sys: list(set.sys),
    prompt: false,
  };
}

for (const executable of EXECUTABLES) {
  Deno.test(`deno task compile gives ${executable.name} exactly its permission set, and the V8 flags of a start from source`, async () => {
    const output = await Deno.makeTempDir({ prefix: "compile-" });
    try {
      const args = compileArguments(executable, {
        workspace: WORKSPACE,
        output,
        excludes: await findNpmExcludes(),
      });
      const { success, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["compile", "--no-check", ...args.slice(1)],
        env: { DENORT_BIN: Deno.execPath(), NO_COLOR: "1" },
        stdout: "null",
      }).output();
      assert.ok(success, new TextDecoder().decode(stderr));
      const path = `${output}/${executable.name}`;
      await Deno.chmod(path, 0o400);
      const bytes = Buffer.from(await Deno.readFile(path));
      const embedded = readEmbedded(bytes);
      const set = await readSet(executable.member, executable.permissionSet);
      assert.deepEqual({ ...embedded, ...expectedPermissions(executable.member, set) }, embedded);
      const denials = Object.entries(embedded).filter(([key, value]) =>
        key.startsWith("deny_") && value !== null
      );
      assert.deepEqual(denials, []);
      assert.deepEqual(readList(bytes, "argv"), executable.arguments ?? []);
      const told = readList(bytes, "v8_flags").filter((flag) =>
        /semi-space|heap-growing|recompilation/.test(flag)
      );
      assert.deepEqual(told, await memoryFlags(executable.name));
    } finally {
      await Deno.remove(output, { recursive: true });
    }
  });
}

Deno.test("deno task compile rejects Deno as the base", async () => {
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", ...COMPILE_PERMISSIONS, `${WORKSPACE}/deploy/compile.ts`, "signer"],
    env: { DENORT_BIN: Deno.execPath() },
    stdout: "null",
  }).output();
  assert.equal(code, 1);
  assert.match(new TextDecoder().decode(stderr), /DENORT_BIN is Deno itself/);
});

Deno.test("deno task compile --list describes every executable", async () => {
  const { code, stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", ...COMPILE_PERMISSIONS, `${WORKSPACE}/deploy/compile.ts`, "--list"],
    stderr: "null",
  }).output();
  assert.equal(code, 0);
  const text = new TextDecoder().decode(stdout);
  for (const { name, permissionSet } of EXECUTABLES) {
    assert.match(text, new RegExp(`^${name}: .*${permissionSet} of`, "m"));
  }
});
