/**
 * Envelopes of sealed commands: format, keys, signed bytes.
 *
 * @module
 */

export {
  allowedSignersLine,
  createEnvelopeKey,
  encodeEnvelope,
  ENVELOPE_DOMAIN,
  ENVELOPE_NAMESPACES,
  ENVELOPE_VERSIONS,
  type EnvelopeKey,
  envelopePublicKeyText,
  envelopeSignersLine,
  type EnvelopeVersion,
  MAX_ENVELOPE_TTL_SECONDS,
  mintEnvelope,
  signedBytesV1,
} from "./envelope.ts";
