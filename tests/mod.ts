/**
 * Tests that need more than a function: disk, sockets, other processes, real servers. Nothing to import.
 *
 * @module
 */
export {};
