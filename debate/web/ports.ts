import type { AlertDesk } from "../alerts/desk.ts";
import type { Clock } from "@gateway/shared/clock";
import type { ContextRedactor } from "../context/redact_context.ts";
import type { loadPrices } from "../models/prices.ts";
import type { Providers } from "../models/providers.ts";
import type { TemplateSet } from "../prompts/templates.ts";
import type { RunManager } from "../runs/manager.ts";
import type { RunStore } from "../runs/store.ts";
import type { Settings } from "../settings/config.ts";
import type { Toolset } from "../tools/catalogue.ts";
import type { EventStreams } from "./subscribers.ts";

/** A request and the parameters of its path. */
export interface Routed {
  readonly request: Request;
  readonly param: (name: string) => string;
}

export interface WebPorts {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly store: RunStore;
  readonly manager: RunManager;
  readonly alerts: AlertDesk;
  readonly redactor: ContextRedactor;
  /** Reads the templates again, because an operator can edit them at any time. */
  readonly loadTemplates: () => Promise<TemplateSet>;
  readonly providers:
    & Pick<Providers, "assistToken">
    & { readonly catalogue: Pick<Providers["catalogue"], "list" | "refresh"> }
    & { readonly sessions: Pick<Providers["sessions"], "status"> }
    & { readonly deviceFlows: Pick<Providers["deviceFlows"], "start" | "check"> };
  /** The reason why programs of tools run without a sandbox, if they do. */
  readonly sandboxProblem: string | undefined;
  readonly toolset: () => Promise<Toolset>;
  readonly prices: Awaited<ReturnType<typeof loadPrices>>;
  /** Called with errors of status 500 and higher. */
  readonly onError: (error: unknown, requestId: string) => void;
  readonly newId: (bytes: number) => string;
  readonly randomBytes: (length: number) => Uint8Array;
  readonly stopping: AbortSignal;
}

export interface RoutePorts extends WebPorts {
  readonly events: EventStreams;
}
