import { isTest, relativePath } from "./files.ts";

/** Where the definitions stand, and who looks for fewer characters on purpose. */
const MAY_NAME_CHARACTERS: readonly string[] = [
  "shared/text.ts",
  // What RFC 4253 and authorized_keys(5) leave out of a comment.
  "shared/ssh/keys.ts",
  // Tells the reader which kind a character is of.
  "control_plane/pages/html.ts",
  // What a permission flag of Deno can't hold.
  "ctl/setup/init.ts",
];

const CHARACTERS = /\\p\{(?:C[cfo]?|Z[lps]?)\}|\\(?:x00-\\x[12]|u0000-\\u00[12])/;

/** Rules that once stood in many places, each a little different, have one. */
export const onePlace: Deno.lint.Rule = {
  create(context) {
    const path = relativePath(context.filename);
    if (path === undefined || isTest(path)) return {};
    const report = (node: Deno.lint.Node, message: string) => context.report({ node, message });
    return {
      ConditionalExpression(node) {
        const what = errorPart(node);
        if (what === undefined || path === "shared/errors.ts") return;
        report(node, `The ${what} of an unknown error is told by ${TOLD_BY[what]}() of shared/errors`);
      },
      Literal(node) {
        if (node.value === "'\\''" && path !== "shared/text.ts") {
          report(node, "Words for a shell are quoted by shared/text");
        }
        // The debate keeps lines and tabs, and has nothing to do with identities.
        const isFree = MAY_NAME_CHARACTERS.includes(path) || path.startsWith("debate/");
        if (!isFree && node.raw.startsWith("/") && CHARACTERS.test(node.raw)) {
          report(node, "Blank, control and unseen characters are defined by shared/text");
        }
      },
      TemplateElement(node) {
        if (node.raw.endsWith("sudo:") && path !== "shared/policy/shell.ts") {
          report(
            node,
            "What a request is elevated to is told by elevationLabel() of shared/policy/shell",
          );
        }
      },
    };
  },
};

const TOLD_BY = { message: "errorText", name: "errorName" } as const;

/** What `error instanceof Error ? error.message : …` asks for. */
function errorPart({ test, consequent }: Deno.lint.ConditionalExpression): keyof typeof TOLD_BY | undefined {
  if (test.type !== "BinaryExpression" || test.operator !== "instanceof") return undefined;
  if (test.right.type !== "Identifier" || test.right.name !== "Error" || test.left.type !== "Identifier") {
    return undefined;
  }
  if (consequent.type !== "MemberExpression" || consequent.object.type !== "Identifier") return undefined;
  if (consequent.object.name !== test.left.name || consequent.property.type !== "Identifier") {
    return undefined;
  }
  const { name } = consequent.property;
  return name === "message" || name === "name" ? name : undefined;
}
