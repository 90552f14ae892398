import assert from "node:assert/strict";
import { mendCommonJs } from "./bundle.ts";

function mend(text: string): string | undefined {
  const lib = "var require_lib = f();\nexport default require_lib();\n";
  const files = [["/out/main.js", text], ["/out/lib-A1.js", lib], [
    "/out/esm-B2.js",
    "export { a };\n",
  ]] as const;
  return mendCommonJs(new Map(files)).get("/out/main.js");
}

Deno.test.each([
  {
    name: "gives CommonJS the folder that it is in",
    text: "f(__dirname);\n",
    expected: "var __dirname = import.meta.dirname;\nf(__dirname);\n",
  },
  {
    name: "gives it beside a package's own, which is there once that is loaded",
    text: "var a, __dirname, b;\nf(__dirname);\n",
    expected: "var __dirname = import.meta.dirname;\nvar a, __dirname, b;\nf(__dirname);\n",
  },
  { name: "leaves a file that has one", text: "const __dirname = d();\nf(__dirname);\n" },
  { name: "leaves a file that needs none", text: "f(import.meta.dirname);\n" },
  {
    name: "gives what is loaded on demand its exports by their names",
    text: 'const { Client } = await import("./lib-A1.js");\n',
    expected: 'const { Client } = await import("./lib-A1.js").then((module) => module.default);\n',
  },
  { name: "leaves what has names", text: 'const { a } = await import("./esm-B2.js");\n' },
])("mendCommonJs() $name", ({ text, expected }) => {
  assert.equal(mend(text), expected ?? text);
});
