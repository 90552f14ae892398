import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { recordsOf } from "../stage/audit.ts";
import { type ConfigEdit, HOST, type Stage } from "../stage/stage.ts";
import { share } from "../stage/share.ts";
import { withStage } from "../stage/with_stage.ts";
import { McpProcess } from "./mcp_process.ts";
import { createFolder } from "../stage/folder.ts";

const LIMIT = 524_288;
const ALLOW_FILES: ConfigEdit = { path: ["hosts", HOST, "allow_file_transfer"], value: true };
const NO_POLICY: ConfigEdit = { path: ["group_command_policies"], value: {} };
const NO_RATE_LIMIT: ConfigEdit = { path: ["sign_rate_limit_per_min"] };

interface Files {
  readonly stage: Stage;
  readonly folder: string;
  put(path: string, args: object): Promise<Answer>;
  get(path: string, args?: object): Promise<Answer>;
}

interface Answer {
  readonly isError: boolean;
  readonly text: string;
  readonly structured: Record<string, unknown>;
}

function withFiles(signer: readonly ConfigEdit[], test: (files: Files) => Promise<void>): Promise<void> {
  return withStage({ signer: [NO_RATE_LIMIT, ...signer] }, async (stage) => {
    await stage.startSigner();
    await using folder = await createFolder();
    await using mcp = await McpProcess.start(await stage.mcpCommand());
    const call = async (name: string, args: object): Promise<Answer> => {
      const result = await mcp.call(name, { server: HOST, ...args });
      return {
        isError: result.isError === true,
        text: result.content[0].text,
        structured: { ...result.structuredContent },
      };
    };
    await test({
      stage,
      folder: folder.path,
      put: (path, args) => call("ssh_put_file", { path, ...args }),
      get: (path, args = {}) => call("ssh_get_file", { path, ...args }),
    });
    assert.equal(await mcp.end(), 0);
  });
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

const withTransfers = share<Files>((use) => withFiles([ALLOW_FILES, NO_POLICY], use));

const ALL_BYTES = Uint8Array.from({ length: 256 }, (_, byte) => byte);

Deno.test("a path that could forge a record, an invalid mode and too much content are rejected before signing", () =>
  withTransfers(async ({ stage, folder, put, get }) => {
    const blanks = "bad request: path contains whitespace or control characters";
    for (
      const [path, text] of [
        ["", "bad request: path is required"],
        [`${folder}/a\nb`, "bad request: path contains newline characters"],
        [`${folder}/a\rb`, "bad request: path contains newline characters"],
        [`${folder}/a bytes=0`, blanks],
        [`${folder}/a\tb`, blanks],
        [`${folder}/a\u001bb`, blanks],
        [`${folder}/a\u0000b`, 'field "path" contains null bytes'],
      ] as const
    ) {
      for (const answer of [await put(path, { content: "x" }), await get(path)]) {
        assert.deepEqual([answer.isError, answer.text], [true, text]);
      }
    }
    const dash = await put("-rf", { content: "x", mode: "644" });
    assert.equal(dash.text, 'bad request: path begins with "-": with a mode, write it as "./-…"');
    const mode = await put(`${folder}/a`, { content: "x", mode: "+x; id" });
    assert.equal(mode.text, 'bad request: invalid mode "+x; id" (expect 3-4 octal digits)');
    const large = await put(`${folder}/a`, { content: "x".repeat(LIMIT + 1) });
    assert.equal(large.text, `bad request: content is ${LIMIT + 1} bytes, the transfer limit is ${LIMIT}`);
    assert.deepEqual(await Array.fromAsync(Deno.readDir(folder)), []);
    assert.equal(await Deno.readTextFile(stage.init.signer_audit_log).catch(() => ""), "");
  }));

Deno.test("ssh_put_file and ssh_get_file transfer bytes unchanged", () =>
  withTransfers(async ({ folder, put, get }) => {
    const large = Uint8Array.from({ length: LIMIT }, (_, index) => (index * 7919 + (index >> 8)) & 0xff);
    for (
      const [name, bytes] of [
        ["every-byte", ALL_BYTES],
        ["empty", new Uint8Array()],
        ["as-large-as-can-be", large],
        ['it\'s-$(id)-"quoted";&*', new TextEncoder().encode("größe\r\n")],
        ["--help", Uint8Array.of(0xff, 0xfe)],
      ] as const
    ) {
      const path = `${folder}/${name}`;
      const written = await put(path, { content: bytes.toBase64(), content_base64: true });
      assert.equal(written.isError, false, written.text);
      assert.deepEqual(
        [written.structured["bytes_written"], written.structured["sha256"]],
        [bytes.length, sha256(bytes)],
      );
      assert.deepEqual(await Deno.readFile(path), bytes);
      const read = await get(path);
      assert.equal(read.isError, false, read.text);
      const { content, base64, size } = read.structured;
      const got = base64 === true
        ? Uint8Array.fromBase64(String(content))
        : new TextEncoder().encode(String(content));
      assert.deepEqual(got, bytes);
      assert.deepEqual([size, read.structured["sha256"]], [bytes.length, sha256(bytes)]);
    }
  }));

Deno.test("ssh_put_file replaces and truncates an existing file and sets the mode", () =>
  withTransfers(async ({ folder, put }) => {
    const path = `${folder}/it's`;
    await Deno.writeTextFile(path, "something that is longer");
    assert.equal((await put(path, { content: "short", mode: "4750" })).isError, false);
    assert.equal(await Deno.readTextFile(path), "short");
    assert.equal(((await Deno.stat(path)).mode ?? 0) & 0o7777, 0o4750);
  }));

Deno.test("ssh_get_file reads only allowed paths of /proc and opens no connection through /dev/tcp", () => {
  const allow = ["^head -c [0-9]+ < '/proc/version'$", "^head .*$", "/dev/tcp"];
  const policy = {
    path: ["hosts", HOST, "command_policy"],
    value: { mode: "allowlist", shell_parse: false, allow },
  };
  return withFiles([ALLOW_FILES, NO_POLICY, policy], async ({ get }) => {
    const version = await get("/proc/version");
    assert.match(String(version.structured["content"]), /^Linux version /, version.text);
    for (const path of ["/proc/loadavg", "/tmp/../proc/loadavg"]) {
      assert.match(
        (await get(path)).text,
        /^bad request: path is in \/proc: transfers need an allow rule that names \/proc/,
      );
    }
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { text } = await get(`/dev/tcp/127.0.0.1/${listener.addr.port}`);
    assert.match(text, /^bad request: path is in \/dev\/tcp, which is a network connection/);
  });
});

Deno.test("ssh_put_file and ssh_get_file report what is wrong with a file and return no content", () =>
  withTransfers(async ({ folder, put, get }) => {
    await Deno.writeFile(`${folder}/large`, new Uint8Array(LIMIT + 1));
    await Deno.writeFile(`${folder}/ten`, new Uint8Array(10));
    const limit = `bad request: file exceeds the transfer limit of ${LIMIT} bytes`;
    const failed = (verb: string) =>
      new RegExp(`^upstream failure: remote ${verb} failed \\(exit [12]\\): .`);
    for (
      const { answer, text } of [
        { answer: await get(`${folder}/large`), text: limit },
        {
          answer: await get(`${folder}/ten`, { max_bytes: 9 }),
          text: "bad request: file exceeds the transfer limit of 9 bytes",
        },
        { answer: await get(`${folder}/missing`), text: failed("read") },
        { answer: await get(folder), text: failed("read") },
        { answer: await put(folder, { content: "x" }), text: failed("write") },
        { answer: await put(`${folder}/no/such/folder`, { content: "x" }), text: failed("write") },
        {
          answer: await put("/proc/version", { content: "x" }),
          text: "bad request: path is in /proc: transfers need an allow rule that names /proc; " +
            "use ssh_execute instead",
        },
      ]
    ) {
      assert.equal(answer.isError, true, answer.text);
      if (typeof text === "string") assert.equal(answer.text, text);
      else assert.match(answer.text, text);
      assert.deepEqual(answer.structured, {});
    }
    assert.equal((await get(`${folder}/ten`, { max_bytes: 10 })).structured["size"], 10);
  }));

Deno.test("the broker's log records the command and the content of a transfer under one serial", () =>
  withTransfers(async ({ stage, folder, put, get }) => {
    await put(`${folder}/a`, { content: "abc" });
    await get(`${folder}/a`);
    const records = (await recordsOf(stage.init.mcp_audit_log)).slice(-4);
    const moved = `path=${folder}/a bytes=3 sha256=${sha256(new TextEncoder().encode("abc"))}`;
    const shown = ({ outcome, command }: Record<string, unknown>) => [outcome, command];
    assert.deepEqual(records.map(shown), [
      ["executed", `cat > '${folder}/a'`],
      ["file_put", moved],
      ["executed", `head -c ${LIMIT + 1} < '${folder}/a'`],
      ["file_get", moved],
    ]);
    assert.equal(records[0]?.["serial"], records[1]?.["serial"]);
    assert.equal(records[2]?.["serial"], records[3]?.["serial"]);
    assert.notEqual(records[0]?.["serial"], records[2]?.["serial"]);
  }));

Deno.test.each([
  {
    name: "does not permit file transfer",
    edits: [NO_POLICY],
    text: /allow_file_transfer=false|file transfer/,
  },
  {
    name: "has a command policy without the command",
    edits: [ALLOW_FILES],
    text: /rejected \(403\)/,
  },
])(
  "the signer denies a transfer on a host that $name",
  ({ edits, text }) =>
    withFiles(edits, async ({ folder, put, get }) => {
      await Deno.writeTextFile(`${folder}/a`, "before");
      for (const answer of [await put(`${folder}/a`, { content: "x" }), await get(`${folder}/a`)]) {
        assert.equal(answer.isError, true);
        assert.match(answer.text, text);
      }
      assert.equal(await Deno.readTextFile(`${folder}/a`), "before");
    }),
);
