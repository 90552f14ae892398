/**
 * Writes the generated pages of `docs/reference/` and the sample settings of the debate: `deno task docs:reference`.
 *
 * @module
 */
import { brokerConfig } from "@gateway/broker/config";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { settingsSchema } from "@gateway/debate/config";
import { describeShape } from "@gateway/shared/config";
import { signerConfig } from "@gateway/signer/config";
import type * as z from "@zod/zod";
import { shapeOf } from "../../../shared/config/problems.ts";
import { ROOT } from "../extract.ts";
import { openApi as openDebateApi } from "../../../debate/web/routes.ts";
import { auditPage } from "./audit_page.ts";
import { commandPages } from "./commands.ts";
import { debatePage, envExample } from "./debate.ts";
import { errorsPage } from "./errors_page.ts";
import { httpPage } from "./http_page.ts";
import { metricsPage } from "./metrics_page.ts";
import { API, openApi } from "./openapi.ts";
import { toolsPage } from "./tools_page.ts";

const config = (title: string, schema: z.ZodType) => `# ${title}\n\n${describeShape(shapeOf(schema))}\n`;

/** The generated files by their paths from the root of the workspace. */
export function referenceFiles(): Readonly<Record<string, string>> {
  const files = {
    "configuration-signer.md": config("signer.json", signerConfig),
    "configuration-control-plane.md": config("control-plane.json", controlPlaneConfig),
    "configuration-broker.md": config("config.json and mcp.json", brokerConfig),
    "configuration-debate.md": config("Environment and .env", settingsSchema),
    ...commandPages(),
    ...{ "debate.md": debatePage(), "http-api.md": httpPage(), "mcp-tools.md": toolsPage() },
    ...{ "errors.md": errorsPage(), "metrics.md": metricsPage(), "audit-record.md": auditPage() },
    ...Object.fromEntries(
      [
        ...API.services.map((service) => [service.name, openApi(service)] as const),
        ["debate", openDebateApi()] as const,
      ].map(([name, document]) => [`openapi-${name}.json`, `${JSON.stringify(document, null, 2)}\n`]),
    ),
  };
  const paths = Object.entries(files).map(([name, text]) => [`docs/reference/${name}`, text]);
  return { ...Object.fromEntries(paths), "debate/.env.example": envExample() };
}

if (import.meta.main) {
  for (const [path, text] of Object.entries(referenceFiles())) await Deno.writeTextFile(ROOT + path, text);
}
