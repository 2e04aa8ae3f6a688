// What scripts find as globals, and the way from a call to its answer. Evaluated once an engine,
// before any script: what it takes from the globals cannot have been changed.
(function (native, bound) {
  "use strict";
  const { stringify, parse } = JSON;
  const { freeze, fromEntries, defineProperty, getOwnPropertyDescriptor, getPrototypeOf } = Object;
  const ownKeys = Reflect.ownKeys;
  const isPromise = (value) => value instanceof Promise;
  const [objects, arrays] = [Object.prototype, Array.prototype];
  const then = Promise.prototype.then;
  const apply = Reflect.apply;
  const toBase64 = Uint8Array.prototype.toBase64;
  const fromBase64 = Uint8Array.fromBase64;
  const { toLowerCase } = String.prototype;
  // From here on built-ins account for their work; those above are for weir itself.
  const spend = bound(native);

  /** The bytes of a buffer or a view, as base64. */
  function packed(value) {
    spend((value?.byteLength ?? 0) * 20);
    if (value instanceof ArrayBuffer) return apply(toBase64, new Uint8Array(value), []);
    if (ArrayBuffer.isView(value)) {
      return apply(toBase64, new Uint8Array(value.buffer, value.byteOffset, value.byteLength), []);
    }
    throw new TypeError("bytes are expected: a Uint8Array, another view or an ArrayBuffer");
  }
  const isBytes = (value) => value instanceof ArrayBuffer || ArrayBuffer.isView(value);

  // ---- headers, requests, responses

  function lower(name) {
    const text = `${name}`;
    // Names have few characters; a script may ask for any text.
    if (text.length > 64) spend(text.length * 30);
    return apply(toLowerCase, text, []);
  }

  class Headers {
    #fields = [];
    constructor(init) {
      if (init === undefined || init === null) return;
      const pairs = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
      for (const [name, value] of pairs) this.append(name, value);
    }
    append(name, value) {
      this.#fields.push([lower(name), `${value}`]);
    }
    set(name, value) {
      this.delete(name);
      this.append(name, value);
    }
    delete(name) {
      name = lower(name);
      this.#fields = this.#fields.filter((field) => field[0] !== name);
    }
    get(name) {
      name = lower(name);
      let value = null;
      for (let at = 0; at < this.#fields.length; at++) {
        const field = this.#fields[at];
        if (field[0] === name) value = value === null ? field[1] : `${value}, ${field[1]}`;
      }
      return value;
    }
    has(name) {
      name = lower(name);
      for (let at = 0; at < this.#fields.length; at++) {
        if (this.#fields[at][0] === name) return true;
      }
      return false;
    }
    forEach(callback, self) {
      for (const [name, value] of this) apply(callback, self, [value, name, this]);
    }
    *entries() {
      for (const [name, value] of this.#fields) yield [name, value];
    }
    *keys() {
      for (const [name] of this.#fields) yield name;
    }
    *values() {
      for (const [, value] of this.#fields) yield value;
    }
    [Symbol.iterator]() {
      return this.entries();
    }
    toJSON() {
      return Object.fromEntries(this);
    }
    static flat(headers) {
      return headers.#fields.flat();
    }
    static of(flat) {
      const headers = new Headers();
      for (let at = 0; at < flat.length; at += 2) headers.#fields.push([flat[at], flat[at + 1]]);
      return headers;
    }
  }
  const flatHeaders = Headers.flat;
  const headersOf = Headers.of;
  delete Headers.flat;
  delete Headers.of;

  class Request {
    #call;
    #program;
    /** What has been asked for. One member, as each costs every call. */
    #known;
    constructor(call, program) {
      this.#call = call;
      this.#program = program;
    }
    get id() {
      return native.fact(this.#call, 0);
    }
    get method() {
      return native.fact(this.#call, 1);
    }
    get path() {
      return native.fact(this.#call, 2);
    }
    get search() {
      return native.fact(this.#call, 3);
    }
    get host() {
      return native.fact(this.#call, 4);
    }
    get client() {
      return native.fact(this.#call, 5);
    }
    get headers() {
      return ((this.#known ??= {}).headers ??= headersOf(native.headers(this.#call)));
    }
    get params() {
      return ((this.#known ??= {}).params ??= fromEntries(pairs(native.parameters(this.#call))));
    }
    get query() {
      return ((this.#known ??= {}).query ??= new URLSearchParams(this.search));
    }
    get principal() {
      return ((this.#known ??= {}).principal ??= parse(native.principal(this.#call)));
    }
    get config() {
      return this.#program.config;
    }
    text() {
      return native.text(this.#call, 0);
    }
    json() {
      return native.json(this.#call, 0);
    }
    bytes() {
      return native.bytes(this.#call, 0);
    }
    /** What a request map gives that changes headers, too. */
    with(init) {
      return new Changed(init);
    }
  }

  class Changed {
    #set = [];
    #remove = [];
    #body;
    constructor(init) {
      const { headers = {}, body } = init ?? {};
      const pairs = typeof headers[Symbol.iterator] === "function" ? headers : Object.entries(headers);
      for (const [name, value] of pairs) {
        if (value === null || value === undefined) this.#remove.push(lower(name));
        else this.#set.push(lower(name), `${value}`);
      }
      this.#body = body;
    }
    static rendered(changed, indent) {
      const [kind, content] = contentOf(changed.#body, indent);
      return [kind, 200, changed.#set, content, changed.#remove];
    }
  }
  const renderedChange = Changed.rendered;
  delete Changed.rendered;

  function* pairs(flat) {
    for (let at = 0; at < flat.length; at += 2) yield [flat[at], flat[at + 1]];
  }

  class Response {
    #status = 200;
    #headers;
    #body;
    /** Of an answer to `fetch`: its call and the number of its body. */
    #source;
    constructor(body, init) {
      if (init !== undefined && init !== null) {
        if (init.status !== undefined) this.#status = checkedStatus(init.status);
        if (init.headers !== undefined) {
          this.#headers = new Headers(init.headers);
        }
      }
      this.#body = body;
    }
    get status() {
      return this.#status;
    }
    get ok() {
      return this.#status >= 200 && this.#status < 300;
    }
    get headers() {
      if (this.#headers === undefined) {
        const [call, number] = this.#source ?? [];
        this.#headers = call === undefined ? new Headers() : headersOf(native.answered(call, number));
      }
      return this.#headers;
    }
    text() {
      if (this.#source) return native.text(this.#source[0], this.#source[1]);
      if (isBytes(this.#body)) return native.decode(packed(this.#body), false);
      return this.#body === undefined || this.#body === null ? "" : `${this.#body}`;
    }
    json() {
      if (this.#source) return native.json(this.#source[0], this.#source[1]);
      return parse(this.text());
    }
    bytes() {
      if (this.#source) return native.bytes(this.#source[0], this.#source[1]);
      if (isBytes(this.#body)) return fromBase64(packed(this.#body));
      return native.encode(this.text());
    }
    /** A value, rendered in the formats of the route. */
    static value(value, init) {
      const response = new Response(value, init);
      response.#kind = VALUE;
      return response;
    }
    static json(value, init) {
      const response = new Response(stringified(value), init);
      if (!response.headers.has("content-type")) {
        response.headers.set("content-type", "application/json");
      }
      return response;
    }
    #kind = 0;
    static fetched(source, status) {
      const response = new Response();
      response.#status = status;
      response.#source = source;
      return response;
    }
    /** What weir sends. */
    static rendered(response, indent) {
      const status = response.#status;
      const untouched = response.#headers === undefined && response.#source === undefined;
      const headers = untouched ? [] : flatHeaders(response.headers);
      if (response.#kind === VALUE) {
        return [VALUE, status, headers, stringified(response.#body, indent)];
      }
      if (response.#source) return [FETCHED, status, headers, response.#source[1]];
      const body = response.#body;
      if (body === undefined || body === null) return [EMPTY, status, headers, ""];
      if (isBytes(body)) return [BYTES, status, headers, packed(body)];
      return [TEXT, status, headers, `${body}`];
    }
  }
  const fetched = Response.fetched;
  const renderedResponse = Response.rendered;
  delete Response.fetched;
  delete Response.rendered;

  function checkedStatus(status) {
    const number = Number(status);
    if (!(Number.isInteger(number) && number >= 200 && number <= 599)) {
      throw new RangeError("a status is a whole number from 200 to 599");
    }
    return number;
  }

  // ---- from a value to an answer

  // What an answer's body is: a value as JSON text, a text, bytes in base64, nothing, or the body
  // of an answer to `fetch`.
  const VALUE = 1;
  const TEXT = 2;
  const BYTES = 3;
  const EMPTY = 4;
  const FETCHED = 5;
  // What a map leaves as it is.
  const KEPT = 6;

  /** Kind and content of a body; a text is a text, anything else a value. */
  function contentOf(body, indent) {
    if (body === undefined) return [KEPT, ""];
    if (body === null) return [EMPTY, ""];
    if (isBytes(body)) return [BYTES, packed(body)];
    if (typeof body === "string") return [TEXT, body];
    return [VALUE, stringified(body, indent)];
  }

  function stringified(value, indent = 0) {
    return stringify(value, null, indent) ?? unwritable(value);
  }

  function unwritable(value) {
    throw new TypeError(`a ${typeof value} has no representation in JSON`);
  }

  /** A text is the JSON of a value with status 200; everything else is a row. */
  function rendered(value, indent) {
    if (value === undefined) return [EMPTY, 204, [], ""];
    if (typeof value === "object" && value !== null) {
      const prototype = getPrototypeOf(value);
      // What most calls give: to ask what it is an instance of would cost as much as the call.
      if (prototype === objects || prototype === arrays) {
        return stringify(value, null, indent) ?? unwritable(value);
      }
      if (value instanceof Response) return renderedResponse(value, indent);
      if (isBytes(value)) return [BYTES, 200, [], packed(value)];
      if (value instanceof Changed) {
        throw new TypeError("a changed request is what a request map gives, and nothing else does");
      }
    }
    return stringified(value, indent);
  }

  /** What a map of a request gives: a body in place of its own, a change, or an answer. */
  function renderedMap(value, indent) {
    if (value instanceof Response) return renderedResponse(value, indent);
    if (value instanceof Changed) return renderedChange(value, indent);
    if (value === undefined) return [KEPT, 200, [], "", []];
    if (isBytes(value)) return [BYTES, 200, [], packed(value), []];
    return [VALUE, 200, [], stringified(value, indent), []];
  }

  /** A description of what was thrown, whatever it is; a row if it is an answer. */
  function described(error, indent) {
    try {
      if (error instanceof Response) return renderedResponse(error, indent);
      if (error instanceof Error) {
        const text = `${error.name}: ${error.message}`;
        const stack = error.stack;
        return typeof stack === "string" && stack !== "" ? `${text}\n${stack}` : text;
      }
      return `thrown: ${shown(error)}`;
    } catch {
      return "thrown: something that cannot be described";
    }
  }

  /** Number of the answer that a map is given. */
  const MAPPED = 1;
  const programs = [];

  function add(factories, names, shared, config, indent) {
    const all = () => {
      const made = [];
      const load = (at) => (made[at] ??= factories[at](load));
      return load(0);
    };
    const program = {
      names,
      indent,
      config: hardened(parse(config)),
      all,
      only: factories.length === 1 ? factories[0] : undefined,
      instance: shared ? all() : undefined,
    };
    return programs.push(program) - 1;
  }

  /** Which of the names are exported and no functions. */
  function unusable(at) {
    const exported = programs[at].all();
    return programs[at].names.filter((name) => typeof exported[name] !== "function");
  }

  function run(at, name, call) {
    const program = programs[at];
    // Every call pays for each function on this way, so there are few.
    const exported = program.instance ?? (program.only ?? program.all)();
    const result = exported[program.names[name]](new Request(call, program));
    const promised = typeof result === "object" && typeof result?.then === "function";
    if (promised) return later(call, program, result, rendered);
    return rendered(result, program.indent);
  }

  /** Calls a map of a request, or of an answer if there is a status. */
  function map(at, name, call, status) {
    const program = programs[at];
    const exported = program.instance ?? program.all();
    const request = new Request(call, program);
    const given = status === 0 ? [request] : [fetched([call, MAPPED], status), request];
    const result = exported[program.names[name]](...given);
    const promised = typeof result === "object" && typeof result?.then === "function";
    if (promised) return later(call, program, result, renderedMap);
    return renderedMap(result, program.indent);
  }

  /** Ends the call when the promise is settled. */
  function later(call, program, result, render) {
    const promise = isPromise(result) ? result : Promise.resolve(result);
    apply(then, promise, [
      (value) => {
        let end;
        try {
          end = render(value, program.indent);
        } catch (error) {
          return native.failed(call, described(error, program.indent));
        }
        native.done(call, end);
      },
      (error) => native.failed(call, described(error, program.indent)),
    ]);
  }

  // ---- what takes time: fetch and timers

  const waiting = new Map();

  function complete(op, ok, told) {
    const [resolve, reject] = waiting.get(op) ?? [];
    waiting.delete(op);
    if (ok) resolve?.(told);
    else reject?.(new TypeError(told));
  }

  function forget(op) {
    waiting.delete(op);
  }

  /** Says what a body is, unless its headers do. */
  function typed(fields, type) {
    for (let at = 0; at < fields.length; at += 2) if (fields[at] === "content-type") return;
    fields.push("content-type", type);
  }

  function fetch(input, init) {
    return new Promise((resolve, reject) => {
      const { method = "GET", headers, body, timeout } = init ?? {};
      // Most requests set none.
      const fields = headers === undefined ? [] : flatHeaders(new Headers(headers));
      let kind = 0;
      let content = "";
      if (body !== undefined && body !== null) {
        if (isBytes(body)) {
          [kind, content] = [2, packed(body)];
        } else if (typeof body === "string") {
          [kind, content] = [1, body];
          typed(fields, "text/plain; charset=utf-8");
        } else {
          [kind, content] = [1, stringified(body)];
          typed(fields, "application/json");
        }
      }
      const milliseconds = timeout === undefined ? 0 : Math.max(1, Number(timeout) || 1);
      const started = native.fetch(
        `${input}`, `${method}`, fields, kind, content, milliseconds,
      );
      if (typeof started === "string") throw new TypeError(started);
      waiting.set(started[1], [(status) => resolve(fetched(started, status)), reject]);
    });
  }

  function setTimeout(callback, milliseconds, ...rest) {
    if (typeof callback !== "function") throw new TypeError("a function is expected");
    const op = native.timer(Math.max(0, Number(milliseconds) || 0));
    if (op < 0) throw new RangeError("too much is being waited for");
    waiting.set(op, [() => callback(...rest)]);
    return op;
  }

  function clearTimeout(op) {
    if (waiting.delete(op)) native.drop(op);
  }

  // ---- console and tracker

  function shown(value) {
    if (typeof value === "string") return value;
    if (value instanceof Error) return `${value.name}: ${value.message}`;
    try {
      return stringify(value) ?? String(value);
    } catch {
      return typeof value === "object" ? Object.prototype.toString.call(value) : String(value);
    }
  }

  const printed = (level) => (...values) => native.log(level, values.map(shown).join(" "));
  const console = {
    debug: printed("debug"),
    log: printed("info"),
    info: printed("info"),
    warn: printed("warn"),
    error: printed("error"),
  };

  const tracker = {
    state: (name) => native.note("state", "", `${name}`),
    property: (name, value) => native.note("property", `${name}`, shown(value)),
    key: (name, value) => native.note("key", `${name}`, shown(value)),
    log: (...values) => native.note("log", "", values.map(shown).join(" ")),
  };

  // ---- texts, addresses, cryptography

  class TextEncoder {
    get encoding() {
      return "utf-8";
    }
    encode(text = "") {
      return native.encode(`${text}`);
    }
  }

  class TextDecoder {
    #fatal;
    constructor(label = "utf-8", options) {
      if (!["utf-8", "utf8"].includes(lower(label))) {
        throw new RangeError("only utf-8 is decoded");
      }
      this.#fatal = Boolean(options?.fatal);
    }
    get encoding() {
      return "utf-8";
    }
    get fatal() {
      return this.#fatal;
    }
    decode(bytes) {
      if (bytes === undefined) return "";
      const text = native.decode(packed(bytes), this.#fatal);
      if (text === undefined) throw new TypeError("this is not valid UTF-8");
      return text;
    }
  }

  class URLSearchParams {
    #pairs = [];
    #changed;
    constructor(init = "") {
      if (typeof init === "string") {
        this.#pairs = [...pairs(native.query(init.startsWith("?") ? init.slice(1) : init))];
      } else {
        const list = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
        for (const [name, value] of list) this.#pairs.push([`${name}`, `${value}`]);
      }
    }
    get size() {
      return this.#pairs.length;
    }
    get(name) {
      return this.#pairs.find((pair) => pair[0] === `${name}`)?.[1] ?? null;
    }
    getAll(name) {
      return this.#pairs.filter((pair) => pair[0] === `${name}`).map((pair) => pair[1]);
    }
    has(name) {
      return this.#pairs.some((pair) => pair[0] === `${name}`);
    }
    append(name, value) {
      this.#pairs.push([`${name}`, `${value}`]);
      this.#changed?.();
    }
    set(name, value) {
      const at = this.#pairs.findIndex((pair) => pair[0] === `${name}`);
      if (at < 0) return this.append(name, value);
      this.#pairs = this.#pairs.filter((pair, i) => i <= at || pair[0] !== `${name}`);
      this.#pairs[at] = [`${name}`, `${value}`];
      this.#changed?.();
    }
    delete(name) {
      this.#pairs = this.#pairs.filter((pair) => pair[0] !== `${name}`);
      this.#changed?.();
    }
    sort() {
      this.#pairs.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
      this.#changed?.();
    }
    forEach(callback, self) {
      for (const [name, value] of this) apply(callback, self, [value, name, this]);
    }
    *entries() {
      for (const [name, value] of this.#pairs) yield [name, value];
    }
    *keys() {
      for (const [name] of this.#pairs) yield name;
    }
    *values() {
      for (const [, value] of this.#pairs) yield value;
    }
    [Symbol.iterator]() {
      return this.entries();
    }
    toString() {
      return native.queryText(this.#pairs.flat());
    }
    toJSON() {
      return Object.fromEntries(this.#pairs);
    }
    static follow(params, changed) {
      params.#changed = changed;
      return params;
    }
  }
  const follow = URLSearchParams.follow;
  delete URLSearchParams.follow;

  const PARTS = [
    "href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname",
    "search", "hash",
  ];

  class URL {
    #parts;
    #params;
    constructor(input, base) {
      const parts = native.url(`${input}`, base === undefined ? undefined : `${base}`);
      if (parts === undefined) throw new TypeError(`${input} is no URL`);
      this.#parts = parts;
    }
    get searchParams() {
      return (this.#params ??= follow(new URLSearchParams(this.search), () => {
        this.#set("search", this.#params.toString());
      }));
    }
    #set(part, value) {
      this.#parts = native.urlSet(this.#parts[0], part, value) ?? this.#parts;
    }
    toString() {
      return this.href;
    }
    toJSON() {
      return this.href;
    }
    static canParse(input, base) {
      return native.url(`${input}`, base === undefined ? undefined : `${base}`) !== undefined;
    }
    static {
      PARTS.forEach((part, at) => {
        defineProperty(URL.prototype, part, {
          configurable: true,
          get() {
            return this.#parts[at];
          },
          set(value) {
            this.#set(part, `${value}`);
            if (part === "search" || part === "href") this.#params = undefined;
          },
        });
      });
    }
  }

  const hashName = (algorithm) => `${algorithm?.name ?? algorithm}`.toUpperCase();

  function digest(algorithm, data) {
    const result = native.digest(hashName(algorithm), packed(data));
    if (result === undefined) throw new TypeError("SHA-1, SHA-256, SHA-384 and SHA-512 are there");
    return result.buffer;
  }

  function hmac(key, data) {
    return native.hmac(key.algorithm.hash.name, keys.get(key), packed(data));
  }

  const keys = new WeakMap();
  const subtle = {
    async digest(algorithm, data) {
      return digest(algorithm, data);
    },
    async importKey(format, data, algorithm, extractable, usages) {
      if (format !== "raw" || hashName(algorithm) !== "HMAC") {
        throw new TypeError("only raw HMAC keys can be imported");
      }
      const hash = hashName(algorithm.hash);
      if (native.hmac(hash, "", "") === undefined) {
        throw new TypeError("SHA-1, SHA-256, SHA-384 and SHA-512 are there");
      }
      const key = freeze({
        type: "secret",
        algorithm: freeze({ name: "HMAC", hash: freeze({ name: hash }) }),
        usages: freeze([...(usages ?? [])]),
      });
      keys.set(key, packed(data));
      return key;
    },
    async sign(algorithm, key, data) {
      return hmac(key, data).buffer;
    },
    async verify(algorithm, key, signature, data) {
      return native.equal(apply(toBase64, hmac(key, data), []), packed(signature));
    },
  };

  const crypto = {
    subtle,
    randomUUID: () => native.uuid(),
    getRandomValues(view) {
      const bytes = native.random(view.byteLength);
      if (bytes === undefined) throw new RangeError("at most 65536 bytes at once");
      new Uint8Array(view.buffer, view.byteOffset, view.byteLength).set(bytes);
      return view;
    },
  };

  // ---- the globals, for good

  const globals = {
    Headers, Request, Response, TextEncoder, TextDecoder, URL, URLSearchParams,
    fetch, setTimeout, clearTimeout, console, tracker, crypto,
  };
  for (const [name, value] of Object.entries(globals)) {
    defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }

  /** Lets objects have members of their own with names that a frozen prototype has, too. */
  function allowOverride(prototype, names) {
    for (const name of names) {
      const found = getOwnPropertyDescriptor(prototype, name);
      if (!found || !("value" in found) || !found.configurable) continue;
      const { value, enumerable } = found;
      defineProperty(prototype, name, {
        configurable: true,
        enumerable,
        get() {
          return value;
        },
        set(own) {
          if (this === prototype) throw new TypeError(`${String(name)} is frozen`);
          defineProperty(this, name, {
            value: own, writable: true, enumerable: true, configurable: true,
          });
        },
      });
    }
  }

  /** Freezes a value and all that can be reached from it. */
  function hardened(root) {
    const seen = new Set();
    const left = [root];
    while (left.length > 0) {
      const value = left.pop();
      if (value === null || (typeof value !== "object" && typeof value !== "function")) continue;
      if (seen.has(value)) continue;
      seen.add(value);
      if (!ArrayBuffer.isView(value)) freeze(value);
      left.push(getPrototypeOf(value));
      for (const key of ownKeys(value)) {
        const found = getOwnPropertyDescriptor(value, key);
        if (found === undefined) continue;
        if ("value" in found) left.push(found.value);
        else left.push(found.get, found.set);
      }
    }
    return root;
  }

  const errors = [
    Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError, AggregateError,
  ];
  allowOverride(Object.prototype, ownKeys(Object.prototype).filter((name) => name !== "__proto__"));
  for (const error of errors) allowOverride(error.prototype, ownKeys(error.prototype));
  allowOverride(Function.prototype, ["constructor", "toString", "bind"]);
  allowOverride(Array.prototype, ["constructor", "toString", "concat"]);
  allowOverride(Promise.prototype, ["constructor"]);
  const hidden = [
    [][Symbol.iterator](), new Map().entries(), new Set().values(), ""[Symbol.iterator](),
    "".matchAll(/x/g), (function* () {})(), (async function* () {})(), async function () {},
    function* () {}, async function* () {},
  ];
  hardened([globalThis, ...hidden]);

  return { add, unusable, run, map, complete, forget, described };
});
