/** Range below the ports of outgoing connections (Linux: 32768 and up) and above those of services. */
const [FIRST, LAST] = [10_240, 32_767];

/** Listener on the first port of a block, which reserves the block for this process. The other ports are given out. */
const BLOCK = 128;

let block: { readonly first: number; readonly hold: Deno.Listener; given: number } | undefined;

/**
 * Returns a free TCP port on loopback. Each test process has its own block of ports, so no outgoing connection and no
 * other test process uses the port first.
 */
export function freePort(): number {
  block ??= claimBlock();
  for (let tried = 1; tried < BLOCK; tried += 1) {
    const port = block.first + 1 + block.given++ % (BLOCK - 1);
    const listener = tryListen(port);
    if (listener === undefined) continue;
    listener.close();
    return port;
  }
  throw new Error(`no port is free from ${block.first} to ${block.first + BLOCK - 1}`);
}

function claimBlock(): NonNullable<typeof block> {
  const blocks = Math.floor((LAST + 1 - FIRST) / BLOCK);
  for (;;) {
    const first = FIRST + BLOCK * Math.floor(Math.random() * blocks);
    const hold = tryListen(first);
    if (hold === undefined) continue;
    hold.unref();
    return { first, hold, given: Math.floor(Math.random() * BLOCK) };
  }
}

function tryListen(port: number): Deno.Listener | undefined {
  try {
    return Deno.listen({ hostname: "127.0.0.1", port });
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) return undefined;
    throw error;
  }
}
