import type { Clock } from "@gateway/shared/clock";
import * as z from "@zod/zod";
import { type Model, ModelError } from "../engine/ports.ts";
import type { Settings } from "../settings/config.ts";
import { parseModelId, type Protocol } from "../settings/model_providers.ts";
import { openAiChat } from "./chat.ts";
import { CHAT_COMPLETIONS, type ChatApi, type Refusable } from "./chat_completions.ts";
import { deviceFlows } from "./device_flow.ts";
import { below, exchangeJson } from "./exchange.ts";
import { speaksResponses } from "./families.ts";
import { MESSAGES } from "./messages.ts";
import { listScenarios, loadScenario, replayModel } from "./replay.ts";
import { RESPONSES } from "./responses.ts";
import {
  checkToken,
  fixedToken,
  NO_TOKEN,
  readTokenFile,
  sessionTokens,
  tokenHeaders,
  type TokenSource,
  writeTokenFile,
} from "./tokens.ts";

const USER_AGENT = "debate";
/** The number of models whose rejected options are kept. Clients that start runs choose the model IDs. */
const MAX_REMEMBERED = 200;

const APIS: Readonly<Record<Protocol, ChatApi>> = {
  "openai": CHAT_COMPLETIONS,
  "openai-responses": RESPONSES,
  "anthropic": MESSAGES,
};

/** The access to a provider. */
interface Access {
  readonly protocol: Protocol;
  readonly baseUrl: string;
  readonly tokens: TokenSource;
  readonly headers: Readonly<Record<string, string>>;
  readonly keyHeader?: string | undefined;
  readonly apiVersion?: string | undefined;
}

export interface ProviderState {
  readonly name: string;
  readonly protocol: Protocol;
  readonly configured: boolean;
  /** The variables that are not set, and without which no model can be called. */
  readonly missing: readonly string[];
  /** Whether the settings allow a login by the device flow. */
  readonly login: boolean;
}

