import type { Resource } from "./resources.ts";

/** An error of the API. It is thrown and becomes a `Status` response. */
export class ApiFailure extends Error {
  readonly code: number;
  readonly reason: string | undefined;
  readonly details: unknown;

  constructor(code: number, reason: string | undefined, message: string, details?: unknown) {
    super(message);
    this.code = code;
    this.reason = reason;
    this.details = details;
  }

  get status(): unknown {
    return {
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Failure",
      message: this.message,
      ...(this.reason === undefined ? {} : { reason: this.reason }),
      ...(this.details === undefined ? {} : { details: this.details }),
      code: this.code,
    };
  }
}

/** One of the causes of an invalid object. */
export interface Cause {
  readonly reason: string;
  readonly message: string;
  readonly field: string;
}

export function qualified({ group, plural }: Pick<Resource, "group" | "plural">): string {
  return group === "" ? plural : `${plural}.${group}`;
}

/** The `details` of a resource. */
export function detailsOf({ group, plural }: Pick<Resource, "group" | "plural">, name?: string) {
  return { ...(name === undefined ? {} : { name }), ...(group === "" ? {} : { group }), kind: plural };
}

export function badRequest(message: string): ApiFailure {
  return new ApiFailure(400, "BadRequest", message);
}

export function unauthorized(): ApiFailure {
  return new ApiFailure(401, "Unauthorized", "Unauthorized");
}

export function notFound(resource: Pick<Resource, "group" | "plural">, name: string): ApiFailure {
  return new ApiFailure(
    404,
    "NotFound",
    `${qualified(resource)} "${name}" not found`,
    detailsOf(resource, name),
  );
}

export function alreadyExists(resource: Resource, name: string): ApiFailure {
  const message = `${qualified(resource)} "${name}" already exists`;
  return new ApiFailure(409, "AlreadyExists", message, detailsOf(resource, name));
}

export function methodNotAllowed(): ApiFailure {
  return new ApiFailure(
    405,
    "MethodNotAllowed",
    "the server does not allow this method on the requested resource",
    {},
  );
}

/** The error for an object that violates a rule of its kind. */
export function invalid(
  { group, kind, name }: { readonly group: string; readonly kind: string; readonly name: string },
  cause: Cause,
): ApiFailure {
  const what = group === "" ? kind : `${kind}.${group}`;
  return new ApiFailure(422, "Invalid", `${what} "${name}" is invalid: ${cause.field}: ${cause.message}`, {
    ...(name === "" ? {} : { name }),
    ...(group === "" ? {} : { group }),
    kind,
    causes: [cause],
  });
}
