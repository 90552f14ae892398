import type { ApiEvent } from "./api_event.ts";
import { isWithin, type RecordedToken } from "./recorded_token.ts";

interface TokenUse {
  readonly event: ApiEvent;
  /** It is what the token was issued for. */
  readonly asRecorded: boolean;
}

/** What a cluster did with one token. */
export interface TokenUses {
  /** The requests that issued it; one, unless the log was tampered with. */
  readonly issued: readonly ApiEvent[];
  /** The requests that were made with it, by time. */
  readonly used: readonly TokenUse[];
  /** There were more, of either kind, than are kept. */
  readonly isCut: boolean;
}

/** So many requests of a kind are kept for a token, or of what nothing explains; a log may be full of them. */
const MOST_KEPT = 1000;

const NONE: TokenUses = { issued: [], used: [], isCut: false };

/**
 * Searches the audit log of an API server for what became of tokens. The log is read twice: which accounts the
 * tokens belong to is known only at its end, and what those accounts do without one of the tokens is what counts.
 */
export class TokenSearch {
  readonly #tokens: ReadonlyMap<string, RecordedToken>;
  readonly #checked: ReadonlySet<string>;
  /** The users that the tokens speak for. */
  readonly #accounts = new Set<string>();
  /** The users that had them issued. */
  readonly #minters = new Set<string>();
  readonly #uses = new Map<string, FoundUses>();
  readonly #unexplained = new KeptEvents();

  /**
   * @param tokens all tokens that records of ours tell of, by their ids
   * @param checked the ids of tokens that somebody knows to be of a `cluster check`, which asks what they may do
   */
  constructor(tokens: ReadonlyMap<string, RecordedToken>, checked: ReadonlySet<string> = new Set()) {
    this.#tokens = tokens;
    this.#checked = checked;
  }

  /** The first reading: whose the tokens are. */
  learn(event: ApiEvent): void {
    if (this.#tokenOf(event.jti) !== undefined) this.#accounts.add(event.user);
    if (this.#tokenOf(event.issuedJti) === undefined) return;
    this.#minters.add(event.user);
    const account = accountOf(event);
    if (account !== undefined) this.#accounts.add(account);
  }

  /** The second reading: what was done with them, and what without. */
  take(event: ApiEvent): void {
    const { issuedJti, user, impersonated } = event;
    if (this.#isOfCheck(event)) return;
    const [used, issued] = [this.#tokenOf(event.jti), this.#tokenOf(issuedJti)];
    if (issued !== undefined) this.#usesOf(issued).issued.keep(event);
    else if (issuedJti !== undefined && this.#isOurs(event)) this.#unexplained.keep(event);
    if (used !== undefined) this.#usesOf(used)[isWithin(used, event) ? "within" : "beyond"].keep(event);
    else if (this.#accounts.has(user) || isOneOf(this.#accounts, impersonated)) this.#unexplained.keep(event);
  }

  find(jti: string): TokenUses {
    const found = this.#uses.get(jti);
    if (found === undefined) return NONE;
    const { issued, within, beyond } = found;
    const used = [
      ...within.events.map((event) => ({ event, asRecorded: true })),
      ...beyond.events.map((event) => ({ event, asRecorded: false })),
    ];
    return {
      issued: issued.events,
      used: used.toSorted((left, right) => Date.parse(left.event.time) - Date.parse(right.event.time)),
      isCut: [issued, within, beyond].some(({ isCut }) => isCut),
    };
  }

  /** How many of the tokens the log knows. */
  get found(): number {
    return this.#uses.size;
  }

  /** What was done as one of the accounts, or issued for one, of which no record of ours tells. */
  get unexplained(): readonly ApiEvent[] {
    return this.#unexplained.events;
  }

  /** There was more that nothing explains than is kept. */
  get isCut(): boolean {
    return this.#unexplained.isCut;
  }

  #isOfCheck(event: ApiEvent): boolean {
    if (event.issuedJti !== undefined) return this.#checked.has(event.issuedJti);
    return event.jti !== undefined && this.#checked.has(event.jti) && isReview(event);
  }

  #tokenOf(jti: string | undefined): RecordedToken | undefined {
    return jti === undefined ? undefined : this.#tokens.get(jti);
  }

  #isOurs(event: ApiEvent): boolean {
    return this.#minters.has(event.user) || isOneOf(this.#accounts, accountOf(event));
  }

  #usesOf({ jti }: RecordedToken): FoundUses {
    const uses = this.#uses.get(jti) ??
      { issued: new KeptEvents(), within: new KeptEvents(), beyond: new KeptEvents() };
    this.#uses.set(jti, uses);
    return uses;
  }
}

/** What is found of one token. What is beyond its record does not go under among what is not. */
interface FoundUses {
  readonly issued: KeptEvents;
  readonly within: KeptEvents;
  readonly beyond: KeptEvents;
}

/** The first requests, by their ids: of the stages of one the last counts. */
class KeptEvents {
  readonly #events = new Map<string, ApiEvent>();
  isCut = false;

  keep(event: ApiEvent): void {
    if (this.#events.size < MOST_KEPT || this.#events.has(event.auditId)) {
      this.#events.set(event.auditId, event);
    } else {
      this.isCut = true;
    }
  }

  get events(): readonly ApiEvent[] {
    return [...this.#events.values()];
  }
}

/** Whether somebody asks what he himself may do. */
function isReview({ verb, object }: ApiEvent): boolean {
  return verb === "create" && object?.group === "authorization.k8s.io" &&
    ["selfsubjectaccessreviews", "selfsubjectrulesreviews"].includes(object.resource);
}

function isOneOf(names: ReadonlySet<string>, name: string | undefined): name is string {
  return name !== undefined && names.has(name);
}

/** The user whose token a request issued. */
function accountOf({ object }: ApiEvent): string | undefined {
  if (object?.resource !== "serviceaccounts" || object.subresource !== "token") return undefined;
  return `system:serviceaccount:${object.namespace}:${object.name}`;
}
