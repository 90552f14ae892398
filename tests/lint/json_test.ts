import { check, MODULE, type Row } from "./check.ts";

Deno.test.each<Row>([
  { name: "JSON.parse", file: "signer/a.ts", source: "JSON.parse(a);" },
  { name: "JSON.parse in a debate", file: "debate/web/a.ts", source: "JSON.parse(a);" },
  { name: "JSON.parse in a script of deploy", file: "deploy/a.ts", source: "JSON.parse(a);" },
  { name: "JSON.parse handed on", file: "ctl/a.ts", source: "texts.map(JSON.parse);" },
  { name: "JSON.parse in brackets", file: "ctl/a.ts", source: 'JSON["parse"](a);' },
  { name: "JSON.parse under a computed name", file: "ctl/a.ts", source: "JSON[name](a);" },
  { name: "JSON.parse by globalThis", file: "ctl/setup/a.ts", source: "globalThis.JSON.parse(a);" },
  {
    name: "JSON.parse by globalThis in brackets",
    file: "ctl/setup/a.ts",
    source: 'globalThis["JSON"].parse(a);',
  },
  { name: "JSON.parse with ?.", file: "ctl/a.ts", source: "JSON?.parse(a);" },
  { name: "JSON.parse behind a cast", file: "ctl/a.ts", source: "(JSON as Parser).parse(a);" },
  { name: "JSON under another name", file: "ctl/a.ts", source: "const json = JSON;" },
  { name: "parse taken out of JSON", file: "ctl/a.ts", source: "const { parse } = JSON;" },
  { name: "JSON as an argument", file: "ctl/a.ts", source: "read(JSON);" },
  {
    name: "JSON taken out of globalThis",
    file: "ctl/setup/a.ts",
    source: "const { JSON: json } = globalThis;",
  },
  { name: "a Response that parses", file: "broker/a.ts", source: "await response.json();" },
  { name: "a request of hono that parses", file: "broker/a.ts", source: "await c.req.json();" },
  { name: "a Response that may parse", file: "broker/a.ts", source: "await response?.json();" },
  { name: "a Blob that parses", file: "broker/a.ts", source: 'await new Response(blob)["json"]();' },
  {
    name: "a stream that parses",
    file: "ctl/setup/a.ts",
    source: 'import { json } from "node:stream/consumers";',
  },
].map((row) => ({ ...row, rule: "json" })))("gateway/json refuses $name", check);

Deno.test.each<Row>([
  { name: "the door", file: "shared/json.ts", source: `${MODULE}JSON.parse(a); const json = JSON;` },
  { name: "tests", file: "signer/a_test.ts", source: "JSON.parse(await response.json());" },
  { name: "help to tests", file: "signer/testing/a.ts", source: "JSON.parse(a);" },
  { name: "pages for a browser", file: "debate/web/page/a.js", source: "JSON.parse(await response.json());" },
  {
    name: "what writes",
    file: "ctl/setup/a.ts",
    source: "JSON.stringify(a); globalThis.JSON.stringify(a);",
  },
  { name: "an answer", file: "signer/a.ts", source: "Response.json({}); c.json(problem, 400);" },
  { name: "an option", file: "ctl/a.ts", source: "if (options.json) print({ JSON: 1 });" },
  { name: "a type", file: "ctl/a.ts", source: "let a: JSON;" },
])("gateway/json lets $name pass", check);
