/**
 * The control plane will live here: it stands between brokers and the signer, has commands that need it
 * approved by a second human, watches the behaviour of agents, and serves the approver pages. Nothing of it
 * is built yet; brokers talk to the signer directly.
 *
 * @module
 */
export {};
