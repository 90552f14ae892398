import type { Clock } from "@gateway/shared/clock";
import type { Settings } from "../settings/config.ts";
import { fetchModels, ModelCatalogue, type ModelSource } from "./catalogue.ts";
import { OpenAiChat } from "./chat.ts";
import { CHAT_COMPLETIONS, type Refusable } from "./chat_completions.ts";
import { DeviceFlows } from "./device_flow.ts";
import { parseModelId, speaksResponses } from "./families.ts";
import { below } from "./json_exchange.ts";
import { type Model, ModelError } from "../engine/model.ts";
import { ReplayModel } from "./replay.ts";
import { RESPONSES } from "./responses.ts";
import { listScenarios, loadScenario } from "./scenario.ts";
import { SessionTokens } from "./session.ts";
import { checkToken, fixedToken, readTokenFile, type TokenSource, writeTokenFile } from "./tokens.ts";

interface ProviderPorts {
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  random(): number;
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
  readonly #settings: Settings;
  readonly #ports: ProviderPorts;
  readonly #hubTokens: TokenSource;
  readonly #refused = new Map<string, Set<Refusable>>();

  constructor(settings: Settings, ports: ProviderPorts) {
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

  /** The model with an id. Each run needs its own, since a scripted model remembers what it has said. */
  async model(id: string): Promise<Model> {
    const { clock, fetch, random, warn, replayPieceDelayMs: pieceDelayMs = 0 } = this.#ports;
    const { provider, name } = parseModelId(id);
    if (provider === "replay") {
      const scenario = await loadScenario(name, this.#settings.REPLAY_DIR);
      return new ReplayModel({ id, scenario, clock, pieceDelayMs });
    }
    const { baseUrl, variable, tokens, headers } = this.#access(provider);
    if (baseUrl === "") {
      const text = `Model ${JSON.stringify(id)} gave no reply: its provider has no URL; set ${variable}`;
      return { id, complete: () => Promise.reject(new ModelError("auth", text)) };
    }
    return new OpenAiChat({
      id,
      name,
      baseUrl,
      api: provider === "assist" && speaksResponses(name) ? RESPONSES : CHAT_COMPLETIONS,
      tokens,
      headers,
      refused: this.#refusedBy(id),
      fetch,
      clock,
      random,
      warn,
      timeoutMs: this.#settings.MODEL_TIMEOUT_SECONDS * 1000,
      idleMs: IDLE_MS,
    });
  }

  #access(provider: "hub" | "assist") {
    const { HUB_BASE_URL, ASSIST_BASE_URL } = this.#settings;
    return provider === "hub"
      ? { baseUrl: HUB_BASE_URL, variable: "HUB_BASE_URL", tokens: this.#hubTokens, headers: HUB_HEADERS }
      : {
        baseUrl: ASSIST_BASE_URL,
        variable: "ASSIST_BASE_URL",
        tokens: this.sessions,
        headers: this.#assistHeaders(),
      };
  }

  /** The access token of provider B: from the settings, or else stored by a login. */
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
    const list = async (provider: "hub" | "assist", urls: readonly string[]) => {
      const { tokens, headers } = this.#access(provider);
      const authorization = `Bearer ${await tokens.token(new AbortController().signal)}`;
      return await fetchModels({ provider, urls, headers: { ...headers, authorization }, fetch, clock });
    };
    return [
      {
        provider: "hub",
        list: async () => {
          if (HUB_BASE_URL === "" || HUB_TOKEN === "") return [];
          // Not every provider lists its models under the base URL of its completions.
          return await list("hub", [below(HUB_BASE_URL, "models"), new URL("/v1/models", HUB_BASE_URL).href]);
        },
      },
      {
        provider: "assist",
        list: async () => {
          if (ASSIST_BASE_URL === "" || await this.assistToken() === undefined) return [];
          return await list("assist", [below(ASSIST_BASE_URL, "models")]);
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
