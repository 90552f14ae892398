import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { allowedSignersLine } from "@gateway/shared/envelope";
import { FORMATS, freshFields, InstalledShim, SIGNER_KEY } from "./installed_shim.ts";
import { SHIMS } from "./shims.ts";

const SENT = ".shell id\n\0rest";
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const FORGED = "the signature is not of a pinned key";
const V2 = "gateway-sealed-exec-v2";
const V3 = "gateway-sealed-exec-v3";

interface StdinCase {
  readonly name: string;
  readonly envelope: string;
  /** What the allowed signers file lets the key sign; both formats when absent. */
  readonly namespaces?: readonly string[];
  /** What `cat` prints, or why the shim refuses it. */
  readonly printed?: string;
  readonly refused?: string;
}

const v2 = () => FORMATS.v2.seal(freshFields({ command: "cat" }), SIGNER_KEY);
const v3 = (stdin: string) => FORMATS.v3.seal(freshFields({ command: "cat", stdin }), SIGNER_KEY);
const MALFORMED = "the stdin is malformed";

const cases = (): readonly StdinCase[] => [
  { name: "none", envelope: v3("none"), printed: "" },
  { name: "the SHA-256 of what is sent", envelope: v3(sha256(SENT)), printed: SENT },
  {
    name: "the SHA-256 of something else",
    envelope: v3(sha256("other")),
    refused: "the stdin is not what the signer has signed",
  },
  { name: "watch", envelope: v3("watch"), printed: SENT },
  { name: "any", envelope: v3("any"), refused: MALFORMED },
  { name: "a digest of 63 digits", envelope: v3("a".repeat(63)), refused: MALFORMED },
  { name: "a digest in capitals", envelope: v3(sha256(SENT).toUpperCase()), refused: MALFORMED },
  { name: "a path for a digest", envelope: v3(`../${"a".repeat(61)}`), refused: MALFORMED },
  { name: "nothing of it, in v2", envelope: v2(), printed: SENT },
  { name: "none, sent as v2", envelope: v3("none").replace("v3.", ""), refused: FORGED },
  { name: "nothing of it, sent as v3", envelope: `v3.${v2()}`, refused: FORGED },
  { name: "none, to a host of before v3", envelope: v3("none"), namespaces: [V2], refused: FORGED },
  { name: "nothing of it, to a host that pins v3", envelope: v2(), namespaces: [V3], refused: FORGED },
  { name: "none, to a host that pins v3", envelope: v3("none"), namespaces: [V3], printed: "" },
];

for (const { name: shimName, shell } of SHIMS.filter(({ format }) => format.name === "v2")) {
  for (const { name } of cases()) {
    Deno.test(`${shimName}, given an envelope whose stdin is ${name}, keeps to it`, async () => {
      const row = cases().find((each) => each.name === name)!;
      await using shim = await InstalledShim.create(FORMATS.v3, shell);
      await shim.writeKeys(allowedSignersLine(SIGNER_KEY, row.namespaces ?? [V2, V3]));
      const { code, stdout, stderr } = await shim.run(row.envelope, { stdin: SENT });
      assert.deepEqual({ code, stdout, stderr }, {
        code: row.refused === undefined ? 0 : 126,
        stdout: row.printed ?? "",
        stderr: row.refused === undefined ? "" : `gateway-shim: refused: ${row.refused}\n`,
      });
      const left = shim.claims().flatMap((claim) => [...Deno.readDirSync(`${shim.store}/${claim}`)]);
      assert.deepEqual(left, [], "the copy of the input is removed");
    });
  }
}
