import { basename, dirname, join } from "node:path";
import { type BrokerConfig, brokerConfig } from "@gateway/broker/config";
import { loadConfig } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { isInNetwork } from "@gateway/shared/permissions";
import { quoteText } from "@gateway/shared/text";

/** The configs that `init` writes beside the signer's. */
const BESIDE = ["config.json", "mcp.json"] as const;

/**
 * A line for each broker config beside the signer's whose process can't connect to an address. Brokers elsewhere are
 * not seen from here.
 */
export async function describeOutOfReach(signerConfig: string, addr: string): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const name of BESIDE) {
    const path = join(dirname(signerConfig), name);
    const config = await loadBroker(path);
    if (config === undefined || reaches(config, addr)) continue;
    lines.push(
      `the broker of ${quoteText(basename(path))} may not connect to ${addr}: add ${
        quoteText(addr)
      } to "networks" there, ` +
        "and start it again; a client's entry that lists permissions is renewed by broker-ctl permissions broker",
    );
  }
  return lines;
}

async function loadBroker(path: string): Promise<BrokerConfig | undefined> {
  if (await ifThere(Deno.stat(path)) === undefined) return undefined;
  try {
    return await loadConfig({ path, what: "broker config", schema: brokerConfig });
  } catch (error) {
    // Whose config that is, and what is wrong with it, is not what was asked.
    if (error instanceof AppError) return undefined;
    throw error;
  }
}

function reaches({ signer, networks, api_servers }: BrokerConfig, addr: string): boolean {
  if (signer === undefined || (networks.length === 0 && api_servers.length === 0)) return true;
  return networks.some((network) => isInNetwork(addr, network));
}
