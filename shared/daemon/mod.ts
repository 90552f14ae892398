/**
 * The chassis of the daemons.
 *
 * @module
 */

export {
  type Environment,
  type ListenerParts,
  openListener,
  openState,
  runDaemon,
  startDaemon,
} from "./daemon.ts";
