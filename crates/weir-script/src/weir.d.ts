// What scripts of weir find. Written by `weir types`; keep it beside the scripts and name it in
// `jsconfig.json`: {"compilerOptions": {"lib": ["es2023"], "checkJs": true}, "include": ["*.js", "*.d.ts"]}

/** A JSON value. */
type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

type Bytes = ArrayBuffer | ArrayBufferView;

/** What a script may give: a value, an answer, nothing (204), or a promise of one of these. */
type Result = unknown | Response | Bytes | undefined;

/** A default export, or exports named as methods: `GET`, `POST`, … */
type Handler = (request: Request) => Result | Promise<Result>;

/** The default export as `request: {script: …}`: a body, a change, an answer, or nothing. */
type RequestMap = (request: Request) => Result | Change | Promise<Result | Change>;

/** The default export as `response: {script: …}`: a body, a whole answer, or nothing. */
type ResponseMap = (answer: Response, request: Request) => Result | Promise<Result>;

/** A request on its way to the handler with other headers or another body. */
interface Change {
  readonly " change": never;
}

/** Who calls, as far as that was verified. */
interface Principal {
  readonly subject: string | null;
  readonly consumer: string | null;
  /** The claims of a token. */
  readonly claims: { readonly [name: string]: Json } | null;
  readonly scopes: string[];
}

/** The request; usable until its call is over. */
interface Request {
  /** Transaction id. */
  readonly id: string;
  readonly method: string;
  readonly path: string;
  /** The query as it was sent, without the question mark. */
  readonly search: string;
  readonly query: URLSearchParams;
  /** Path parameters, decoded; `*` is what a wildcard took. */
  readonly params: { readonly [name: string]: string };
  readonly headers: Headers;
  /** Host asked for. */
  readonly host: string;
  /** Address of the client. */
  readonly client: string;
  /** `null` where nobody proved who he is. */
  readonly principal: Principal | null;
  /** The route's `config`, frozen. */
  readonly config: any;
  text(): string;
  /** @throws SyntaxError if the body is no JSON. */
  json(): any;
  bytes(): Uint8Array;
  /** For a request map: `null` removes a header; what is left out stays. */
  with(change: {
    headers?: Iterable<[string, string | null]> | { [name: string]: unknown };
    /** A text, bytes, a value that is sent in the script's first format, or `null` for none. */
    body?: unknown;
  }): Change;
}

declare class Headers implements Iterable<[string, string]> {
  constructor(init?: Iterable<[string, string]> | { [name: string]: unknown });
  append(name: string, value: unknown): void;
  delete(name: string): void;
  get(name: string): string | null;
  has(name: string): boolean;
  set(name: string, value: unknown): void;
  forEach(callback: (value: string, name: string, headers: Headers) => void): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}

interface ResponseInit {
  /** 200 to 599. */
  status?: number;
  headers?: Headers | Iterable<[string, string]> | { [name: string]: unknown };
}

/** An answer, or what `fetch` gives. It may be thrown, too. */
declare class Response {
  constructor(body?: string | Bytes | null, init?: ResponseInit);
  readonly status: number;
  readonly ok: boolean;
  readonly headers: Headers;
  text(): string;
  json(): any;
  bytes(): Uint8Array;
  /** A value in the formats of the route, negotiated. */
  static value(value: unknown, init?: ResponseInit): Response;
  /** A value that is always sent as JSON. */
  static json(value: unknown, init?: ResponseInit): Response;
}

interface FetchInit {
  /** @default "GET" */
  method?: string;
  headers?: Headers | Iterable<[string, string]> | { [name: string]: unknown };
  /** A text, bytes, or a value that is sent as JSON. */
  body?: unknown;
  /** Milliseconds for the whole of it, instead of the upstream's time to the first byte. */
  timeout?: number;
}

/** Asks an upstream that the route's `fetch` names: `http://NAME/path`. */
declare function fetch(url: string | URL, init?: FetchInit): Promise<Response>;

declare function setTimeout<T extends unknown[]>(
  callback: (...values: T) => void, milliseconds?: number, ...values: T
): number;
declare function clearTimeout(timer: number): void;
declare function queueMicrotask(callback: () => void): void;

/** Lines in weir's log. */
declare const console: {
  debug(...values: unknown[]): void;
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
};

/** What the Tracker keeps of this transaction; at most 64 of each. */
declare const tracker: {
  /** Where the transaction stands: a property `state` each time. */
  state(name: string): void;
  property(name: string, value: unknown): void;
  /** A business key. */
  key(name: string, value: unknown): void;
  log(...values: unknown[]): void;
};

declare class TextEncoder {
  readonly encoding: "utf-8";
  encode(text?: string): Uint8Array;
}

declare class TextDecoder {
  constructor(label?: "utf-8" | "utf8", options?: { fatal?: boolean });
  readonly encoding: "utf-8";
  readonly fatal: boolean;
  decode(bytes?: Bytes): string;
}

declare class URLSearchParams implements Iterable<[string, string]> {
  constructor(init?: string | Iterable<[string, string]> | { [name: string]: unknown });
  readonly size: number;
  append(name: string, value: unknown): void;
  delete(name: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string): boolean;
  set(name: string, value: unknown): void;
  sort(): void;
  forEach(callback: (value: string, name: string, params: URLSearchParams) => void): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  toString(): string;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}

/** Host names in ASCII only. */
declare class URL {
  constructor(url: string | URL, base?: string | URL);
  href: string;
  readonly origin: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  hash: string;
  readonly searchParams: URLSearchParams;
  toString(): string;
  toJSON(): string;
  static canParse(url: string | URL, base?: string | URL): boolean;
}

interface CryptoKey {
  readonly type: "secret";
  readonly algorithm: { readonly name: "HMAC"; readonly hash: { readonly name: HashName } };
  readonly usages: readonly string[];
}

type HashName = "SHA-1" | "SHA-256" | "SHA-384" | "SHA-512";

declare const crypto: {
  randomUUID(): string;
  getRandomValues<T extends ArrayBufferView>(view: T): T;
  readonly subtle: {
    digest(algorithm: HashName | { name: HashName }, data: Bytes): Promise<ArrayBuffer>;
    importKey(
      format: "raw", key: Bytes, algorithm: { name: "HMAC"; hash: HashName },
      extractable?: boolean, usages?: ("sign" | "verify")[],
    ): Promise<CryptoKey>;
    sign(algorithm: "HMAC", key: CryptoKey, data: Bytes): Promise<ArrayBuffer>;
    verify(algorithm: "HMAC", key: CryptoKey, signature: Bytes, data: Bytes): Promise<boolean>;
  };
};
