import * as z from "@zod/zod";
import { resolve } from "node:path";
import { splitLines } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import { describeReadFailure, openFile, readChunks } from "@gateway/shared/files";
import { K8S_VERBS } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import { each } from "@gateway/shared/wire";
import { REQUESTS } from "../clusters/rights.ts";
import { badConfig } from "../kit/output.ts";
import { readJson } from "../kit/values.ts";
import type { ShownRecord } from "./record.ts";

/** The limit of a record with the bodies of request and response; an object has up to 1.5 MiB. */
const MAX_LINE_BYTES = 16 * 1024 * 1024;
const CREDENTIAL = "authentication.kubernetes.io/credential-id";
const ISSUED = "authentication.kubernetes.io/issued-credential-id";
const VERSION = '"audit.k8s.io/';

const text = z.string().default("");
const user = z.object({ username: text, extra: z.record(z.string(), z.array(z.string())).nullish() });

const objectRef = z.object(each(text, "apiGroup", "resource", "subresource", "namespace", "name"))
  .transform(({ apiGroup: group, ...rest }) => ({ group, ...rest }));

/** A request in the audit log of a Kubernetes API server (`audit.k8s.io/v1`, `Event`). */
const apiEvent = z.object({
  auditID: z.string(),
  ...each(text, "verb", "requestURI", "requestReceivedTimestamp"),
  user,
  impersonatedUser: user.nullish(),
  objectRef: objectRef.nullish(),
  responseStatus: z.object({ code: z.int().optional() }).nullish(),
  annotations: z.record(z.string(), z.string()).nullish(),
  sourceIPs: z.array(z.string()).nullish(),
}).transform((event) => ({
  auditId: event.auditID,
  time: event.requestReceivedTimestamp,
  verb: event.verb,
  uri: event.requestURI,
  /** `system:serviceaccount:<namespace>:<name>` for a token of a ServiceAccount. */
  user: event.user.username,
  impersonated: event.impersonatedUser?.username,
  jti: tokenId(event.user.extra?.[CREDENTIAL]?.[0]),
  issuedJti: tokenId(event.annotations?.[ISSUED]),
  object: event.objectRef ?? undefined,
  status: event.responseStatus?.code,
  addresses: event.sourceIPs ?? [],
}));

export type ApiEvent = z.infer<typeof apiEvent>;

/** Reads `JTI=<id>`; another kind of credential has no token ID. */
function tokenId(credential: string | undefined): string | undefined {
  return credential?.startsWith("JTI=") === true ? credential.slice("JTI=".length) : undefined;
}

/** Reads a line of the log. Such logs are large: a line that names no ServiceAccount is `other` and is not parsed. */
export function readApiLine(line: string): ApiEvent | "other" | "malformed" {
  if (!line.startsWith("{") || !line.trimEnd().endsWith("}") || !line.includes(VERSION)) return "malformed";
  if (!line.includes('"system:serviceaccount:') && !line.includes(ISSUED)) return "other";
  return readJson(apiEvent, line) ?? "malformed";
}

/**
 * Reads the audit logs of API servers, one after the other.
 *
 * @returns the number of lines that are not records
 */
export async function readApiLogs(
  paths: readonly string[],
  workingFolder: string,
  onEvent: (event: ApiEvent) => void,
): Promise<number> {
  const decoder = new TextDecoder();
  let malformed = 0;
  for (const path of paths) {
    let [records, faults] = [0, 0];
    for await (const { bytes, tooLong } of splitLines(readLog(path, workingFolder), MAX_LINE_BYTES)) {
      if (bytes.length === 0) continue;
      const event = tooLong ? "malformed" : readApiLine(decoder.decode(bytes));
      if (event === "malformed") faults++;
      else records++;
      if (typeof event !== "string") onEvent(event);
    }
    if (records === 0 && faults > 0) {
      throw badConfig(
        `Cannot join ${quoteText(path)}: expected the audit log of a Kubernetes API server, ` +
          "one audit.k8s.io Event per line",
      );
    }
    malformed += faults;
  }
  return malformed;
}

async function* readLog(path: string, workingFolder: string): AsyncGenerator<Uint8Array> {
  const shown = `Cannot read audit log of an API server ${quoteText(path)}`;
  await using file = await openFile(resolve(workingFolder, path)).catch((cause) => {
    const code = cause instanceof Deno.errors.NotFound ? "not_found" : "invalid_config";
    throw new AppError(code, `${shown}: ${describeReadFailure(cause)}`, { cause });
  });
  if (!path.endsWith(".gz")) return yield* readChunks(file);
  try {
    // The format of logs that the API server rotates with --audit-log-compress.
    yield* ReadableStream.from(copiesOf(readChunks(file))).pipeThrough(new DecompressionStream("gzip"));
  } catch (cause) {
    throw badConfig(`${shown}: it is incomplete, or not a gzip file`, cause);
  }
}

/** Copies each chunk, because a stream requests the next chunk before it has used the last one. */
async function* copiesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  for await (const chunk of chunks) yield chunk.slice();
}

/**
 * The signer's fields at the beginning of a command. Foreign text follows and may imitate them. Old records have the
 * token's ID here instead of in `ext`.
 */
const FIELDS =
  /^target=k8s verb=(?<verb>\S+) resource=(?<resource>\S+) ns=(?<ns>\S+) name=(?<name>\S+)(?: user=\S+)?(?: jti=(?<old>\S+))?(?= |$)/;

export type RecordedToken = NonNullable<ReturnType<typeof readToken>>;

