import { entityTagOf, namesEntityTag } from "@gateway/shared/http";
import { type CompiledPolicy, visibleHosts } from "@gateway/shared/policy";

/** A forwarder can name callers without end. */
const MAX_TAGS = 1024;

/**
 * The answers to `GET /v1/hosts` under one policy. Tags are kept for each caller, the lists are not: a list of 10,000
 * hosts is 2 MB, and a client that kept the one it got does not need it again.
 */
export class HostLists {
  readonly #policy: CompiledPolicy;
  readonly #tags = new Map<string, string>();

  constructor(policy: CompiledPolicy) {
    this.#policy = policy;
  }

  /** What a caller sees, or 304 where it names the tag of just that. */
  answer(caller: string, ifNoneMatch: string | null): Response {
    const known = this.#tags.get(caller);
    if (known !== undefined && namesEntityTag(ifNoneMatch, known)) return answer(304, known, null);
    const text = JSON.stringify(visibleHosts(this.#policy, caller));
    const tag = known ?? this.#keep(caller, entityTagOf(text));
    return namesEntityTag(ifNoneMatch, tag) ? answer(304, tag, null) : answer(200, tag, text);
  }

  #keep(caller: string, tag: string): string {
    if (this.#tags.size >= MAX_TAGS) this.#tags.clear();
    this.#tags.set(caller, tag);
    return tag;
  }
}

function answer(status: 200 | 304, tag: string, body: string | null): Response {
  return new Response(body, {
    status,
    headers: {
      etag: tag,
      // Whoever keeps it has to ask each time: a freeze is never answered by a copy.
      "cache-control": "private, no-cache",
      ...(body === null ? {} : { "content-type": "application/json" }),
    },
  });
}
