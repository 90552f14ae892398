import {
  isContract,
  isForDebate,
  isPure,
  isTest,
  mayBuildOn,
  memberOf,
  relativePath,
  resolveImport,
} from "./files.ts";

/** One import, of a value or a type. */
export interface Import {
  readonly specifier: string;
  readonly isType: boolean;
  /** The names that are taken, as they are called where they come from; none for a whole module. */
  readonly names: readonly string[];
}

/** Modules that do something, and what of them is a mere function. */
const IMPURE_MODULES: Readonly<Record<string, readonly string[]>> = {
  "node:child_process": [],
  "node:dgram": [],
  "node:dns": [],
  "node:fs": [],
  "node:fs/promises": [],
  "node:http": [],
  "node:https": [],
  "node:net": ["BlockList", "isIP", "isIPv4", "isIPv6"],
  "node:os": [],
  "node:process": [],
  "node:sqlite": [],
  "node:timers": [],
  "node:timers/promises": [],
  "node:tls": [],
};

const CHANCE = /^(?:random|generateKey|webcrypto)/;

/** Who may import whom (architecture.md). */
export const imports: Deno.lint.Rule = {
  create(context) {
    const from = relativePath(context.filename);
    if (from === undefined) return {};
    return visitImports((node, imported) => {
      const message = judge(from, imported);
      if (message !== undefined) context.report({ node, message });
    });
  },
};

/** A visitor that is told of every import of a file, by whatever syntax. */
export function visitImports(
  check: (node: Deno.lint.Node, imported: Import) => void,
): Deno.lint.LintVisitor {
  return {
    ImportDeclaration(node) {
      const names = node.specifiers.flatMap((specifier) =>
        specifier.type === "ImportSpecifier" ? [nameOf(specifier.imported)] : []
      );
      const isWhole = node.specifiers.length === 0 || names.length < node.specifiers.length;
      const isType = node.importKind === "type";
      check(node, { specifier: node.source.value, isType, names: isWhole ? [] : names });
    },
    ExportNamedDeclaration(node) {
      if (node.source === null) return;
      check(node, { specifier: node.source.value, isType: node.exportKind === "type", names: [] });
    },
    ExportAllDeclaration(node) {
      check(node, { specifier: node.source.value, isType: node.exportKind === "type", names: [] });
    },
    ImportExpression(node) {
      if (node.source.type !== "Literal" || typeof node.source.value !== "string") return;
      check(node, { specifier: node.source.value, isType: false, names: [] });
    },
    TSImportType(node) {
      const { argument } = node;
      if (argument.type !== "TSLiteralType" || argument.literal.type !== "Literal") return;
      check(node, { specifier: String(argument.literal.value), isType: true, names: [] });
    },
  };
}

function nameOf(name: Deno.lint.Identifier | Deno.lint.StringLiteral): string {
  return name.type === "Identifier" ? name.name : name.value;
}

function judge(from: string, imported: Import): string | undefined {
  const { specifier } = imported;
  if (/^(?:npm|jsr|https?):/.test(specifier)) {
    return "Packages are named and pinned in the imports of the root deno.json";
  }
  const target = resolveImport(specifier, from);
  if (target === undefined) return isPure(from) ? judgeBuiltIn(imported) : undefined;
  const [importer, owner] = [memberOf(from), memberOf(target)];
  if (importer === undefined || importer === "tests") return undefined;
  if (owner !== importer && owner !== "shared" && !isContract(specifier, from)) {
    return `${importer} may import shared and itself, not ${
      owner ?? target
    }: what two members agree on is a type in shared/wire`;
  }
  if (importer === "debate" && owner === "shared" && !isForDebate(target)) {
    return `debate has nothing to do with access and must not import ${target}`;
  }
  if (isTest(target) && !isTest(from)) return `${target} is for tests`;
  if (importer === "shared" && !mayBuildOn(from, target)) {
    return `${from} must not know ${target}: the topics of shared are in layers, see SHARED_TOPICS`;
  }
  if (isPure(from) && !isPure(target) && !imported.isType) {
    return `${from} is pure and must not import ${target}, which is not; take what it gives as a parameter`;
  }
  return undefined;
}

function judgeBuiltIn({ specifier, names, isType }: Import): string | undefined {
  if (isType) return undefined;
  const harmless = IMPURE_MODULES[specifier];
  if (harmless !== undefined && (names.length === 0 || names.some((name) => !harmless.includes(name)))) {
    return `A pure file must not use ${specifier}; take what it gives as a parameter`;
  }
  const chance = specifier === "node:crypto" ? names.find((name) => CHANCE.test(name)) : undefined;
  return chance === undefined
    ? undefined
    : `A pure file must not make chance with ${chance}; take bytes as a parameter`;
}
