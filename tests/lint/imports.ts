import { isHarmless, isHarmlessDoor, isPure } from "./adapters.ts";
import {
  isContract,
  isForDebate,
  isTest,
  mayBuildOn,
  memberOf,
  relativePath,
  resolveImport,
} from "./files.ts";

/** An import of a value or a type. */
export interface Import {
  readonly specifier: string;
  /** True if no code of the module runs: a type, or a file imported as text. */
  readonly isType: boolean;
  /** The imported names, as the module exports them; empty for a whole module. */
  readonly names: readonly string[];
}

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

/** Returns a visitor that reports every import of a file, in any syntax. */
export function visitImports(
  check: (node: Deno.lint.Node, imported: Import) => void,
): Deno.lint.LintVisitor {
  return {
    ImportDeclaration(node) {
      const values = node.specifiers.filter((specifier) =>
        specifier.type !== "ImportSpecifier" || specifier.importKind !== "type"
      );
      const names = values.flatMap((specifier) =>
        specifier.type === "ImportSpecifier" ? [nameOf(specifier.imported)] : []
      );
      const isText = node.attributes.some(({ value }) => value.value === "text");
      const isType = node.importKind === "type" || isText ||
        (values.length === 0 && node.specifiers.length > 0);
      const isWhole = names.length < values.length;
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
    return "Add the package with its version to the imports of the root deno.json";
  }
  if (specifier === "@zod/zod" && !imported.isType && imported.names.includes("z")) {
    return 'use import * as z from "@zod/zod": a named import adds messages in 50 languages to bundles';
  }
  const target = resolveImport(specifier, from);
  if (target === undefined) return judgePurity(from, specifier, imported);
  const [importer, owner] = [memberOf(from), memberOf(target)];
  if (importer === undefined || importer === "tests") return undefined;
  if (owner !== importer && owner !== "shared" && !isContract(specifier, from)) {
    return `${importer} may import shared and itself, not ${
      owner ?? target
    }: put a type that two members share into shared/wire`;
  }
  if (importer === "debate" && owner === "shared" && !isForDebate(target)) {
    return `debate must not import ${target}, which belongs to the access broker`;
  }
  if (isTest(target) && !isTest(from)) return `${target} is for tests`;
  if (importer === "shared" && !mayBuildOn(from, target)) {
    return `${from} must not import ${target}: the topics of shared are layers, see SHARED_TOPICS`;
  }
  if (owner !== "shared" || isHarmlessDoor(target, imported.names)) return undefined;
  return judgePurity(from, target, imported);
}

/** Rejects imports with side effects in pure files. */
function judgePurity(from: string, module: string, { names, isType }: Import): string | undefined {
  if (isType || !isPure(from) || isHarmless(module, names)) return undefined;
  return `${from} is pure and must not import ${module}; pass the result as a parameter, or move the file to a place for I/O (tests/lint/adapters.ts)`;
}
