import { isAmbient, isPure, mayTime } from "./adapters.ts";
import { isBound } from "./bindings.ts";
import { isTest, relativePath } from "./files.ts";

/** Members of globals that say what time it is, give chance, or reach the process. */
const AMBIENT: Readonly<Record<string, readonly string[]>> = {
  Date: ["now"],
  Deno: ["env", "exit", "exitCode"],
  Math: ["random"],
  crypto: ["getRandomValues", "randomUUID"],
};

/** What waits by the machine's clock. */
const TIMERS: readonly string[] = ["setImmediate", "setInterval", "setTimeout"];

/** Globals that a pure file has no use for. */
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

/** Time, chance, environment and exit come from `main.ts` and a few adapters, and from there as parameters. */
export const ambient: Deno.lint.Rule = {
  create(context) {
    const path = relativePath(context.filename);
    if (path === undefined || isAmbient(path)) return {};
    const report = (node: Deno.lint.Node, what: string) =>
      context.report({
        node,
        message: `${what} belongs to main.ts and adapters; take it as a parameter (Clock, Random)`,
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

/** Time passes on an injected clock; who waits for something bounds that with `within()`. */
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

/** Who may write to the folder puts a link in the place of a file before root gives it to him: the link's target is his then. */
export const owners: Deno.lint.Rule = {
  create(context) {
    const path = relativePath(context.filename);
    if (path === undefined || isTest(path)) return {};
    return usesOf({ Deno: ["chown", "chownSync"] }, (node, what) =>
      context.report({
        node,
        message:
          `${what} gives away what lies under the name by then; use chown() of the FileHandle that was opened`,
      }));
  },
};

/** A pure file touches nothing outside itself. */
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
            `${path} is pure and must not use ${node.name}; take what it gives as a parameter, or list the file as an adapter`,
        });
      },
    };
  },
};

/** Finds where members of globals are used, or taken out of them. */
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

/** The global that an expression is: `Deno`, or `globalThis.Deno`. */
export function globalName(node: Deno.lint.Node): string | undefined {
  if (node.type === "Identifier") return node.name;
  if (node.type !== "MemberExpression" || node.object.type !== "Identifier") return undefined;
  return node.object.name === "globalThis" ? propertyName(node) : undefined;
}

/** The name that an expression asks an object for, when it can be seen. */
export function propertyName(node: Deno.lint.MemberExpression): string | undefined {
  if (!node.computed) return node.property.type === "Identifier" ? node.property.name : undefined;
  return node.property.type === "Literal" && typeof node.property.value === "string"
    ? node.property.value
    : undefined;
}

/** Whether an identifier only names something: a key, another object's property, a type. */
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

/** `Deno.errors` are classes to tell errors apart by. */
function isErrorClasses(node: Deno.lint.MemberExpression): boolean {
  return node.object.type === "Identifier" && node.object.name === "Deno" && propertyName(node) === "errors";
}
