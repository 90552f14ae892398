import { join } from "node:path";
import { type Package, THIS_VERSION } from "./packages.ts";
import type { Architecture } from "./runtimes.ts";
import { PROGRAM_MODE, run, write } from "./stage.ts";

interface DebianBuild {
  /** The directory with the package's files, where `DEBIAN/` is added; absolute. */
  readonly root: string;
  readonly output: string;
  readonly version: string;
  /** `all` for a package without a program of one architecture. */
  readonly architecture: Architecture | "all";
  /** The time of its files; seconds since the epoch. */
  readonly epoch: number;
}

/** A version as Debian compares it: `0.2.0-rc.1` comes before `0.2.0`. */
export function debianVersion(version: string): string {
  return version.replace("-", "~");
}

/** Creates a `.deb`. @returns the name of the file */
export async function buildDebian(packaged: Package, build: DebianBuild): Promise<string> {
  const { root, version, architecture, epoch } = build;
  const control = join(root, "DEBIAN");
  const kilobytes = Number.parseInt(await run("du", ["-sk", root], { cwd: root }), 10);
  await write(join(control, "control"), controlText(packaged, { version, architecture, kilobytes }));
  for (const [name, text] of Object.entries(maintainerScripts(packaged))) {
    await write(join(control, name), text, PROGRAM_MODE);
  }
  const file = `${packaged.name}_${debianVersion(version)}_${architecture}.deb`;
  const args = ["--root-owner-group", "-Zgzip", "--build", root, join(build.output, file)];
  await run("dpkg-deb", args, { cwd: root, env: { SOURCE_DATE_EPOCH: String(epoch) } });
  return file;
}

export function controlText(
  packaged: Package,
  { version, architecture, kilobytes }: Pick<DebianBuild, "version" | "architecture"> & {
    readonly kilobytes: number;
  },
): string {
  const { name, summary, description, depends, recommends = [] } = packaged;
  const list = (packages: readonly string[]) =>
    packages.join(", ").replaceAll(THIS_VERSION, debianVersion(version));
  const fields: readonly (readonly [string, string])[] = [
    ["Package", name],
    ["Version", debianVersion(version)],
    ["Architecture", architecture],
    ["Maintainer", "The gateway authors <security@gateway.invalid>"],
    ["Installed-Size", String(kilobytes)],
    ["Depends", list(depends)],
    ["Recommends", list(recommends)],
    ["Section", "admin"],
    ["Priority", "optional"],
    ["Description", `${summary}\n ${description}`],
  ];
  return fields.filter(([, value]) => value !== "").map(([key, value]) => `${key}: ${value}\n`).join("");
}

/**
 * The scripts that `dpkg` runs. They start no service, because a unit does nothing before its config exists.
 */
export function maintainerScripts(packaged: Package): Readonly<Record<string, string>> {
  const { units = [], lastingUnits = [], folders = [], files, passwordFile } = packaged;
  const makes = files.filter(({ to }) => /^usr\/lib\/(?:sysusers|tmpfiles)\.d\//.test(to));
  const lines = makes.map(({ to }) =>
    to.includes("/sysusers.d/")
      ? `  systemd-sysusers ${to.split("/").at(-1)}`
      : `  systemd-tmpfiles --create ${to.split("/").at(-1)}`
  );
  if (units.length === 0 && lines.length === 0) return {};
  const names = [...units, ...lastingUnits].join(" ");
  const isBooted = "[ -d /run/systemd/system ]";
  const upgrade = units.length === 0 ? [] : [
    `  if ${isBooted}; then`,
    "    systemctl daemon-reload",
    // A service that an operator stopped stays stopped.
    `    [ -z "\${2-}" ] || systemctl try-restart ${units.join(" ")}`,
    "  fi",
  ];
  return {
    postinst: script([
      'if [ "$1" = configure ]; then',
      ...lines,
      ...(passwordFile === undefined ? [] : [createPassword(passwordFile)]),
      ...upgrade,
      "fi",
    ]),
    ...(units.length > 0 && {
      prerm: script([
        'if [ "$1" = remove ]; then',
        `  if ${isBooted}; then systemctl disable --now ${names}; else systemctl disable ${names}; fi`,
        "fi",
      ]),
    }),
    postrm: script([
      `if ${isBooted}; then systemctl daemon-reload; fi`,
      ...(folders.length === 0 ? [] : [purge(folders)]),
    ]),
  };
}

/** Creates settings that only root can read. The password is in no argument: `printf` is part of the shell. */
function createPassword({ path, user }: NonNullable<Package["passwordFile"]>): string {
  return `  if [ ! -e ${path} ] && [ ! -L ${path} ]; then
    password=$(od -An -v -N24 -tx1 /dev/urandom | tr -d ' \\n')
    [ \${#password} -eq 48 ]
    (umask 077 && set -C && printf 'WEB_USERNAME=${user}\\nWEB_PASSWORD=%s\\n' "$password" >${path})
    echo "${path} has the user name and the generated password" >&2
  fi`;
}

/**
 * Removes empty directories only. Keys, audit records and their users stay, because the IDs of the users must
 * not be reused.
 */
function purge(folders: readonly string[]): string {
  return `if [ "$1" = purge ]; then
  for directory in ${folders.toReversed().join(" ")}; do
    [ ! -d "$directory" ] || rmdir "$directory" 2>/dev/null ||
      echo "$directory is kept: removing a package does not remove keys, state and audit records" >&2
  done
fi`;
}

function script(lines: readonly string[]): string {
  return ["#!/bin/sh", "set -e", ...lines, ""].join("\n");
}
