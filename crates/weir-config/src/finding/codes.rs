//! The stable codes of findings.

/// A code and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// As printed.
    pub code: &'static str,
    /// What it means and what to do, in one or two sentences.
    pub meaning: &'static str,
}

macro_rules! codes {
    ($($name:ident $code:literal $meaning:literal)*) => {
        $(#[doc = $meaning] pub const $name: &str = $code;)*
        /// Every code, in alphabetical order.
        pub const ALL: &[Code] = &[$(Code { code: $code, meaning: $meaning }),*];
    };
}

codes! {
    ADMIN_WITHOUT_TLS "admin-without-tls" "The admin listener is reached from other machines and does not speak TLS (a warning)."
    AGENTS_AS_ROOT "agents-as-root" "Agents of a pool run as root because weir does and no `user` is said (a warning)."
    ALGORITHM_CONFUSION "algorithm-confusion" "A token algorithm and a key do not belong together: HS256, HS384 and HS512 take a shared secret, all others a public key."
    ALGORITHM_NONE "algorithm-none" "Tokens without a signature are never accepted."
    ALIAS "alias" "YAML aliases expand to too much, or an alias stands inside what it refers to."
    BACKTRACKING_PATTERN "backtracking-pattern" "A pattern of an OpenAPI schema has look-around or back-references that can only be matched by backtracking: texts that may take too long are rejected as over the budget of the validation (a warning)."
    BAD_CERTIFICATE "bad-certificate" "A certificate or private key is no PEM, does not parse, or the two do not belong together."
    BAD_EXPRESSION "bad-expression" "A CEL expression does not compile or names a variable that is not there."
    BAD_FILE "bad-file" "A file or folder cannot be read or is the other of the two; or a file is too large or not UTF-8."
    BAD_HEADER "bad-header" "A header name or value holds characters that HTTP does not allow there, or weir itself decides about this header."
    BAD_JWKS "bad-jwks" "A key set (RFC 7517) does not parse, holds no key that verifies, or holds none that fits the algorithms."
    BAD_KEY "bad-key" "The key of an `auth` is no public key in PEM, or of another kind than its algorithms."
    BAD_MAP "bad-map" "A leaf of a map is no RFC 9535 path, no literal and no expression."
    BAD_OPENAPI "bad-openapi" "A file is no OpenAPI document of version 3.0 or 3.1, or something in it is not as OpenAPI demands."
    BAD_OVERRIDE "bad-override" "A `--set` names a path that is not there, or its value is no YAML."
    BAD_PATH "bad-path" "A base path, a route's path or a path template is malformed."
    BAD_SCHEMA "bad-schema" "A schema of an OpenAPI document is no JSON Schema, or uses what weir does not support (`$id`, `$dynamicRef`)."
    BAD_SCRIPT "bad-script" "A script, or a module it imports, cannot be compiled, or its top level throws, or it exports no function."
    BAD_SUBSTITUTION "bad-substitution" "Only `${env:NAME}` is substituted; write `$${` for a literal `${`."
    BAD_VALUE "bad-value" "A value of the right type that is not accepted here: out of range, malformed, or none of the words."
    BASIC_WITHOUT_TLS "basic-without-tls" "Passwords (RFC 7617) go over the network without TLS, from clients or to an upstream (a warning)."
    CONFLICT "conflict" "Keys that exclude each other stand together, or two settings contradict each other."
    DUPLICATE_API "duplicate-api" "Two APIs answer to the same host and base path."
    DUPLICATE_KEY "duplicate-key" "A key stands twice in one mapping."
    DUPLICATE_NAME "duplicate-name" "A name is defined twice, in two files or in one list."
    DUPLICATE_ROUTE "duplicate-route" "Two routes of an API match the same method and path."
    EMPTY "empty" "Something that must hold at least one item holds none."
    EXPOSED "exposed" "A folder that is served holds the configuration or weir's own data."
    INCLUDE "include" "Included files go round in a circle, too deep, or are too many; or a pattern matches no file (a warning)."
    INTROSPECTION_FOR_ANYBODY "introspection-for-anybody" "An `auth` with `introspect` says neither `audience` nor `scopes`, so that tokens for other services are accepted (a warning)."
    JWT_FOR_ANYBODY "jwt-for-anybody" "An `auth` with `jwt` says no `issuer` or no `audience`, so that tokens for other services are accepted (a warning)."
    MISSING_FILE "missing-file" "A file or folder is not there."
    MISSING_KEY "missing-key" "A key that must be there is not."
    MISSING_UNIT "missing-unit" "A time, size or rate without its unit."
    NEEDS_RESTART "needs-restart" "A change that a reload cannot make: restart, or take it back. Nothing of the new configuration is in use."
    NO_EXAMPLE "no-example" "A `mock` of an answer that is not described, or of which neither an example nor a value of its schema can be had."
    NO_NEW_PRIVILEGES "no-new-privileges" "The program of a pool is set-user-ID, set-group-ID, `sudo` or `doas`, and agents gain no privileges (`no_new_privileges`, a warning)."
    NO_ROOTS "no-roots" "An https upstream without `ca`, and the system's root certificates cannot be read."
    NOT_AVAILABLE "not-available" "A key that this version of weir does not have yet."
    NOT_HERE "not-here" "A key that may stand in the main file only, in an included one."
    NOT_VALIDATED "not-validated" "Bodies in a media type that weir does not look into: only their type is checked (a warning)."
    OPEN_DATA_FOLDER "open-data-folder" "The data folder may be written by everybody (an error), or entered by others than its user (a warning)."
    OVER_BUDGET "over-budget" "Bodies that `limits.body` allows are longer than the budget of their validation (16 MiB) and are rejected: lower `limits.body`, or opt out with `validate: {requests: off, responses: off}` (a warning)."
    PROXY_PROTOCOL_SENDERS "proxy-protocol-senders" "`proxy_protocol: true` means the senders in `trust`, which lists nobody: list the load balancers in one of them."
    SYNTAX "syntax" "The text is not YAML. Only the first such error of a file is reported."
    TAB "tab" "A tab indents a line; YAML indents with spaces only."
    TOO_DEEP "too-deep" "Lists and mappings are nested too deep."
    TOO_MANY "too-many" "More findings than are listed one by one, or more routes, files or items than are accepted."
    TREE_MAP "tree-map" "A path of a map or a business key needs a tree of the whole body: it costs about ten times as much as one of names and indexes (a warning)."
    TRUSTED_HEADERS "trusted-headers" "A listener trusts peers without saying which of their headers: `X-Forwarded-Host`, other `X-Forwarded-*` and `weir-*` are removed unless `trust_headers` lists them (a warning)."
    TRUSTS_EVERYBODY "trusts-everybody" "A listener's `trust` has every address, so that every client chooses the address it comes from (a warning)."
    UNBOUND_OPERATION "unbound-operation" "An operation of an OpenAPI document has no route: bind it, or list it under `except`."
    UNDEFINED_ENV "undefined-env" "An environment variable that is not set."
    UNDERSCORE_HEADER "underscore-header" "A request header that a description or an auth names has an underscore or a dot in its name, and the upstream does not get it: list it in the upstream's `underscores_in_headers` (a warning)."
    UNKNOWN_KEY "unknown-key" "A key that does not exist here."
    UNKNOWN_NAME "unknown-name" "A name that is defined nowhere."
    UNMAPPED_SECURITY "unmapped-security" "A security scheme of an OpenAPI document has no `auth`, or one that proves something else."
    UNRESOLVED_REF "unresolved-ref" "A `$ref` of an OpenAPI document leads nowhere, round in a circle, or to the network."
    UNUSED "unused" "Something is defined and has no effect (a warning)."
    WEAK_SECRET "weak-secret" "A shared secret shorter than 32 bytes."
    WEAKER_CATCH_ALL "weaker-catch-all" "A catch-all route without authentication takes requests for what a stricter route protects: other methods, or paths that servers read in another way (a warning)."
    WEBSOCKET_ORIGINS "websocket-origins" "WebSockets are opened by pages of the same host only, as no `origins` are given (a warning): browsers send cookies with those that pages of other sites open."
    WRONG_TYPE "wrong-type" "A value of another type than the key takes."
}
