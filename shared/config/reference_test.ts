import assert from "node:assert/strict";
import * as z from "@zod/zod";
import { describeConfig } from "./reference.ts";

Deno.test("describeConfig() writes a row for every key at every depth", () => {
  const schema = z.strictObject({
    listen: z.string().default(":1").describe("address"),
    mode: z.enum(["", "a|b"]).exactOptional().describe("one <of> two"),
    count: z.int().min(0).max(9).describe("0 to\n9"),
    hosts: z.record(z.string(), z.strictObject({ port: z.int() })).default({}).describe("hosts"),
    rules: z.array(z.strictObject({ name: z.string() })).describe("rules"),
    size: z.int().default(1).transform((value) => value + 1).describe("size"),
  });
  assert.equal(
    describeConfig({ title: "demo.json", schema }),
    `# demo.json

| Key | Type | Default | Meaning |
|---|---|---|---|
| \`listen\` | string | \`":1"\` | address |
| \`mode\` | \`""\` \`"a\\|b"\` |  | one &lt;of> two |
| \`count\` | integer, 0 to 9 | required | 0 to 9 |
| \`hosts\` | object of object | \`{}\` | hosts |
| \`hosts.<name>.port\` | integer | required |  |
| \`rules\` | array of object | required | rules |
| \`rules[].name\` | string | required |  |
| \`size\` | integer | \`1\` | size |
`,
  );
});