/** The states of all providers except `replay`. */
export function providerStates(settings: Settings, hasAssistToken: boolean): readonly ProviderState[] {
  const { MODEL_PROVIDERS, MODEL_KEYS, HUB_BASE_URL, HUB_TOKEN, ASSIST_BASE_URL } = settings;
  const state = (
    name: string,
    needed: Readonly<Record<string, boolean>>,
    protocol: Protocol = "openai",
    login = false,
  ): ProviderState => {
    const missing = Object.entries(needed).flatMap(([variable, isSet]) => isSet ? [] : [variable]);
    return { name, protocol, configured: missing.length === 0, missing, login };
  };
  const login = settings.ASSIST_DEVICE_CODE_URL !== "" && settings.ASSIST_DEVICE_TOKEN_URL !== "" &&
    settings.ASSIST_CLIENT_ID !== "";
  return [
    ...Object.entries(MODEL_PROVIDERS).map(([name, { protocol, key_variable: variable }]) =>
      state(name, variable === undefined ? {} : { [variable]: Object.hasOwn(MODEL_KEYS, variable) }, protocol)
    ),
    state("hub", { HUB_BASE_URL: HUB_BASE_URL !== "", HUB_TOKEN: HUB_TOKEN !== "" }),
    state(
      "assist",
      { ASSIST_BASE_URL: ASSIST_BASE_URL !== "", ASSIST_TOKEN: hasAssistToken },
      "openai",
      login,
    ),
  ];
}

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
  const assistHeaders = { ...headers, ...lowered(settings.ASSIST_HEADERS) };
  const sessions = sessionTokens({
    url: settings.ASSIST_SESSION_URL,
    headers: assistHeaders,
    accessToken: assistToken,
    remedy: "set ASSIST_TOKEN or run `debate login`",
    fetch,
    clock,
  });
  const access: Readonly<Record<string, Access>> = {
    ...Object.fromEntries(
      Object.entries(settings.MODEL_PROVIDERS).map(([name, { protocol, base_url, ...given }]) => {
        const { key_variable: variable, key_header: keyHeader, api_version: apiVersion } = given;
        const tokens = variable === undefined
          ? NO_TOKEN
          : fixedToken(variable, settings.MODEL_KEYS[variable] ?? "");
        return [name, {
          protocol,
          baseUrl: base_url,
          tokens,
          headers: { ...headers, ...lowered(given.headers) },
          keyHeader,
          apiVersion,
        }];
      }),
    ),
    hub: {
      protocol: "openai",
      baseUrl: HUB_BASE_URL,
      tokens: fixedToken("HUB_TOKEN", HUB_TOKEN),
      headers,
    },
    assist: { protocol: "openai", baseUrl: ASSIST_BASE_URL, tokens: sessions, headers: assistHeaders },
  };

  /** The access token of `assist`: from the settings, or stored by `debate login`. */
  async function assistToken(): Promise<string | undefined> {
    if (ASSIST_TOKEN !== "") return checkToken("ASSIST_TOKEN", ASSIST_TOKEN);
    try {
      return await readTokenFile(ASSIST_TOKEN_FILE);
    } catch (cause) {
      const text = "the stored access token cannot be read; run `debate login`";
      throw new ModelError("auth", text, { cause });
    }
  }

  async function list(provider: string): Promise<readonly ListedModel[]> {
    const hasAssistToken = provider === "assist" && await assistToken() !== undefined;
    const { configured } = providerStates(settings, hasAssistToken).find(({ name }) => name === provider) ??
      {};
    const reach = access[provider];
    // A provider that is not configured has no models, which is not a problem.
    if (reach === undefined || !configured) return [];
    const { baseUrl, tokens, protocol, keyHeader = APIS[protocol].keyHeader, apiVersion } = reach;
    const token = await tokens.token(new AbortController().signal);
    const limit = protocol === "anthropic" ? `${MAX_MODELS}` : undefined;
    const urls = [below(baseUrl, "models", { limit, "api-version": apiVersion })];
    // Some providers do not list their models below the base URL of their completions.
    if (provider === "hub") urls.push(new URL("/v1/models", baseUrl).href);
    const sent = { ...APIS[protocol].headers, ...reach.headers, ...tokenHeaders(token, keyHeader) };
    return await fetchModels({ provider, urls, headers: sent, fetch, clock });
  }

  const sources: ModelSources = {
    ...Object.fromEntries(Object.keys(access).map((name) => [name, () => list(name)])),
    async replay() {
      const names = await listScenarios(REPLAY_DIR);
      return names.map((name) => (
        { id: `replay/${name}`, name: name.replaceAll("_", " "), provider: "replay" }
      ));
    },
  };

  const catalogue = modelCatalogue(sources, clock);
  return {
    sessions,
    assistToken,
    catalogue,
    deviceFlows: deviceFlows({
      deviceCodeUrl: settings.ASSIST_DEVICE_CODE_URL,
      tokenUrl: settings.ASSIST_DEVICE_TOKEN_URL,
      clientId: settings.ASSIST_CLIENT_ID,
      scope: settings.ASSIST_SCOPE,
      fetch,
      clock,
      newId,
      async store(token) {
        await writeTokenFile(ASSIST_TOKEN_FILE, token);
        catalogue.forget();
      },
    }),
    /** Opens a model by its ID. Each run opens its models, because a scripted model remembers its replies. */
    async model(id: string): Promise<Model> {
      const { provider, name } = parseModelId(id, Object.keys(settings.MODEL_PROVIDERS));
      if (provider === "replay") {
        return replayModel({ id, scenario: await loadScenario(name, REPLAY_DIR), clock, pieceDelayMs });
      }
      const reach = access[provider];
      if (reach === undefined || reach.baseUrl === "") {
        const variable = `${provider.toUpperCase()}_BASE_URL`;
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
        api: provider === "assist" && speaksResponses(name) ? RESPONSES : APIS[reach.protocol],
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

function lowered(headers: Readonly<Record<string, string>>) {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

interface ListedModel {
  readonly id: string;
  readonly name: string;
  readonly provider: string;
}

export interface Catalogue {
  readonly models: readonly ListedModel[];
  readonly problems: readonly { readonly provider: string; readonly message: string }[];
}

/** Functions that list the models of a provider. The model IDs begin with the provider's prefix. */
export type ModelSources = Readonly<Record<string, () => Promise<readonly ListedModel[]>>>;

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

  async function list([provider, source]: readonly [string, ModelSources[string]]) {
    try {
      return { models: await source() };
    } catch (error) {
      const message = error instanceof ModelError ? error.message : "its models cannot be listed";
      return { problem: { provider, message } };
    }
  }

  async function query(): Promise<Catalogue> {
    const answers = await Promise.all(Object.entries(sources).map(list));
    const models = answers.flatMap(({ models = [] }) => models);
    const problems = answers.flatMap(({ problem }) => problem ?? []);
    return { models, problems };
  }

  async function keep(asked: Promise<Catalogue>): Promise<void> {
    const catalogue = await asked;
    if (pending !== asked) return;
    pending = undefined;
    const freshMs = catalogue.problems.length > 0 ? FRESH_AFTER_PROBLEM_MS : FRESH_MS;
    known = { catalogue, until: clock.now() + freshMs };
  }

  /** Concurrent callers share one query. */
  function refresh(): Promise<Catalogue> {
    if (pending === undefined) {
      pending = query();
      void keep(pending);
    }
    return pending;
  }

  return {
    refresh,
    async list(): Promise<Catalogue> {
      return known !== undefined && clock.now() < known.until ? known.catalogue : await refresh();
    },
    /** Called after a login. The result of a query that runs now is not kept. */
    forget(): void {
      known = pending = undefined;
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
  readonly provider: string;
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
