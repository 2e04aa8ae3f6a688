// Operations and schemas of an OpenAPI document for display. Unknown parts
// are left out; its values are treated as plain text only.

export type Json = Record<string, unknown>;

/** An operation of a document. */
export interface Operation {
  method: string;
  path: string;
  name: string;
  summary: string;
  description: string;
  deprecated: boolean;
  parameters: Parameter[];
  body?: Content;
  responses: Response[];
}

export interface Parameter {
  name: string;
  where: string;
  required: boolean;
  description: string;
  schema: Json;
  example?: unknown;
}

/** Media types, each with its schema. */
export interface Content {
  description: string;
  required: boolean;
  types: { type: string; schema: Json; example?: unknown }[];
}

export interface Response extends Content {
  status: string;
}

const METHODS = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
/** Longest chain of references. */
const MAX_DEPTH = 20;

export function object(value: unknown): Json | undefined {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Json) : undefined;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The target of a reference within the document; other values unchanged. */
export function resolved(document: Json, value: unknown): Json {
  let at = object(value) ?? {};
  for (let step = 0; step < MAX_DEPTH && typeof at.$ref === "string"; step += 1) {
    const found = pointer(document, at.$ref);
    if (!found) return {};
    at = found;
  }
  return at;
}

function pointer(document: Json, reference: string): Json | undefined {
  if (!reference.startsWith("#/")) return reference === "#" ? document : undefined;
  let at: unknown = document;
  for (const part of reference.slice(2).split("/")) {
    const name = decode(part).replace(/~1/g, "/").replace(/~0/g, "~");
    at = Array.isArray(at) ? at[Number(name)] : Object.hasOwn(object(at) ?? {}, name) ? object(at)?.[name] : undefined;
  }
  return object(at);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The base path: weir writes it as the only server. */
export function baseOf(document: Json): string {
  const url = text(object(list(document.servers)[0])?.url);
  return url === "/" ? "" : url;
}

/** All operations, in the order of the document. */
export function operations(document: Json): Operation[] {
  const found: Operation[] = [];
  for (const [path, value] of Object.entries(object(document.paths) ?? {})) {
    const item = resolved(document, value);
    for (const method of METHODS) {
      const operation = object(item[method]);
      if (operation) found.push(read(document, path, method, item, operation));
    }
  }
  return found;
}

function read(document: Json, path: string, method: string, item: Json, operation: Json): Operation {
  const parameters = new Map<string, Parameter>();
  for (const value of [...list(item.parameters), ...list(operation.parameters)]) {
    const one = resolved(document, value);
    const parameter: Parameter = {
      name: text(one.name),
      where: text(one.in),
      required: one.required === true,
      description: text(one.description),
      schema: object(one.schema) ?? types(one.content)[0]?.schema ?? {},
      ...withExample(one),
    };
    parameters.set(`${parameter.where} ${parameter.name}`, parameter);
  }
  const body = operation.requestBody === undefined ? undefined : resolved(document, operation.requestBody);
  const responses = Object.entries(object(operation.responses) ?? {}).map(([status, value]) => ({ status, ...content(resolved(document, value)) }));
  return {
    method: method.toUpperCase(),
    path,
    name: text(operation.operationId),
    summary: text(operation.summary),
    description: text(operation.description),
    deprecated: operation.deprecated === true,
    parameters: [...parameters.values()],
    ...(body ? { body: content(body) } : {}),
    responses,
  };
}

function content(value: Json): Content {
  return { description: text(value.description), required: value.required === true, types: types(value.content) };
}

function types(value: unknown): Content["types"] {
  return Object.entries(object(value) ?? {}).map(([type, media]) => ({ type, schema: object(object(media)?.schema) ?? {}, ...withExample(object(media) ?? {}) }));
}

function withExample(value: Json): { example?: unknown } {
  if (value.example !== undefined) return { example: value.example };
  const first = object(Object.values(object(value.examples) ?? {})[0]);
  return first?.value === undefined ? {} : { example: first.value };
}

/** Name of a referenced schema. */
export function nameOf(schema: Json): string {
  return typeof schema.$ref === "string" ? decode(schema.$ref.split("/").at(-1) ?? "").replace(/~1/g, "/") : "";
}

/** A short description of a schema: `array of Line`, `string (date-time)`, `1 to 100`. */
export function typeText(document: Json, schema: Json, depth = 0): string {
  const name = nameOf(schema);
  if (name) return name;
  if (depth > 3) return "…";
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  for (const [key, between] of [
    ["oneOf", " or "],
    ["anyOf", " or "],
    ["allOf", " and "],
  ] as const) {
    const all = list(schema[key]).map((one) => typeText(document, object(one) ?? {}, depth + 1));
    if (all.length > 0) return [...new Set(all)].join(between);
  }
  const kinds = (Array.isArray(schema.type) ? schema.type : [schema.type]).filter((kind): kind is string => typeof kind === "string");
  if (schema.nullable === true) kinds.push("null");
  const of = kinds.includes("array") ? ` of ${typeText(document, object(schema.items) ?? {}, depth + 1)}` : "";
  const kind = kinds.join(" or ") || (schema.properties ? "object" : schema.enum ? "" : "anything");
  const format = text(schema.format);
  return `${kind}${of}${format ? ` (${format})` : ""}${bounds(schema)}`.replace(/^, /, "");
}

function bounds(schema: Json): string {
  const all: string[] = [];
  const enumerated = list(schema.enum);
  if (enumerated.length > 0) all.push(`one of ${enumerated.slice(0, 12).map((one) => JSON.stringify(one)).join(", ")}${enumerated.length > 12 ? ", …" : ""}`);
  const range = (min: unknown, max: unknown, unit: string) => {
    if (min === undefined && max === undefined) return;
    all.push(`${min === undefined ? `at most ${max}` : max === undefined ? `at least ${min}` : `${min} to ${max}`}${unit}`);
  };
  range(schema.minimum, schema.maximum, "");
  range(schema.minLength, schema.maxLength, " characters");
  range(schema.minItems, schema.maxItems, " items");
  if (schema.exclusiveMinimum !== undefined) all.push(`more than ${schema.exclusiveMinimum}`);
  if (schema.exclusiveMaximum !== undefined) all.push(`less than ${schema.exclusiveMaximum}`);
  if (typeof schema.pattern === "string") all.push(`pattern ${schema.pattern}`);
  if (schema.default !== undefined) all.push(`default ${JSON.stringify(schema.default)}`);
  return all.length > 0 ? `, ${all.join(", ")}` : "";
}

/** Members of an object, including those of `allOf`. */
export function members(document: Json, schema: Json, depth = 0): { name: string; schema: Json; required: boolean }[] {
  const whole = resolved(document, schema);
  if (depth > MAX_DEPTH) return [];
  if (whole.type === "array") return members(document, object(whole.items) ?? {}, depth + 1);
  const required = new Set(list(whole.required));
  const own = Object.entries(object(whole.properties) ?? {}).map(([name, value]) => ({ name, schema: object(value) ?? {}, required: required.has(name) }));
  const parts = ["allOf", "oneOf", "anyOf"].flatMap((key) => list(whole[key])).flatMap((part) => members(document, object(part) ?? {}, depth + 1));
  return [...own, ...parts];
}

/** An initial body: the example, or one generated from the schema. */
export function sample(document: Json, schema: Json, depth = 0): unknown {
  const whole = resolved(document, schema);
  if (depth > 8) return null;
  for (const given of [whole.example, list(whole.examples)[0], whole.default, whole.const, list(whole.enum)[0]]) if (given !== undefined) return given;
  const part = list(whole.oneOf)[0] ?? list(whole.anyOf)[0];
  if (part) return sample(document, object(part) ?? {}, depth + 1);
  const kind = Array.isArray(whole.type) ? whole.type[0] : whole.type;
  if (kind === "array") return [sample(document, object(whole.items) ?? {}, depth + 1)];
  const all = members(document, whole);
  if (kind === "object" || all.length > 0) return Object.fromEntries(all.map((one) => [one.name, sample(document, one.schema, depth + 1)]));
  if (kind === "integer" || kind === "number") return typeof whole.minimum === "number" ? whole.minimum : 1;
  if (kind === "boolean") return true;
  return kind === "string" || kind === undefined ? "text" : null;
}

/** A request of an operation as a curl command, to be explained or sent; `base` is a URL. */
export function command(document: Json, base: string, operation: Operation): string {
  const value = (parameter: Parameter) => encodeURIComponent(String(parameter.example ?? sample(document, parameter.schema)));
  let target = base + operation.path;
  const query: string[] = [];
  const headers: string[] = [];
  for (const parameter of operation.parameters) {
    if (parameter.where === "path") target = target.replace(`{${parameter.name}}`, value(parameter));
    else if (!parameter.required) continue;
    else if (parameter.where === "query") query.push(`${encodeURIComponent(parameter.name)}=${value(parameter)}`);
    else if (parameter.where === "header") headers.push(`${parameter.name}: ${decode(value(parameter))}`);
  }
  const parts = ["curl", "-X", operation.method];
  const media = operation.body?.types[0];
  if (media) headers.push(`content-type: ${media.type}`);
  for (const header of headers) parts.push("-H", shell(header));
  if (media) {
    const body = media.example ?? sample(document, media.schema);
    parts.push("-d", shell(typeof body === "string" ? body : JSON.stringify(body, undefined, 2)));
  }
  parts.push(shell(target + (query.length > 0 ? `?${query.join("&")}` : "")));
  return parts.join(" ");
}

function shell(value: string): string {
  return `'${value.replace(/'/g, "'\\''")}'`;
}
