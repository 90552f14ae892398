/** Below the ports that systems give to outgoing connections (Linux: 32768 and up), and above those of services. */
const [FIRST, LAST] = [10_240, 32_767];

/** A TCP port on loopback that was free a moment ago, and that no outgoing connection will be given meanwhile. */
export function freePort(): number {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST + 1));
    try {
      Deno.listen({ hostname: "127.0.0.1", port }).close();
      return port;
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    }
  }
}
