import type { Clock } from "@gateway/shared/clock";
import * as z from "@zod/zod";
import { exchangeJson } from "./json_exchange.ts";
import { ModelError } from "../engine/model.ts";
import type { ProviderName } from "./families.ts";

interface ListedModel {
  readonly id: string;
  readonly name: string;
  readonly provider: ProviderName;
}

interface CatalogueProblem {
  readonly provider: ProviderName;
  readonly message: string;
}

/** The models that can be chosen, and the providers that could not be asked. */
export interface Catalogue {
  readonly models: readonly ListedModel[];
  readonly problems: readonly CatalogueProblem[];
}

/** Lists the models of one provider; their ids begin with its prefix. */
export interface ModelSource {
  readonly provider: ProviderName;
  list(): Promise<readonly ListedModel[]>;
}

const FRESH_MS = 300_000;
/** A provider that failed is asked again sooner, but not for every page view. */
const FRESH_AFTER_PROBLEM_MS = 30_000;

export class ModelCatalogue {
  readonly #sources: readonly ModelSource[];
  readonly #clock: Clock;
  #known: { readonly catalogue: Catalogue; readonly until: number } | undefined;
  #pending: Promise<Catalogue> | undefined;

  constructor(sources: readonly ModelSource[], clock: Clock) {
    this.#sources = sources;
    this.#clock = clock;
  }

  /** The models. The failure of one provider does not affect the others. */
  list(): Promise<Catalogue> {
    const known = this.#known;
    if (known !== undefined && this.#clock.now() < known.until) return Promise.resolve(known.catalogue);
    return this.refresh();
  }

  /** The models, requested anew. Concurrent callers wait for the same answer. */
  refresh(): Promise<Catalogue> {
    this.#pending ??= this.#ask().finally(() => this.#pending = undefined);
    return this.#pending;
  }

  async #ask(): Promise<Catalogue> {
    const lists = await Promise.all(this.#sources.map(askSource));
    const catalogue = {
      models: lists.flatMap(({ models }) => models),
      problems: lists.flatMap(({ problems }) => problems),
    };
    const freshMs = catalogue.problems.length > 0 ? FRESH_AFTER_PROBLEM_MS : FRESH_MS;
    this.#known = { catalogue, until: this.#clock.now() + freshMs };
    return catalogue;
  }
}

async function askSource(source: ModelSource): Promise<Catalogue> {
  try {
    return { models: await source.list(), problems: [] };
  } catch (error) {
    const message = error instanceof ModelError ? error.message : "its models cannot be listed";
    return { models: [], problems: [{ provider: source.provider, message }] };
  }
}

interface ModelListRequest {
  readonly provider: "hub" | "assist";
  /** The paths to try, one after the other, until the provider knows one. */
  readonly urls: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: typeof fetch;
  readonly clock: Clock;
}

const MAX_MODELS = 1000;

const NOT_FOR_CHAT = /embedding|trajectory-compaction/i;

const entryShape = z.looseObject({
  id: z.string().regex(/^[\x21-\x7e]{1,200}$/),
  display_name: z.string().min(1).max(200).optional().catch(undefined),
  name: z.string().min(1).max(200).optional().catch(undefined),
});

const entries = z.array(z.unknown());
const answerShape = z.union([
  entries,
  z.looseObject({ data: entries }).transform(({ data }) => data),
  z.looseObject({ models: entries }).transform(({ models }) => models),
]);

export async function fetchModels(request: ModelListRequest): Promise<readonly ListedModel[]> {
  const { provider, urls, headers, fetch, clock } = request;
  let status = 0;
  for (const url of urls) {
    const answer = await exchangeJson({ fetch, clock, url, headers });
    status = answer.status;
    if (status === 404) continue;
    const list = answerShape.safeParse(answer.body).data;
    if (status !== 200 || list === undefined) break;
    return list.slice(0, MAX_MODELS).flatMap((value) => {
      const entry = entryShape.safeParse(value).data;
      if (entry === undefined || NOT_FOR_CHAT.test(entry.id)) return [];
      const { id, display_name, name } = entry;
      return [{ id: `${provider}/${id}`, name: display_name ?? name ?? id, provider }];
    });
  }
  throw new ModelError("server", `the provider does not list its models (HTTP ${status})`);
}
