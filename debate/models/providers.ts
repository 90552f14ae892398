/**
 * The providers of models, by the prefix of a model's id: `hub/…` (provider A), `assist/…` (provider B) and
 * `replay/…` (scripted). Their URLs and logins are settings; requests do not carry another program's name.
 *
 * @module
 */
import type { Clock } from "@gateway/shared/clock";
import type { Settings } from "../settings/config.ts";
import { fetchModels, ModelCatalogue, type ModelSource } from "./catalogue.ts";
import { CHAT_COMPLETIONS, type ChatApi, RESPONSES } from "./chat_api.ts";
import type { TokenSource } from "./chat_exchange.ts";
import type { Refusable } from "./chat_request.ts";
import { DeviceFlows } from "./device_flow.ts";
import { speaksResponses } from "./families.ts";
import { checkToken, fixedToken } from "./fixed_token.ts";
import { type Model, ModelError } from "../engine/model.ts";
import { parseModelId } from "./model_id.ts";
import { OpenAiChat } from "./openai_chat.ts";
import { ReplayModel } from "./replay.ts";
import { listScenarios, loadScenario } from "./scenarios.ts";
import { SessionTokens } from "./session.ts";
import { readTokenFile, writeTokenFile } from "./token_file.ts";

type ProviderSettings = Pick<
  Settings,
  | "HUB_TOKEN"
  | "HUB_BASE_URL"
  | "ASSIST_TOKEN"
  | "ASSIST_TOKEN_FILE"
  | "ASSIST_BASE_URL"
  | "ASSIST_SESSION_URL"
  | "ASSIST_DEVICE_CODE_URL"
  | "ASSIST_DEVICE_TOKEN_URL"
  | "ASSIST_CLIENT_ID"
  | "ASSIST_SCOPE"
  | "ASSIST_HEADERS"
  | "REPLAY_DIR"
  | "MODEL_TIMEOUT_SECONDS"
>;

/** What gives providers access to the outside world. */
interface ProviderPorts {
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  /** A number from 0 to 1. */
  random(): number;
  /** A fresh name for a pending login. */
  newId(): string;
  /** Writes to the operator's log; is never given secrets. */
  warn(message: string): void;
  /** Between two pieces of a scripted text, in milliseconds; default 0, at once. */
  readonly replayPieceDelayMs?: number;
}

/**
 * The longest silence inside a stream. Models that think for long are silent before their first word, not after
 * it.
 */
const IDLE_MS = 120_000;

const USER_AGENT = "debate";

/** For how many models refusals are remembered; their ids come from the clients that start runs. */
const MAX_REMEMBERED = 200;

export class Providers {
  readonly catalogue: ModelCatalogue;
  readonly deviceFlows: DeviceFlows;
  readonly sessions: SessionTokens;
  readonly #settings: ProviderSettings;
  readonly #ports: ProviderPorts;
  readonly #hubTokens: TokenSource;
  readonly #refused = new Map<string, Set<Refusable>>();

