import type { Clock } from "@gateway/shared/clock";
import * as z from "@zod/zod";
import { type Model, ModelError } from "../engine/ports.ts";
import type { Settings } from "../settings/config.ts";
import { openAiChat } from "./chat.ts";
import { CHAT_COMPLETIONS, type Refusable } from "./chat_completions.ts";
import { deviceFlows } from "./device_flow.ts";
import { below, exchangeJson } from "./exchange.ts";
import { parseModelId, type ProviderName, speaksResponses } from "./families.ts";
import { listScenarios, loadScenario, replayModel } from "./replay.ts";
import { RESPONSES } from "./responses.ts";
import { checkToken, fixedToken, readTokenFile, sessionTokens, writeTokenFile } from "./tokens.ts";

const USER_AGENT = "debate";
/** The number of models whose rejected options are kept. Clients that start runs choose the model IDs. */
const MAX_REMEMBERED = 200;

export type Providers = ReturnType<typeof openProviders>;

export function openProviders(settings: Settings, ports: {
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  random(): number;
  newId(): string;
  /** Writes to the operator's log. Messages contain no secrets. */
  warn(message: string): void;
  /** The pause between two pieces of a scripted text, in milliseconds. */
  readonly replayPieceDelayMs?: number;
}) {
  const { HUB_BASE_URL, HUB_TOKEN, ASSIST_BASE_URL, ASSIST_TOKEN, ASSIST_TOKEN_FILE, REPLAY_DIR } = settings;
  const { fetch, clock, random, newId, warn, replayPieceDelayMs: pieceDelayMs = 0 } = ports;
  const refusals = new Map<string, Set<Refusable>>();
  const headers: Readonly<Record<string, string>> = { "user-agent": USER_AGENT };
  const own = Object.entries(settings.ASSIST_HEADERS).map(([name, value]) => [name.toLowerCase(), value]);
  const assistHeaders = { ...headers, ...Object.fromEntries(own) };
  const sessions = sessionTokens({
    url: settings.ASSIST_SESSION_URL,
    headers: assistHeaders,
    accessToken: assistToken,
    remedy: "set ASSIST_TOKEN or run `debate login`",
    fetch,
    clock,
  });
  const access = {
    hub: {
      baseUrl: HUB_BASE_URL,
      variable: "HUB_BASE_URL",
      tokens: fixedToken("HUB_TOKEN", HUB_TOKEN),
      headers,
    },
    assist: {
      baseUrl: ASSIST_BASE_URL,
      variable: "ASSIST_BASE_URL",
      tokens: sessions,
      headers: assistHeaders,
    },
  };

  /** The access token of provider B: from the settings, or stored by `debate login`. */
  async function assistToken(): Promise<string | undefined> {
    if (ASSIST_TOKEN !== "") return checkToken("ASSIST_TOKEN", ASSIST_TOKEN);
    try {
      return await readTokenFile(ASSIST_TOKEN_FILE);
    } catch (cause) {
      const text = "the stored access token cannot be read; run `debate login`";
      throw new ModelError("auth", text, { cause });
    }
  }

  async function list(provider: "hub" | "assist", ...urls: readonly string[]) {
    const { tokens, headers } = access[provider];
    const authorization = `Bearer ${await tokens.token(new AbortController().signal)}`;
    return await fetchModels({ provider, urls, headers: { ...headers, authorization }, fetch, clock });
  }

  // A provider that is not configured has no models, which is not a problem.
  const sources: ModelSources = {
    async hub() {
      if (HUB_BASE_URL === "" || HUB_TOKEN === "") return [];
      // Some providers do not list their models below the base URL of their completions.
      return await list("hub", below(HUB_BASE_URL, "models"), new URL("/v1/models", HUB_BASE_URL).href);
    },
    async assist() {
      if (ASSIST_BASE_URL === "" || await assistToken() === undefined) return [];
      return await list("assist", below(ASSIST_BASE_URL, "models"));
    },
    async replay() {
      const names = await listScenarios(REPLAY_DIR);
      return names.map((name) => (
        { id: `replay/${name}`, name: name.replaceAll("_", " "), provider: "replay" }
      ));
    },
  };

  return {
    sessions,
    assistToken,
    catalogue: modelCatalogue(sources, clock),
    deviceFlows: deviceFlows({
      deviceCodeUrl: settings.ASSIST_DEVICE_CODE_URL,
      tokenUrl: settings.ASSIST_DEVICE_TOKEN_URL,
      clientId: settings.ASSIST_CLIENT_ID,
      scope: settings.ASSIST_SCOPE,
      fetch,
      clock,
      newId,
      store: (token) => writeTokenFile(ASSIST_TOKEN_FILE, token),
    }),
    /** Opens a model by its ID. Each run opens its models, because a scripted model remembers its replies. */
    async model(id: string): Promise<Model> {
      const { provider, name } = parseModelId(id);
      if (provider === "replay") {
        return replayModel({ id, scenario: await loadScenario(name, REPLAY_DIR), clock, pieceDelayMs });
      }
      const { variable, ...reach } = access[provider];
      if (reach.baseUrl === "") {
        const text = `Model ${JSON.stringify(id)} gave no reply: its provider has no URL; set ${variable}`;
        return { id, complete: () => Promise.reject(new ModelError("auth", text)) };
      }
      if (!refusals.has(id) && refusals.size >= MAX_REMEMBERED) refusals.clear();
      const refused = refusals.get(id) ?? new Set();
      refusals.set(id, refused);
      return openAiChat({
        ...reach,
        id,
        name,
        api: provider === "assist" && speaksResponses(name) ? RESPONSES : CHAT_COMPLETIONS,
        refused,
        fetch,
        clock,
        random,
        warn,
        timeoutMs: settings.MODEL_TIMEOUT_SECONDS * 1000,
        idleMs: settings.MODEL_IDLE_SECONDS * 1000,
        maxOutputTokens: settings.MODEL_MAX_OUTPUT_TOKENS,
      });
    },
  };
}

