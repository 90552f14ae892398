import { isAmbient, isPure, mayTime } from "./adapters.ts";
import { isBound } from "./bindings.ts";
import { isTest, relativePath } from "./files.ts";

/** Members of globals for time, randomness, environment and process. */
const AMBIENT: Readonly<Record<string, readonly string[]>> = {
  Date: ["now"],
  Deno: ["env", "exit", "exitCode"],
  Math: ["random"],
  crypto: ["getRandomValues", "randomUUID"],
};

/** Functions that wait by the clock of the machine. */
const TIMERS: readonly string[] = ["setImmediate", "setInterval", "setTimeout"];

/** Globals that a pure file must not use. */
const IMPURE: readonly string[] = [
  "BroadcastChannel",
  "Deno",
  "EventSource",
  "WebSocket",
  "Worker",
  "console",
  "fetch",
  "globalThis",
  "localStorage",
  "performance",
  "process",
  "queueMicrotask",
  "self",
  "sessionStorage",
];

/** Allows time, randomness, environment and exit only in `main.ts` and a few adapters, which pass them as parameters. */
export const ambient: Deno.lint.Rule = {
  create(context) {
    const path = relativePath(context.filename);
    if (path === undefined || isAmbient(path)) return {};
    const report = (node: Deno.lint.Node, what: string) =>
      context.report({
        node,
        message: `${what} belongs in main.ts and adapters; pass it as a parameter (Clock, Random)`,
      });
    return {
      ...usesOf(AMBIENT, report),
      NewExpression(node) {
        if (globalName(node.callee) === "Date" && node.arguments.length === 0) report(node, "new Date()");
      },
      CallExpression(node) {
        if (globalName(node.callee) === "Date") report(node, "Date()");
      },
    };
  },
};

/** Requires an injected clock for waits, and `within()` for their limits. */
export const timers: Deno.lint.Rule = {
  create(context) {
    const path = relativePath(context.filename);
    if (path === undefined || mayTime(path)) return {};
    const report = (node: Deno.lint.Node, what: string) =>
      context.report({
        node,
        message: `${what} waits by the machine's clock; use Clock.sleep() or within()`,
      });
    return {
      ...usesOf({ AbortSignal: ["timeout"], globalThis: TIMERS }, report),
      Identifier(node) {
        const isMember = node.parent.type === "MemberExpression" && node.parent.property === node;
        const isImported = node.parent.type === "ImportSpecifier";
        if (TIMERS.includes(node.name) && !isNameOnly(node) && !isMember && !isImported) {
          report(node, node.name);
        }
      },
      ImportDeclaration(node) {
        if (/^(?:node:)?timers(?:\/|$)/.test(node.source.value)) report(node, node.source.value);
      },
    };
  },
};

/** Rejects `chown` by path: an attacker who can write to the directory could replace the file by a link to another file. */
export const owners: Deno.lint.Rule = {
  create(context) {
    const path = relativePath(context.filename);
    if (path === undefined || isTest(path)) return {};
    return usesOf({ Deno: ["chown", "chownSync"] }, (node, what) =>
      context.report({
        node,
        message: `${what} follows a link that replaced the file; use chown() of the open FileHandle`,
      }));
  },
};

/** Rejects globals with side effects in pure files. */
export const pure: Deno.lint.Rule = {
  create(context) {
    const path = relativePath(context.filename);
    if (path === undefined || !isPure(path)) return {};
    return {
      Identifier(node) {
        if (!IMPURE.includes(node.name) || isNameOnly(node) || isBound(node, context)) return;
        context.report({
          node,
          message:
            `${path} is pure and must not use ${node.name}; pass the result as a parameter, or list the file as an adapter`,
        });
      },
    };
  },
};

/** Finds uses and destructured members of globals. */
function usesOf(
  members: Readonly<Record<string, readonly string[]>>,
  report: (node: Deno.lint.Node, what: string) => void,
): Pick<Deno.lint.LintVisitor, "MemberExpression" | "VariableDeclarator"> {
  return {
    MemberExpression(node) {
      const [object, property] = [globalName(node.object), propertyName(node)];
      if (object !== undefined && property !== undefined && members[object]?.includes(property)) {
        report(node, `${object}.${property}`);
      }
    },
    VariableDeclarator(node) {
      const object = node.init === null ? undefined : globalName(node.init);
      if (object === undefined || node.id.type !== "ObjectPattern") return;
      for (const property of node.id.properties) {
        const name = property.type === "Property" && property.key.type === "Identifier"
          ? property.key.name
          : "";
        if (members[object]?.includes(name)) report(node, `${object}.${name}`);
      }
    },
  };
}

/** Returns the global of an expression: `Deno`, or `globalThis.Deno`. */
export function globalName(node: Deno.lint.Node): string | undefined {
  if (node.type === "Identifier") return node.name;
  if (node.type !== "MemberExpression" || node.object.type !== "Identifier") return undefined;
  return node.object.name === "globalThis" ? propertyName(node) : undefined;
}

/** Returns the property name of a member expression, if it is constant. */
export function propertyName(node: Deno.lint.MemberExpression): string | undefined {
  if (!node.computed) return node.property.type === "Identifier" ? node.property.name : undefined;
  return node.property.type === "Literal" && typeof node.property.value === "string"
    ? node.property.value
    : undefined;
}

/** True if an identifier is only a name: a key, a property of another object, or a type. */
export function isNameOnly(node: Deno.lint.Identifier): boolean {
  const { parent } = node;
  switch (parent.type) {
    case "MemberExpression":
      return (parent.property === node && !parent.computed) || isErrorClasses(parent);
    case "Property":
    case "PropertyDefinition":
    case "MethodDefinition":
      return parent.key === node && !parent.computed;
    case "TSQualifiedName":
    case "TSPropertySignature":
    case "TSMethodSignature":
    case "TSTypeReference":
    case "TSTypeQuery":
      return true;
    default:
      return false;
  }
}

/** True for `Deno.errors`, whose classes have no side effects. */
function isErrorClasses(node: Deno.lint.MemberExpression): boolean {
  return node.object.type === "Identifier" && node.object.name === "Deno" && propertyName(node) === "errors";
}
