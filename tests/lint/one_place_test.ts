import { check, type Row } from "./check.ts";

Deno.test.each<Omit<Row, "file">>([
  {
    name: "the text of an unknown error",
    source: "f(error instanceof Error ? error.message : String(error));",
  },
  { name: "its text with another default", source: 'f(cause instanceof Error ? cause.message : "failed");' },
  { name: "its name", source: "f(error instanceof Error ? error.name : typeof error);" },
  { name: "control characters as a class", source: String.raw`/[\p{Cc}\s]/u.test(a);` },
  { name: "control characters as a range", source: String.raw`/[\x00-\x1f]/.test(a);` },
  { name: "the same range in another notation", source: String.raw`/[\u0000-\u0020]/.test(a);` },
  { name: "blanks as a class", source: String.raw`/\p{Z}/u.test(a);` },
  { name: "quoting for a shell", source: String.raw`a.replaceAll("'", "'\\''");` },
  { name: "the label of an elevation", source: "f(`sudo:${user}`);" },
])("gateway/one-place refuses $name", (row) => check({ ...row, file: "signer/a.ts", rule: "one-place" }));

Deno.test.each<Omit<Row, "file"> & { readonly file?: string }>([
  { name: "the definition itself", file: "ctl/setup/init.ts", source: String.raw`/[\p{Cc},]/u.test(a);` },
  { name: "the debate's texts", file: "debate/a.ts", source: String.raw`/[\p{Cc}]/u.test(a);` },
  { name: "tests", file: "signer/a_test.ts", source: "f(error instanceof Error ? error.message : '');" },
  { name: "a part of a known error", source: "f(error instanceof AppError ? error.message : 'x');" },
  { name: "what an error leads to", source: "f(error instanceof Error ? error.cause : undefined);" },
  { name: "other classes", source: String.raw`/[\p{L}\p{N}]/u.test(a);` },
])("gateway/one-place lets $name pass", (row) => check({ file: "signer/a.ts", ...row }));