interface ListedModel {
  readonly id: string;
  readonly name: string;
  readonly provider: ProviderName;
}

export interface Catalogue {
  readonly models: readonly ListedModel[];
  readonly problems: readonly { readonly provider: ProviderName; readonly message: string }[];
}

/** Functions that list the models of a provider. The model IDs begin with the provider's prefix. */
export type ModelSources = Readonly<Partial<Record<ProviderName, () => Promise<readonly ListedModel[]>>>>;

const FRESH_MS = 300_000;
/**
 * The pause before a failed provider is queried again. Shorter than for others, but long enough to skip most
 * page views.
 */
const FRESH_AFTER_PROBLEM_MS = 30_000;

/** Lists the models of all providers. A failure of one provider does not affect the others. */
export function modelCatalogue(sources: ModelSources, clock: Clock) {
  let known: { readonly catalogue: Catalogue; readonly until: number } | undefined;
  let pending: Promise<Catalogue> | undefined;

  async function list(provider: ProviderName) {
    try {
      return { models: await sources[provider]?.() ?? [] };
    } catch (error) {
      const message = error instanceof ModelError ? error.message : "its models cannot be listed";
      return { problem: { provider, message } };
    }
  }

  async function query(): Promise<Catalogue> {
    const answers = await Promise.all((["hub", "assist", "replay"] as const).map(list));
    const models = answers.flatMap(({ models = [] }) => models);
    const problems = answers.flatMap(({ problem }) => problem ?? []);
    const freshMs = problems.length > 0 ? FRESH_AFTER_PROBLEM_MS : FRESH_MS;
    known = { catalogue: { models, problems }, until: clock.now() + freshMs };
    return known.catalogue;
  }

  /** Concurrent callers share one query. */
  const refresh = () => pending ??= query().finally(() => pending = undefined);

  return {
    refresh,
    async list(): Promise<Catalogue> {
      return known !== undefined && clock.now() < known.until ? known.catalogue : await refresh();
    },
  };
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

/** Tries the URLs in order until the provider knows one. */
export async function fetchModels({ provider, urls, ...request }: {
  readonly provider: "hub" | "assist";
  readonly urls: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: typeof fetch;
  readonly clock: Clock;
}): Promise<readonly ListedModel[]> {
  let status = 0;
  for (const url of urls) {
    const answer = await exchangeJson({ ...request, url });
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
