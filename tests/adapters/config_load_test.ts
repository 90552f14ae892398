import assert from "node:assert/strict";
import * as z from "@zod/zod";
import { AppError } from "@gateway/shared/errors";
import { loadConfig } from "@gateway/shared/config";

const schema = z.strictObject({ listen: z.string() });

async function withFile<T>(bytes: Uint8Array, use: (path: string) => Promise<T>): Promise<T> {
  const path = await Deno.makeTempFile({ suffix: ".json" });
  try {
    await Deno.writeFile(path, bytes);
    return await use(path);
  } finally {
    await Deno.remove(path);
  }
}

const utf8 = (text: string) => new TextEncoder().encode(text);

Deno.test("loadConfig() reads a file", async () => {
  await withFile(utf8('// note\n{ "listen": "ä:1" }\n'), async (path) => {
    assert.equal((await loadConfig({ path, what: "signer config", schema })).listen, "ä:1");
  });
});

Deno.test.each([
  {
    name: "bytes that are not UTF-8",
    bytes: Uint8Array.of(0x7b, 0xff, 0x7d),
    problem: "the file is not valid UTF-8",
  },
  {
    name: "UTF-16",
    bytes: Uint8Array.of(0xff, 0xfe, 0x7b, 0, 0x7d, 0),
    problem: "the file is not valid UTF-8",
  },
  {
    name: "a byte order mark",
    bytes: Uint8Array.of(0xef, 0xbb, 0xbf, ...utf8('{ "listen": ":1" }')),
    problem: "the file starts with a byte order mark; save it without",
  },
  { name: "an empty file", bytes: new Uint8Array(), problem: "the file is empty" },
  { name: "a wrong key", bytes: utf8('{ "listen": ":1", "x": 1 }'), problem: 'unknown key "x"' },
])("loadConfig() refuses $name and names the file", async ({ bytes, problem }) => {
  await withFile(bytes, async (path) => {
    await assert.rejects(loadConfig({ path, what: "signer config", schema }), (error) => {
      assert.ok(error instanceof AppError);
      assert.equal(error.code, "invalid_config");
      assert.equal(error.message, `Cannot load signer config ${JSON.stringify(path)}: ${problem}`);
      return true;
    });
  });
});

Deno.test.each([
  { name: "a missing file", path: "/nonexistent/signer.json", problem: "no such file" },
  { name: "a folder", path: "/tmp", problem: "it is a folder, not a file" },
])("loadConfig() refuses $name", async ({ path, problem }) => {
  await assert.rejects(
    loadConfig({ path, what: "signer config", schema }),
    { message: `Cannot load signer config "${path}": ${problem}` },
  );
});
