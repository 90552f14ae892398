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

\`\`\`json
{}
\`\`\`
`;

Deno.test("readGuide() reads the blocks of shell, what stands in a list without its margin", () => {
  assert.deepEqual(readGuide(GUIDE), [
    { text: "one\n", exit: 0 },
    { text: "two \\\n  more\n", exit: 0, notRun: "needs a second machine" },
    { text: "three <<X\n  four\nX\n", exit: 1 },
  ]);
});

Deno.test("of the guides each block is run, or says why not", async () => {
  const markdown = await Deno.readTextFile(new URL("../../deploy/docs/how_to.md", import.meta.url));
  const blocks = readGuide(markdown);
  assert.equal(blocks.length, markdown.match(/^ *```sh$/gm)?.length);
  assert.equal(
    markdown.match(/<!--/g)?.length,
    blocks.filter(({ notRun, exit }) => notRun || exit > 0).length,
  );
  assert.equal(blocks.filter(({ notRun }) => notRun !== undefined).length, 10);
});
