import { LONGEST_LEARN_TTL_SECONDS } from "@gateway/shared/wire";

/** What was filled in, to be shown again beside a problem. */
export interface Entered {
  /** Seconds, or `other`. */
  readonly ttl: string;
  readonly amount: string;
  /** Seconds. */
  readonly unit: string;
  readonly comment: string;
}

/** What the form of a request was sent with. */
type DecisionForm =
  | {
    readonly kind: "decision";
    readonly approve: boolean;
    readonly learn: boolean;
    readonly ttlSeconds: number;
    readonly comment: string;
    /** The ids of the requests that the page showed. */
    readonly shown: readonly string[];
  }
  /** Not to be used; what to mend. */
  | { readonly kind: "problem"; readonly detail: string };

const FIELDS = ["decision", "ttl", "amount", "unit", "comment"] as const;

/**
 * Reads `application/x-www-form-urlencoded`: `decision` is approve, deny or learn; with learn, `ttl` is a number
 * of seconds, or `other` and then `amount` times `unit` seconds. Nothing is guessed: a field that is sent twice
 * or has no meaning is a problem.
 */
export function parseDecisionForm(body: string): DecisionForm {
  const fields = new URLSearchParams(body);
  const twice = FIELDS.find((name) => fields.getAll(name).length > 1);
  if (twice !== undefined) return problem(`The form has ${twice} more than once`);
  const said = { comment: fields.get("comment")?.trim() ?? "", shown: fields.getAll("shown") };
  switch (fields.get("decision")) {
    case "approve":
      return { kind: "decision", approve: true, learn: false, ttlSeconds: 0, ...said };
    case "deny":
      return { kind: "decision", approve: false, learn: false, ttlSeconds: 0, ...said };
    case "learn":
      return parseLearn(fields, said);
    default:
      return problem("Choose to approve or to deny");
  }
}

function parseLearn(
  fields: URLSearchParams,
  said: { readonly comment: string; readonly shown: readonly string[] },
): DecisionForm {
  const isOther = fields.get("ttl") === "other";
  const count = parseWhole(fields.get(isOther ? "amount" : "ttl"));
  const unit = isOther ? parseWhole(fields.get("unit")) : 1;
  if (count === undefined || unit === undefined) {
    return problem("Say for how long to learn: a whole number of minutes, hours or days, more than 0");
  }
  if (count * unit > LONGEST_LEARN_TTL_SECONDS) return problem("Learn for a shorter time: at most 100 years");
  return { kind: "decision", approve: true, learn: true, ttlSeconds: count * unit, ...said };
}

function parseWhole(text: string | null): number | undefined {
  return text !== null && /^0*[1-9][0-9]{0,6}$|^0*[1-9][0-9]{7,9}$/.test(text) ? Number(text) : undefined;
}

function problem(detail: string): DecisionForm {
  return { kind: "problem", detail };
}

/** What was entered, as far as it can be shown again. */
export function entered(body: string): Entered {
  const fields = new URLSearchParams(body);
  return {
    ttl: fields.get("ttl") ?? "",
    amount: (fields.get("amount") ?? "").slice(0, 20),
    unit: fields.get("unit") ?? "",
    comment: fields.get("comment") ?? "",
  };
}
