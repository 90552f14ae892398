/** The HTTP APIs as one page. */
import { describeShape } from "@gateway/shared/config";
import { type ErrorCode, STATUS } from "@gateway/shared/errors";
import { API, encodeBody, type Route, routesOf, type Service, TYPES, typesOf, upper } from "./openapi.ts";
import { fill, table } from "./table.ts";

export function httpPage(): string {
  const { services, everywhere, with_body, types } = API;
  const used = typesOf(services.flatMap(routesOf));
  return fill("http-api", {
    documents: services.map(({ name, title }) => `[${title}](openapi-${name}.json)`).join(", "),
    everywhere: faultTable(everywhere),
    with_body: faultTable(with_body),
    problem: describeShape(types["Problem"] ?? {}),
    services: services.map(describeService).join("\n\n"),
    types: used.map(([name, shape]) => `### ${name}\n\n${describeShape(shape)}`).join("\n\n"),
  });
}

function faultTable(faults: Readonly<Record<string, string>>): string {
  const statusOf = (code: string) => `${STATUS[code as ErrorCode]}`;
  const rows = Object.entries(faults).map(([code, text]) => [statusOf(code), `\`${code}\``, upper(text)]);
  return table(
    ["Status", "Code", "Reason"],
    rows.toSorted(([left], [right]) => Number(left) - Number(right)),
  );
}

function describeService(service: Service): string {
  const routes = routesOf(service).map((route) => describeRoute(service, route));
  return [`## ${service.title}`, `${service.about} Default port: ${service.port}.`, ...routes].join("\n\n");
}

function describeRoute({ name, title, port, anonymous = false }: Service, route: Route): string {
  const { method, path, about, callers, faults, body, bodyType, example, answers, parameters = [] } = route;
  const data = example && `${bodyType === undefined ? "--json" : "--data"} '${encodeBody(route)}'`;
  const request = method === (data === undefined ? "GET" : "POST") ? undefined : `--request ${method}`;
  const url = `https://${name}.example:${port}${
    path.replace(/\{(\w+)\}/g, (_, part) => `$${part.toUpperCase()}`)
  }`;
  const certificate = anonymous ? "" : " --cert caller.crt --key caller.key";
  const curl = [`curl${certificate} --cacert mtls_ca.crt`, request, data, url];
  const rows = parameters.map((
    { name, in: place = "", description = "" },
  ) => [`\`${name}\``, place, description]);
  const responses = Object.entries(answers).map(([status, type]) => `Response ${status}: ${nameOf(type)}`);
  const facts = [`Callers: ${callers}`, body && `Request: ${nameOf(body)}`, ...responses];
  return [
    ...[`### ${title}: ${method} ${path}`, upper(about)],
    facts.filter((fact) => fact !== undefined).map((fact) => `- ${fact}`).join("\n"),
    ...(rows.length === 0 ? [] : [table(["Parameter", "In", "Meaning"], rows)]),
    ...(Object.keys(faults).length === 0 ? [] : [faultTable(faults)]),
    `\`\`\`sh\n${curl.filter((part) => part !== undefined).join(" \\\n  ")}\n\`\`\``,
  ].join("\n\n");
}

function nameOf(type: string): string {
  return TYPES.has(type) ? `[${type}](#${type.toLowerCase()})` : type === "" ? "no body" : `\`${type}\``;
}
