import { isTest, memberOf, relativePath } from "./files.ts";

/** Requires a docstring for each export and each door of `shared`. */
export const documented: Deno.lint.Rule = {
  create(context) {
    const path = relativePath(context.filename);
    const member = path === undefined ? undefined : memberOf(path);
    if (path === undefined || member !== "shared" || isTest(path)) return {};
    const report = (node: Deno.lint.Node, message: string) => context.report({ node, message });
    return {
      Program(node) {
        const [first] = context.sourceCode.getAllComments();
        if (!/^shared\/(?:[^/]+|[^/]+\/mod)\.ts$/.test(path)) return;
        if (first?.type === "Block" && first.value.includes("@module")) return;
        report(node, "A door of shared must start with a /** … @module */ comment");
      },
      ExportNamedDeclaration(node) {
        const { declaration } = node;
        if (declaration === null) return;
        if (!hasDocstring(node, context.sourceCode)) {
          report(node, "Describe this export in a /** */ comment");
        }
      },
    };
  },
};

function hasDocstring(node: Deno.lint.Node, source: Deno.lint.SourceCode): boolean {
  const [start] = node.range;
  const comment = source.getAllComments().findLast(({ type, value, range }) =>
    type === "Block" && value.startsWith("*") && !value.includes("@module") && range[1] <= start
  );
  if (comment === undefined) return false;
  return /^(?:\s|\/\/[^\n]*\n|\/\*(?:[^*]|\*(?!\/))*\*\/)*$/.test(source.text.slice(comment.range[1], start));
}
