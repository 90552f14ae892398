/**
 * Tests that need a disk, sockets, other processes or real servers. This module exports nothing.
 *
 * @module
 */
export {};
