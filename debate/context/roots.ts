/** A path is judged by its target after all links are resolved. */

/** The real paths of the folders; those that do not exist are left out. */
export async function resolveRoots(paths: readonly string[]): Promise<readonly string[]> {
  const real = await Promise.all(paths.map((path) => realPath(path)));
  return real.filter((path) => path !== undefined);
}

/** The real path if it lies within a root; `undefined` if it does not, or does not exist. */
export async function findInside(path: string, roots: readonly string[]): Promise<string | undefined> {
  const real = await realPath(path);
  return real !== undefined && roots.some((root) => isWithin(real, root)) ? real : undefined;
}

/** Whether a real path is a real folder or lies in it. */
export function isWithin(path: string, root: string): boolean {
  return path === root || path.startsWith(root.endsWith("/") ? root : `${root}/`);
}

async function realPath(path: string): Promise<string | undefined> {
  if (path.includes("\0")) return undefined;
  try {
    return await Deno.realPath(path);
  } catch {
    return undefined;
  }
}
