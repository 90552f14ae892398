/** True if a name is declared in a scope around its use: a parameter `fetch` is not the global. */
export function isBound(node: Deno.lint.Identifier, context: Deno.lint.RuleContext): boolean {
  return context.sourceCode.getAncestors(node).some((scope) => namesIn(scope).includes(node.name));
}

/** Returns the names that a function, a block or a file declares. */
function namesIn(scope: Deno.lint.Node): readonly string[] {
  switch (scope.type) {
    case "FunctionDeclaration":
    case "FunctionExpression":
    case "ArrowFunctionExpression":
    case "TSFunctionType":
    case "TSMethodSignature":
      return scope.params.flatMap((parameter) =>
        parameter.type === "TSParameterProperty" ? [] : namesOf(parameter)
      );
    case "BlockStatement":
    case "Program":
      return scope.body.flatMap(declaredBy);
    default:
      return [];
  }
}

function declaredBy(statement: Deno.lint.Node): readonly string[] {
  switch (statement.type) {
    case "ExportNamedDeclaration":
      return statement.declaration === null ? [] : declaredBy(statement.declaration);
    case "FunctionDeclaration":
      return namesOf(statement.id);
    case "ImportDeclaration":
      return statement.specifiers.flatMap(({ local }) => namesOf(local));
    case "VariableDeclaration":
      return statement.declarations.flatMap(({ id }) => namesOf(id));
    default:
      return [];
  }
}

/** Returns the names that a pattern binds. */
function namesOf(pattern: Deno.lint.Node | null): readonly string[] {
  switch (pattern?.type) {
    case "Identifier":
      return [pattern.name];
    case "ObjectPattern":
      return pattern.properties.flatMap((property) =>
        property.type === "Property" ? namesOf(property.value) : namesOf(property.argument)
      );
    case "ArrayPattern":
      return pattern.elements.flatMap(namesOf);
    case "AssignmentPattern":
      return namesOf(pattern.left);
    case "RestElement":
      return namesOf(pattern.argument);
    default:
      return [];
  }
}
