import assert from "node:assert/strict";
import { readGuide } from "./guides.ts";
import { join } from "node:path";
import { PACKAGES } from "../../deploy/release/packages.ts";
import { isMissing } from "../stage/is_missing.ts";
import { runProgram } from "./machine.ts";

const GUIDE = `# How to

\`\`\`sh
one
\`\`\`

<!-- not run: needs a second machine -->

\`\`\`sh
two \\
  more
\`\`\`

1. In a list:

   <!-- ends with 1: a finding -->
   \`\`\`sh
   three <<X
     four
   X
   \`\`\`

<!-- stays: in a terminal of its own -->

\`\`\`sh
five
\`\`\`

\`\`\`json
{}
\`\`\`
`;

Deno.test("readGuide() reads the blocks of shell, what stands in a list without its margin", () => {
  assert.deepEqual(readGuide(GUIDE), [
    { text: "one\n", exit: 0 },
    { text: "two \\\n  more\n", exit: 0, notRun: "needs a second machine" },
    { text: "three <<X\n  four\nX\n", exit: 1 },
    { text: "five\n", exit: 0, stays: true },
  ]);
});

Deno.test.each([
  { path: "deploy/docs/how_to.md", notRun: 11 },
  { path: "deploy/docs/tutorial.md", notRun: 0 },
  { path: "README.md", notRun: 7 },
])("of $path each block is run, or says why not", async ({ path, notRun }) => {
  const markdown = await Deno.readTextFile(new URL(`../../${path}`, import.meta.url));
  const blocks = readGuide(markdown);
  assert.equal(blocks.length, markdown.match(/^ *```sh$/gm)?.length);
  assert.equal(
    markdown.match(/<!--/g)?.length ?? 0,
    blocks.filter(({ notRun, exit, stays }) => notRun || stays || exit > 0).length,
  );
  assert.equal(blocks.filter(({ notRun }) => notRun !== undefined).length, notRun);
});

const UNITS = new URL("../../deploy/systemd/", import.meta.url).pathname;
const NAMES = [...Deno.readDirSync(UNITS)].map(({ name }) => name).filter((name) =>
  name.endsWith(".service")
);
const mayNotAnalyze = isMissing("systemd-analyze", ["/usr/bin/systemd-analyze"]);

/** A unit as systemd would have it, but that what it starts need not be installed here. */
async function withUnit(name: string, test: (path: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "units-" });
  try {
    const path = join(folder, name.replace("@.", "@signer."));
    const text = await Deno.readTextFile(join(UNITS, name));
    await Deno.writeTextFile(path, text.replaceAll(/^(Exec\w+=)\/usr\/(?:bin|lib)\/\S*/gm, "$1/bin/true"));
    await test(path);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test.each(NAMES.map((name) => ({ name, ignore: mayNotAnalyze })))(
  "systemd takes $name without a word",
  ({ name }) =>
    withUnit(name, async (path) => {
      assert.deepEqual(await runProgram("systemd-analyze", "verify", "--man=no", path), {
        code: 0,
        stdout: "",
        stderr: "",
      });
    }),
);

Deno.test.each(NAMES.map((name) => ({ name, ignore: mayNotAnalyze })))(
  "$name is exposed by at most 2.0 of 10",
  ({ name }) =>
    withUnit(name, async (path) => {
      const args = ["security", "--offline=true", "--threshold=20", "--no-pager", path];
      const { code, stdout, stderr } = await runProgram("systemd-analyze", ...args);
      assert.equal(code, 0, stdout + stderr);
    }),
);

Deno.test.each(NAMES.map((name) => ({ name })))(
  "$name is in a package, and may execute what V8 writes",
  async ({ name }) => {
    const packaged = PACKAGES.flatMap(({ files }) => files.map(({ to }) => to.split("/").at(-1)));
    assert.ok(packaged.includes(name));
    assert.doesNotMatch(await Deno.readTextFile(join(UNITS, name)), /^MemoryDenyWriteExecute=/m);
  },
);

Deno.test.each(PACKAGES.map((packaged) => ({ packaged, name: packaged.name })))(
  "$name knows the folders that it makes",
  async ({ packaged: { files, folders = [] } }) => {
    const made: string[] = [];
    for (const { from, to } of files) {
      if (!to.startsWith("usr/lib/tmpfiles.d/")) continue;
      const text = await Deno.readTextFile(new URL(`../../${from}`, import.meta.url));
      made.push(...[...text.matchAll(/^d (\S+)/gm)].map(([, path = ""]) => path));
    }
    assert.deepEqual(folders, made);
  },
);

Deno.test("the image has the label that proves whose it is", async () => {
  const text = await Deno.readTextFile(new URL("../../deploy/image/Containerfile", import.meta.url));
  assert.match(text, /^ARG MCP_NAME$/m);
  assert.match(text, /io\.modelcontextprotocol\.server\.name="\$\{MCP_NAME\}"/);
});
