/**
 * Masking of secrets in texts and streams.
 *
 * @module
 */

export { createRedactor, type Redactor } from "./redact.ts";
export { type RedactConfig, redactConfig } from "./own_rules.ts";
export { maskSecrets } from "./search.ts";
export { createRedactStreams, type OpenRedactStream, type RedactStream } from "./stream.ts";