/** The token in a record of the signer; undefined if no token was issued. */
export function readToken(
  { target_type, command, outcome, jti: recorded }: Pick<
    ShownRecord,
    "target_type" | "command" | "outcome" | "jti"
  >,
) {
  // The command of a host may be any text.
  const fields = target_type === "k8s" ? FIELDS.exec(command)?.groups : undefined;
  const jti = recorded || fields?.["old"];
  if (fields === undefined || !jti) return undefined;
  const { verb = "", resource: whole = "", ns = "", name = "" } = fields;
  const [resource = "", ...group] = whole.split(".");
  const orNone = (text: string) => text === "-" ? "" : text;
  // The signer itself uses the token, to show what an apply would change: before an approval, and in a dry run.
  const isForPreview = outcome !== "issued";
  return {
    jti,
    verb,
    resource,
    group: group.join("."),
    namespace: orNone(ns),
    name: orNone(name),
    isForPreview,
  };
}

export function isWithin(token: RecordedToken, { verb, object, uri }: ApiEvent): boolean {
  const known = K8S_VERBS.find((each) => each === token.verb);
  if (known === undefined) return false;
  const { verbs: [asked], subresource = "" } = REQUESTS[known];
  return object !== undefined &&
    (token.isForPreview ? isPreview(verb, uri) : verb === asked) &&
    object.subresource === subresource &&
    object.resource === token.resource &&
    object.group === token.group &&
    object.namespace === token.namespace &&
    object.name === token.name;
}

function isPreview(verb: string, uri: string): boolean {
  if (verb === "get") return true;
  const query = URL.parse(uri, "https://api")?.searchParams;
  return verb === "patch" && query?.getAll("dryRun").join() === "All";
}

/** The limit of kept requests of one kind, because a log can contain very many. */
const MOST_KEPT = 1000;

/** The first requests by their IDs; of the stages of one request, the last one counts. */
class KeptEvents {
  readonly #events = new Map<string, ApiEvent>();
  isCut = false;

  keep(event: ApiEvent): void {
    const isKept = this.#events.size < MOST_KEPT || this.#events.has(event.auditId);
    if (isKept) this.#events.set(event.auditId, event);
    else this.isCut = true;
  }

  get events(): readonly ApiEvent[] {
    return [...this.#events.values()];
  }
}

/** Uses after the recorded expiry are kept separately, so that they cannot crowd out the other uses. */
const noUses = () => ({ issued: new KeptEvents(), within: new KeptEvents(), beyond: new KeptEvents() });

/**
 * Searches the audit log of an API server for uses of tokens. The log is read twice: all accounts of the tokens are known
 * only after the first pass, and requests of these accounts without one of the tokens count too.
 */
export class TokenSearch {
  readonly #tokens: ReadonlyMap<string, RecordedToken>;
  readonly #checked: ReadonlySet<string>;
  /** The users that the tokens authenticate. */
  readonly #accounts = new Set<string | undefined>();
  readonly #minters = new Set<string>();
  readonly #uses = new Map<string, ReturnType<typeof noUses>>();
  /** Requests as one of the accounts, or for a token of one, that no record of this installation explains. */
  readonly unexplained = new KeptEvents();

  /**
   * @param tokens all tokens in our records, by their IDs
   * @param checked the IDs of tokens of `cluster check`, which reviews its own rights
   */
  constructor(tokens: ReadonlyMap<string, RecordedToken>, checked: ReadonlySet<string> = new Set()) {
    this.#tokens = tokens;
    this.#checked = checked;
  }

  learn(event: ApiEvent): void {
    if (this.#tokenOf(event.jti) !== undefined) this.#accounts.add(event.user);
    if (this.#tokenOf(event.issuedJti) === undefined) return;
    this.#minters.add(event.user);
    const account = accountOf(event);
    if (account !== undefined) this.#accounts.add(account);
  }

  /** The second pass: finds the requests with the tokens, and those of the accounts without them. */
  take(event: ApiEvent): void {
    const { issuedJti, user, impersonated } = event;
    if (this.#isOfCheck(event)) return;
    const [used, issued] = [this.#tokenOf(event.jti), this.#tokenOf(issuedJti)];
    const isOurs = this.#minters.has(user) || this.#accounts.has(accountOf(event));
    if (issued !== undefined) this.#usesOf(issued).issued.keep(event);
    else if (issuedJti !== undefined && isOurs) this.unexplained.keep(event);
    if (used !== undefined) this.#usesOf(used)[isWithin(used, event) ? "within" : "beyond"].keep(event);
    else if (this.#accounts.has(user) || this.#accounts.has(impersonated)) this.unexplained.keep(event);
  }

  /** The requests that issued a token, and the requests that used it, sorted by time. */
  find(jti: string) {
    const { issued, within, beyond } = this.#uses.get(jti) ?? noUses();
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

  get found(): number {
    return this.#uses.size;
  }

  #isOfCheck(event: ApiEvent): boolean {
    if (event.issuedJti !== undefined) return this.#checked.has(event.issuedJti);
    return event.jti !== undefined && this.#checked.has(event.jti) && isReview(event);
  }

  #tokenOf(jti: string | undefined): RecordedToken | undefined {
    return jti === undefined ? undefined : this.#tokens.get(jti);
  }

  #usesOf({ jti }: RecordedToken) {
    const uses = this.#uses.get(jti) ?? noUses();
    this.#uses.set(jti, uses);
    return uses;
  }
}

/** Checks if a request reviews its account's rights. */
function isReview({ verb, object }: ApiEvent): boolean {
  return verb === "create" && object?.group === "authorization.k8s.io" &&
    ["selfsubjectaccessreviews", "selfsubjectrulesreviews"].includes(object.resource);
}

/** The user whose token a request issued. */
function accountOf({ object }: ApiEvent): string | undefined {
  if (object?.resource !== "serviceaccounts" || object.subresource !== "token") return undefined;
  return `system:serviceaccount:${object.namespace}:${object.name}`;
}
