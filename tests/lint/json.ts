import { isTest, relativePath } from "./files.ts";
import { globalName, isNameOnly, propertyName } from "./globals.ts";

/** The door; the pages of the debate are read by a browser, from the server that sent them only. */
const MAY_PARSE = ["shared/json.ts", "shared/json.ts", "debate/web/page/"];

const MESSAGE = "The engine misreads JSON from outside: parse it with shared/json.ts";

/** JSON is parsed in one place. */
export const json: Deno.lint.Rule = {
  create(context) {
    const path = relativePath(context.filename);
    if (path === undefined || isTest(path) || MAY_PARSE.some((entry) => path.startsWith(entry))) return {};
    const report = (node: Deno.lint.Node) => context.report({ node, message: MESSAGE });
    /** `node` is `JSON` itself; it may not go anywhere under another name. */
    const check = (node: Deno.lint.Node & { readonly parent: Deno.lint.Node }) => {
      const { parent } = node;
      const isUsed = parent.type === "MemberExpression" && parent.object === node;
      if (!isUsed || propertyName(parent) !== "stringify") report(node);
    };
    return {
      Identifier(node) {
        if (node.name !== "JSON") return;
        const { parent } = node;
        if (parent.type === "Property" && parent.parent.type === "ObjectPattern") return report(node);
        if (isNameOnly(node)) return;
        if (parent.type !== "MemberExpression" || parent.property !== node) check(node);
      },
      MemberExpression(node) {
        if (globalName(node) === "JSON") check(node);
      },
      CallExpression({ callee, arguments: args }) {
        // Of a Request or Response; with an argument it is an answer to be written.
        const member = callee.type === "ChainExpression" ? callee.expression : callee;
        const isRead = member.type === "MemberExpression" && propertyName(member) === "json";
        if (isRead && args.length === 0) report(member);
      },
      ImportSpecifier(node) {
        const { source } = node.parent;
        if (source?.value === "node:stream/consumers") report(node);
      },
    };
  },
};
