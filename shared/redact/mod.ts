/**
 * Masking of secrets in texts and streams.
 *
 * @module
 */

export { createRedactor, maskSecrets, type RedactConfig, redactConfig, type Redactor } from "./redact.ts";
export { createRedactStreams, type OpenRedactStream, type RedactStream } from "./stream.ts";