  constructor(settings: ProviderSettings, ports: ProviderPorts) {
    const { fetch, clock } = ports;
    this.#settings = settings;
    this.#ports = ports;
    this.#hubTokens = fixedToken("HUB_TOKEN", settings.HUB_TOKEN);
    this.sessions = new SessionTokens({
      url: settings.ASSIST_SESSION_URL,
      headers: this.#assistHeaders(),
      accessToken: () => this.assistToken(),
      remedy: "set ASSIST_TOKEN or run `debate login`",
      fetch,
      clock,
    });
    this.deviceFlows = new DeviceFlows({
      deviceCodeUrl: settings.ASSIST_DEVICE_CODE_URL,
      tokenUrl: settings.ASSIST_DEVICE_TOKEN_URL,
      clientId: settings.ASSIST_CLIENT_ID,
      scope: settings.ASSIST_SCOPE,
      fetch,
      clock,
      newId: ports.newId,
      store: (token) => writeTokenFile(settings.ASSIST_TOKEN_FILE, token),
    });
    this.catalogue = new ModelCatalogue(this.#sources(), clock);
  }

  /**
   * The model with an id. Each run needs its own, since a scripted model remembers what it has said.
   *
   * @throws {AppError} `invalid_request` for an id that no provider has, `not_found` or `invalid_config` for a
   * scenario that does not exist or is broken. Anything else that is missing becomes an error of the model's calls.
   */
  async model(id: string): Promise<Model> {
    const { HUB_BASE_URL, ASSIST_BASE_URL, REPLAY_DIR } = this.#settings;
    const { provider, name } = parseModelId(id);
    switch (provider) {
      case "hub":
        return this.#chat({ id, name, baseUrl: HUB_BASE_URL, variable: "HUB_BASE_URL" }, {
          api: CHAT_COMPLETIONS,
          tokens: this.#hubTokens,
          headers: HUB_HEADERS,
        });
      case "assist":
        return this.#chat({ id, name, baseUrl: ASSIST_BASE_URL, variable: "ASSIST_BASE_URL" }, {
          api: speaksResponses(name) ? RESPONSES : CHAT_COMPLETIONS,
          tokens: this.sessions,
          headers: this.#assistHeaders(),
        });
      case "replay":
        return new ReplayModel({
          id,
          scenario: await loadScenario(name, REPLAY_DIR),
          clock: this.#ports.clock,
          pieceDelayMs: this.#ports.replayPieceDelayMs ?? 0,
        });
    }
    return provider satisfies never;
  }

  /**
   * The access token of provider B: from the settings, or else stored by a login.
   *
   * @throws {ModelError} `auth` when the stored one cannot be read
   */
  async assistToken(): Promise<string | undefined> {
    const { ASSIST_TOKEN, ASSIST_TOKEN_FILE } = this.#settings;
    if (ASSIST_TOKEN !== "") return checkToken("ASSIST_TOKEN", ASSIST_TOKEN);
    try {
      return await readTokenFile(ASSIST_TOKEN_FILE);
    } catch (cause) {
      const text = "the stored access token cannot be read; run `debate login`";
      throw new ModelError("auth", text, { cause });
    }
  }

  #chat(
    { id, name, baseUrl, variable }: {
      readonly id: string;
      readonly name: string;
      readonly baseUrl: string;
      readonly variable: string;
    },
    access: {
      readonly api: ChatApi;
      readonly tokens: TokenSource;
      readonly headers: Readonly<Record<string, string>>;
    },
  ): Model {
    // The client library would use its vendor's server instead.
    if (baseUrl === "") return new UnreachableModel(id, variable);
    const { fetch, clock, random, warn } = this.#ports;
    return new OpenAiChat({
      id,
      name,
      baseUrl,
      ...access,
      refused: this.#refusedBy(id),
      fetch,
      clock,
      random,
      warn,
      timeoutMs: this.#settings.MODEL_TIMEOUT_SECONDS * 1000,
      idleMs: IDLE_MS,
    });
  }

  #refusedBy(id: string): Set<Refusable> {
    const known = this.#refused.get(id);
    if (known !== undefined) return known;
    if (this.#refused.size >= MAX_REMEMBERED) this.#refused.clear();
    const refused = new Set<Refusable>();
    this.#refused.set(id, refused);
    return refused;
  }

  #assistHeaders(): Readonly<Record<string, string>> {
    const own = Object.entries(this.#settings.ASSIST_HEADERS).map((
      [name, value],
    ) => [name.toLowerCase(), value]);
    return { "user-agent": USER_AGENT, ...Object.fromEntries(own) };
  }

  /** A provider that is not configured is not a problem: it has no models. */
  #sources(): readonly ModelSource[] {
    const { HUB_BASE_URL, HUB_TOKEN, ASSIST_BASE_URL, REPLAY_DIR } = this.#settings;
    const { fetch, clock } = this.#ports;
    const bearer = async (tokens: TokenSource) => ({
      authorization: `Bearer ${await tokens.token(new AbortController().signal)}`,
    });
    return [
      {
        provider: "hub",
        list: async () => {
          if (HUB_BASE_URL === "" || HUB_TOKEN === "") return [];
          const headers = { ...HUB_HEADERS, ...await bearer(this.#hubTokens) };
          // Not every provider lists its models under the base URL of its completions.
          const urls = [below(HUB_BASE_URL, "models"), new URL("/v1/models", HUB_BASE_URL).href];
          return await fetchModels({ provider: "hub", urls, headers, fetch, clock });
        },
      },
      {
        provider: "assist",
        list: async () => {
          if (ASSIST_BASE_URL === "" || await this.assistToken() === undefined) return [];
          const headers = { ...this.#assistHeaders(), ...await bearer(this.sessions) };
          const urls = [below(ASSIST_BASE_URL, "models")];
          return await fetchModels({ provider: "assist", urls, headers, fetch, clock });
        },
      },
      {
        provider: "replay",
        list: async () =>
          (await listScenarios(REPLAY_DIR)).map((name) => ({
            id: `replay/${name}`,
            name: name.replaceAll("_", " "),
            provider: "replay",
          })),
      },
    ];
  }
}

const HUB_HEADERS = { "user-agent": USER_AGENT };

function below(baseUrl: string, path: string): string {
  return `${baseUrl.replace(/(?<!\/)\/+$/, "")}/${path}`;
}

/** A model of which every call fails and says which setting is missing. */
class UnreachableModel implements Model {
  readonly id: string;
  readonly #variable: string;

  /** @param variable the setting that is missing */
  constructor(id: string, variable: string) {
    this.id = id;
    this.#variable = variable;
  }

  complete(): Promise<never> {
    const text = `Model ${
      JSON.stringify(this.id)
    } gave no reply: its provider has no URL; set ${this.#variable}`;
    return Promise.reject(new ModelError("auth", text));
  }
}
