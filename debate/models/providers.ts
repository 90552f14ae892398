import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { fieldsIn, fieldsOf, textOf } from "../engine/graph/text.ts";
import { type Model, ModelError } from "../engine/ports.ts";
import type { Settings } from "../settings/config.ts";
import {
  describeModelIds,
  type ModelProvider,
  type Protocol,
  splitModelId,
} from "../settings/model_providers.ts";
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
  readTokenFile,
  sessionTokens,
  tokenHeaders,
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

/** The providers of the settings. Those with their own variables have the same form as the named ones. */
function providersOf(settings: Settings): Readonly<Record<string, ModelProvider>> {
  const { MODEL_PROVIDERS, HUB_BASE_URL, ASSIST_BASE_URL: base_url, ASSIST_HEADERS: headers } = settings;
  return {
    ...MODEL_PROVIDERS,
    hub: { protocol: "openai", base_url: HUB_BASE_URL, key_variable: "HUB_TOKEN", headers: {} },
    assist: { protocol: "openai", base_url, key_variable: "ASSIST_TOKEN", headers },
  };
}

/**
 * The states of all providers except `replay`. `missing` has the variables that must be set before a model can be called.
 * `login` is whether the settings allow a login by the device flow.
 */
export function providerStates(settings: Settings, hasAssistToken: boolean) {
  const isSet: Readonly<Record<string, unknown>> = {
    ...settings.MODEL_KEYS,
    HUB_TOKEN: settings.HUB_TOKEN,
    ASSIST_TOKEN: hasAssistToken,
  };
  return Object.entries(providersOf(settings)).map(([name, { protocol, base_url, key_variable: key }]) => {
    const missing = [
      ...(base_url === "" ? [urlVariable(name)] : []),
      ...(key === undefined || isSet[key] ? [] : [key]),
    ];
    const login = name === "assist" && missingForLogin(settings).length === 0;
    return { name, protocol, configured: missing.length === 0, missing, login };
  });
}

/** The variables of the device flow that are not set. */
function missingForLogin(settings: Settings): readonly string[] {
  return (["ASSIST_DEVICE_CODE_URL", "ASSIST_DEVICE_TOKEN_URL", "ASSIST_CLIENT_ID"] as const)
    .filter((name) => settings[name] === "");
}

const urlVariable = (provider: string) => `${provider.toUpperCase()}_BASE_URL`;

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
  const { HUB_TOKEN, ASSIST_TOKEN, ASSIST_TOKEN_FILE, REPLAY_DIR } = settings;
  const { fetch, clock, random, newId, warn, replayPieceDelayMs: pieceDelayMs = 0 } = ports;
  const refusals = new Map<string, Set<Refusable>>();
  const providers = providersOf(settings);
  const sessions = sessionTokens({
    url: settings.ASSIST_SESSION_URL,
    headers: ownHeaders(settings.ASSIST_HEADERS),
    accessToken: assistToken,
    remedy: "set ASSIST_TOKEN or run `debate login`",
    fetch,
    clock,
  });
  const keys: Readonly<Record<string, string>> = { ...settings.MODEL_KEYS, HUB_TOKEN };

  /** The access to a provider of `providersOf()`. */
  function reach(provider: string, { protocol, headers, key_variable: key, ...given }: ModelProvider) {
    const api = APIS[protocol];
    const { api_version: version } = given;
    const isVersioned = protocol === "anthropic";
    // Gateways know the first version. Later versions reject `temperature`.
    const versioned = isVersioned ? { "anthropic-version": version ?? "2023-06-01" } : {};
    return {
      api,
      baseUrl: given.base_url,
      tokens: provider === "assist" ? sessions : fixedToken(key, keys[key ?? ""] ?? ""),
      headers: { ...versioned, ...ownHeaders(headers) },
      keyHeader: given.key_header ?? api.keyHeader,
      apiVersion: isVersioned ? undefined : version,
    };
  }

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

  async function list(provider: string, entry: ModelProvider): Promise<readonly ListedModel[]> {
    const hasAssistToken = provider === "assist" && await assistToken() !== undefined;
    const state = providerStates(settings, hasAssistToken).find(({ name }) => name === provider);
    // A provider that is not configured has no models, which is not a problem.
    if (!state?.configured) return [];
    const { baseUrl, tokens, headers, keyHeader, apiVersion } = reach(provider, entry);
    const token = await tokens.token(new AbortController().signal);
    const limit = entry.protocol === "anthropic" ? `${MAX_MODELS}` : undefined;
    const urls = [below(baseUrl, "models", { limit, "api-version": apiVersion })];
    // Some providers do not list their models below the base URL of their completions.
    if (provider === "hub") urls.push(new URL("/v1/models", baseUrl).href);
    const sent = { ...headers, ...tokenHeaders(token, keyHeader) };
    return await fetchModels({ provider, urls, headers: sent, fetch, clock });
  }

  const sources: ModelSources = {
    ...Object.fromEntries(Object.entries(providers).map(([name, entry]) => [name, () => list(name, entry)])),
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
      missing: missingForLogin(settings),
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
      const names = Object.keys(settings.MODEL_PROVIDERS);
      const parts = splitModelId(id, names);
      if (parts === undefined) {
        const text = `Cannot use model ${JSON.stringify(id.slice(0, 100))}: it ${describeModelIds(names)}`;
        throw new AppError("invalid_request", text);
      }
      const { provider, name } = parts;
      const entry = providers[provider];
      if (entry === undefined) {
        return replayModel({ id, scenario: await loadScenario(name, REPLAY_DIR), clock, pieceDelayMs });
      }
      if (entry.base_url === "") {
        const why = `its provider has no URL; set ${urlVariable(provider)}, or choose another model`;
        const error = new ModelError("auth", `Model ${JSON.stringify(id)} gave no reply: ${why}`);
        return { id, complete: () => Promise.reject(error) };
      }
      if (!refusals.has(id) && refusals.size >= MAX_REMEMBERED) refusals.clear();
      const refused = refusals.get(id) ?? new Set();
      refusals.set(id, refused);
      return openAiChat({
        ...reach(provider, entry),
        ...(provider === "assist" && speaksResponses(name) && { api: RESPONSES }),
        id,
        name,
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

function ownHeaders(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const lowered = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
  return { "user-agent": USER_AGENT, ...Object.fromEntries(lowered) };
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
    const { data, models } = fieldsOf(answer.body);
    const list = [answer.body, data, models].find(Array.isArray);
    if (status !== 200 || list === undefined) break;
    return fieldsIn(list.slice(0, MAX_MODELS)).flatMap((entry) => {
      const id = textOf(entry.id);
      if (!/^[\x21-\x7e]{1,200}$/.test(id) || NOT_FOR_CHAT.test(id)) return [];
      const names = [textOf(entry.display_name), textOf(entry.name)];
      const name = names.find(({ length }) => length > 0 && length <= 200) ?? id;
      return [{ id: `${provider}/${id}`, name, provider }];
    });
  }
  throw new ModelError("server", `the provider does not list its models (HTTP ${status})`);
}
