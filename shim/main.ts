/**
 * The host-side shim (`gateway-shim`) will live here: the force-command of sealed hosts, which runs a command
 * only when it arrives in an envelope signed by the signer. Nothing of it is built yet; sealed hosts are
 * refused in the signer's config.
 *
 * @module
 */
export {};
