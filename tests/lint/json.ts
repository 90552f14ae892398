import { PAGES } from "./adapters.ts";
import { isTest, relativePath } from "./files.ts";
import { globalName, isNameOnly, propertyName } from "./globals.ts";

/** The parser itself, and the debate's page: a browser runs it and it reads only its server's responses. */
const MAY_PARSE = ["shared/json.ts", ...PAGES];

const MESSAGE = "The engine misreads JSON from outside: parse it with shared/json.ts";

/** Requires one place for parsing JSON. */
export const json: Deno.lint.Rule = {
  create(context) {
    const path = relativePath(context.filename);
    if (path === undefined || isTest(path) || MAY_PARSE.some((entry) => path.startsWith(entry))) return {};
    const report = (node: Deno.lint.Node) => context.report({ node, message: MESSAGE });
    /** Reports `JSON` itself, unless it is used as `JSON.stringify`: an alias could hide a parser. */
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
        // `.json()` of a Request or Response reads. With an argument, it creates a response.
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
