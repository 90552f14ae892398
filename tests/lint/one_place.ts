import { isTest, relativePath } from "./files.ts";

/** The files with the definitions, and files that match a smaller set of characters on purpose. */
const MAY_NAME_CHARACTERS: readonly string[] = [
  "shared/text.ts",
  // Characters that RFC 4253 and authorized_keys(5) do not allow in a comment.
  "shared/ssh/keys.ts",
  // Shows approvers the kind of a character.
  "shared/ui/visible_text.tsx",
  // Characters that a permission flag of Deno cannot contain.
  "ctl/setup/init.ts",
];

const CHARACTERS = /\\p\{(?:C[cfo]?|Z[lps]?)\}|\\(?:x00-\\x[12]|u0000-\\u00[12])/;

/** Requires one definition of rules that had many different ones. */
export const onePlace: Deno.lint.Rule = {
  create(context) {
    const path = relativePath(context.filename);
    if (path === undefined || isTest(path)) return {};
    const report = (node: Deno.lint.Node, message: string) => context.report({ node, message });
    return {
      ConditionalExpression(node) {
        const what = errorPart(node);
        if (what === undefined || path === "shared/errors.ts") return;
        report(node, `Use ${FUNCTIONS[what]}() of shared/errors for the ${what} of an unknown error`);
      },
      Literal(node) {
        if (node.value === "'\\''" && path !== "shared/text.ts") {
          report(node, "Use shared/text to quote words for a shell");
        }
        // The debate keeps lines and tabs, and handles no identities.
        const isFree = MAY_NAME_CHARACTERS.includes(path) || path.startsWith("debate/");
        if (!isFree && node.raw.startsWith("/") && CHARACTERS.test(node.raw)) {
          report(node, "Use the definitions of space, control and invisible characters in shared/text");
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

const FUNCTIONS = { message: "errorText", name: "errorName" } as const;

/** Returns the property in `error instanceof Error ? error.message : …`. */
function errorPart(
  { test, consequent }: Deno.lint.ConditionalExpression,
): keyof typeof FUNCTIONS | undefined {
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
