import { check, MODULE, type Row } from "./check.ts";

Deno.test.each<Row>([
  {
    name: "a door of shared without description",
    file: "shared/a.ts",
    source: "const a = 1;",
    rule: "documented",
  },
  {
    name: "an export of shared",
    file: "shared/a.ts",
    source: `${MODULE}export const a = 1;`,
    rule: "documented",
  },
  {
    name: "an export whose comment belongs to what is before it",
    file: "shared/a.ts",
    source: `${MODULE}/** Of a. */\nexport const a = 1;\nexport function b() {}`,
    rule: "documented",
  },
  {
    name: "a line comment",
    file: "shared/a.ts",
    source: `${MODULE}// A.\nexport const a = 1;`,
    rule: "documented",
  },
])("gateway/documented refuses $name", check);

Deno.test.each<Row>([
  {
    name: "what has its comment",
    file: "shared/a.ts",
    source: `${MODULE}/** A. */\n// why\nexport const a = 1;`,
  },
  { name: "what is not exported", file: "shared/a.ts", source: `${MODULE}const a = 1;` },
  { name: "interfaces of members", file: "signer/a.ts", source: "export interface A {}" },
  { name: "a file behind a door", file: "shared/policy/a.ts", source: "const a = 1;" },
  { name: "functions of members", file: "signer/a.ts", source: "export function a() {}" },
  { name: "tests", file: "shared/a_test.ts", source: "export const a = 1;" },
])("gateway/documented lets $name pass", check);
