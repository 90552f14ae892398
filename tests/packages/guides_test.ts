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

<!-- stays: runs in a separate terminal -->

\`\`\`sh
five
\`\`\`

\`\`\`json
{}
\`\`\`
`;

Deno.test("readGuide() reads shell blocks, and removes the indentation of a list", () => {
  assert.deepEqual(readGuide(GUIDE), [
    { text: "one\n", exit: 0 },
    { text: "two \\\n  more\n", exit: 0, notRun: "needs a second machine" },
    { text: "three <<X\n  four\nX\n", exit: 1 },
    { text: "five\n", exit: 0, stays: true },
  ]);
});

Deno.test.each([
  { path: "deploy/docs/how_to.md", notRun: 11 },
  { path: "docs/tutorial.md", notRun: 0 },
  { path: "README.md", notRun: 7 },
])("$path gives a reason for each shell block that is not run", async ({ path, notRun }) => {
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

/** Copies a unit and replaces its programs, which are not installed here, by `/bin/true`. */
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
  "systemd-analyze verify accepts $name without warnings",
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
  "$name has an exposure level of at most 2.0 of 10",
  ({ name }) =>
    withUnit(name, async (path) => {
      const args = ["security", "--offline=true", "--threshold=20", "--no-pager", path];
      const { code, stdout, stderr } = await runProgram("systemd-analyze", ...args);
      assert.equal(code, 0, stdout + stderr);
    }),
);

Deno.test.each(NAMES.map((name) => ({ name })))(
  "$name is in a package and does not set MemoryDenyWriteExecute, which V8 does not support",
  async ({ name }) => {
    const packaged = PACKAGES.flatMap(({ files }) => files.map(({ to }) => to.split("/").at(-1)));
    assert.ok(packaged.includes(name));
    assert.doesNotMatch(await Deno.readTextFile(join(UNITS, name)), /^MemoryDenyWriteExecute=/m);
  },
);

Deno.test.each(PACKAGES.map((packaged) => ({ packaged, name: packaged.name })))(
  "$name lists the directories of its tmpfiles.d files",
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

Deno.test("the image has the label with its MCP server name", async () => {
  const text = await Deno.readTextFile(new URL("../../deploy/image/Containerfile", import.meta.url));
  assert.match(text, /^ARG MCP_NAME$/m);
  assert.match(text, /io\.modelcontextprotocol\.server\.name="\$\{MCP_NAME\}"/);
});
