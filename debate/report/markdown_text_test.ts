import fc from "fast-check";
import markdownIt from "markdown-it";
import assert from "node:assert/strict";
import { assertLinearWork } from "@gateway/shared/testing";
import { embedded, fenced, inline } from "./markdown_text.ts";

Deno.test.each([
  { name: "lowers headings", given: "# a\n## b", expected: "##### a\n\n###### b" },
  { name: "closes an open fence", given: "```js\nx", expected: "```js\nx\n```" },
  { name: "leaves code alone", given: "```\n# a\n<b>\n```", expected: "```\n# a\n<b>\n```" },
  { name: "leaves code in lines alone", given: "`<b>` <b>", expected: "`<b>` &lt;b&gt;" },
  { name: "lets no picture call home", given: "![x](http://a)", expected: "\\!\\[x\\](http\\://a)" },
  { name: "lowers an underlined heading", given: "a\n---", expected: "###### a" },
  {
    name: "keeps links to the web",
    given: "[a](http://b/ 'c') <http://d>",
    expected: "[a](<http://b/>) [http\\://d](<http://d>)",
  },
  {
    name: "keeps no other links",
    given: "[a](javascript:b) [c](file:///d) [e](f)",
    expected: "\\[a\\](javascript:b) \\[c\\](file\\:///d) e",
  },
  {
    name: "keeps tables",
    given: "|a|b|\n|:-|-:|\n|`x\\|y`|*z*|",
    expected: "| a | b |\n| :--- | ---: |\n| `x\\|y` | *z* |",
  },
  {
    name: "keeps nested lists",
    given: "1. a\n   - b\n\n     c\n2. d",
    expected: "1. a\n   - b\n\n     c\n2. d",
  },
  { name: "keeps quotes", given: "> a\n> - b", expected: "> a\n>\n> - b" },
  {
    name: "lets no address take along what escapes a tag",
    given: "http://a<b> www.a`<b>`",
    expected: "http\\://a&lt;b&gt; www\\.a`<b>`",
  },
  { name: "keeps rules", given: "a\n\n---\n\nb", expected: "a\n\n***\n\nb" },
  { name: "keeps code with backticks in it", given: "``a`b`` `` ` ``", expected: "``a`b`` `` ` ``" },
  { name: "takes no character reference for a line end", given: "a&#10;# b", expected: "a \\# b" },
  {
    name: "shows what nests too deeply as it is",
    given: `${">".repeat(200)}a`,
    expected: `\`\`\`\n${">".repeat(200)}a\n\`\`\``,
  },
  { name: "keeps lists", given: "- a\n- b", expected: "- a\n- b" },
  { name: "drops control characters", given: "a\u001b[31mb\u0000", expected: "a\\[31mb" },
])("embedded() $name", ({ given, expected }) => {
  assert.equal(embedded(given), expected);
});

Deno.test("inline() is one line without meaning", () => {
  assert.equal(inline("a\n# <b>*c*|[d](e)`"), "a \\# &lt;b&gt;\\*c\\*\\|\\[d\\](e)\\`");
});

Deno.test("fenced() cannot be closed from inside", () => {
  assert.equal(fenced("````\nx\n"), "`````\n````\nx\n`````");
});

/** Everything that a reader which knows HTML finds in a report around a text. */
function readReport(text: string) {
  const report = `### Someone\n\n${embedded(text)}\n\n## After\n`;
  const tokens = markdownIt("commonmark", { html: true, maxNesting: 1000 }).enable("table").parse(report, {});
  const all = tokens.flatMap((token) => [token, ...token.children ?? []]);
  const live = all.filter(({ type }) => /^html_|^image$/.test(type)).map(({ content }) => content);
  const headings = tokens.flatMap((token, index) =>
    token.type === "heading_open" ? [`${token.level} ${token.tag} ${tokens[index + 1]?.content}`] : []
  );
  return { report, live, headings };
}

const IMG = "<img src=http://evil.test/x>";

Deno.test.each([
  { name: "a code span that opens after an escaped backtick", given: `\\\` ${IMG} \`` },
  { name: "a code span with fewer backticks on its other side", given: `\`a\`\` ${IMG} \`\`b` },
  { name: "a code span over two lines", given: `\`a\n\` ${IMG} \`b\`` },
  { name: "a fence in a list, which ends with its item", given: `- a\n  \`\`\`\n  b\n\n${IMG}` },
  { name: "a fence behind a list's bullet", given: `- \`\`\`\n  b\n\n${IMG}\n\n\`\`\`` },
  { name: "a fence in a quote", given: `> \`\`\`\n\n${IMG}` },
  { name: "a fence that a tab indents", given: `1. a\n\n\t\`\`\`\n\tb\n\n${IMG}` },
  { name: "a tilde fence with backticks behind it", given: `~~~ \`\n${IMG}\n~~~\n${IMG}` },
  { name: "an HTML comment", given: `<!-- a\n\n${IMG}` },
  { name: "an HTML block", given: `<details><summary>a\n\n${IMG}` },
  { name: "a processing instruction", given: "<?a\n\nb" },
  { name: "a picture by reference", given: "![a][b]\n\n[b]: http://evil.test/x" },
  { name: "a picture in a table", given: "|a|\n|-|\n|![b](http://evil.test/x)|" },
  { name: "a picture in a link", given: "[![a](http://evil.test/x)](http://b)" },
])("embedded() lets nothing out of $name", ({ given }) => {
  const { live, headings, report } = readReport(given);
  assert.deepEqual(live, [], report);
  assert.deepEqual([headings[0], headings.at(-1)], ["0 h3 Someone", "0 h2 After"], report);
});

Deno.test("embedded() lets nothing out of any mixture of marks", () => {
  const piece = fc.constantFrom(
    ..."`,``,```,~~~,\n,\n\n,\t, ,    ,- ,1. ,> ,# ,---,===,*,**,_,|,|-|-|,[,](,),!,<,>,\\,&#10;,&lt;,&#96;,<b>,<!--,-->,a,b c,http://x,:,[a]: http://y,{,}"
      .split(","),
    IMG,
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const { live, headings, report } = readReport(pieces.join(""));
      assert.deepEqual(live, [], report);
      assert.deepEqual([headings[0], headings.at(-1)], ["0 h3 Someone", "0 h2 After"], report);
      for (const heading of headings.slice(1, -1)) assert.match(heading, /^\d+ h[56] /, report);
    }),
    { numRuns: 5000 },
  );
});

Deno.test.each(
  ["_a", "**a", "[](", "> - ", "1. ", "`", "<a ", "|a", "*a_ ", "[a]: <b>\n"].map((unit) => ({ unit })),
)(
  "embedded() takes linear time for $unit without end",
  ({ unit }) => assertLinearWork((size) => embedded(unit.repeat(size)), 2_000),
);
