import assert from "node:assert/strict";
import { readGuide } from "./guides.ts";

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
