//! The stable codes of findings.

/// A code and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The code.
    pub code: &'static str,
    /// Meaning and remedy, in one or two sentences.
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
    ADMIN_WITHOUT_TLS "admin-without-tls" "The admin listener is reachable from other machines without TLS (a warning)."
    AGENTS_AS_ROOT "agents-as-root" "Agents of a pool run as root, because weir does and `user` is absent (a warning)."
    ALGORITHM_CONFUSION "algorithm-confusion" "Token algorithm and key do not match: HS256, HS384 and HS512 need a shared secret, all others a public key."
    ALGORITHM_NONE "algorithm-none" "Tokens without a signature are never accepted."
    ALIAS "alias" "YAML aliases expand to too many nodes, or an alias refers to a node that contains it."
    BACKTRACKING_PATTERN "backtracking-pattern" "A pattern of an OpenAPI schema has look-around or back-references and needs backtracking: texts that exceed the budget of the validation are rejected (a warning)."
    BAD_CERTIFICATE "bad-certificate" "A certificate or private key is not valid PEM, or the two do not match."
    BAD_EXPRESSION "bad-expression" "A CEL expression does not compile or uses an unknown variable."
    BAD_FILE "bad-file" "A file or folder cannot be read, or is a folder where a file is needed or a file where a folder is needed; or a file is too large or not UTF-8."
    BAD_HEADER "bad-header" "A header name or value contains characters that are invalid in HTTP, or the header is managed by weir."
    BAD_JWKS "bad-jwks" "A key set (RFC 7517) is malformed, has no key for verification, or has no key for the algorithms."
    BAD_KEY "bad-key" "The key of an `auth` is not a public key in PEM, or does not match the algorithms."
    BAD_MAP "bad-map" "A leaf of a map is neither an RFC 9535 path nor a literal nor an expression."
    BAD_OPENAPI "bad-openapi" "A file is not an OpenAPI document of version 3.0 or 3.1, or violates the OpenAPI specification."
    BAD_OVERRIDE "bad-override" "A `--set` names an unknown path, or the value is not YAML."
    BAD_PATH "bad-path" "A base path, the path of a route or a path template is malformed."
    BAD_SCHEMA "bad-schema" "A schema of an OpenAPI document is not a JSON Schema, or uses unsupported keywords (`$id`, `$dynamicRef`)."
    BAD_SCRIPT "bad-script" "A script or an imported module does not compile, throws at the top level, or exports no function."
    BAD_SUBSTITUTION "bad-substitution" "Only `${env:NAME}` is substituted; write `$${` for a literal `${`."
    BAD_VALUE "bad-value" "A value of the right type is not accepted: out of range, malformed, or not one of the permitted words."
    BASIC_WITHOUT_TLS "basic-without-tls" "Passwords (RFC 7617) are sent without TLS, by clients or to an upstream (a warning)."
    CONFLICT "conflict" "Mutually exclusive keys are used together, or two settings contradict each other."
    DUPLICATE_API "duplicate-api" "Two APIs have the same host and base path."
    DUPLICATE_KEY "duplicate-key" "A mapping contains a key twice."
    DUPLICATE_NAME "duplicate-name" "A name is defined twice, in two files or in one list."
    DUPLICATE_ROUTE "duplicate-route" "Two routes of an API match the same method and path."
    EMPTY "empty" "A list or mapping that needs at least one item is empty."
    EXPIRED_KEY "expired-key" "An API key of a consumer has expired, and requests with it are rejected (a warning): remove it, or move its `expires`."
    EXPOSED "exposed" "A served folder contains the configuration or weir's own data."
    INCLUDE "include" "Included files form a cycle, are nested too deep, or are too many; or a pattern matches no file (a warning)."
    INTROSPECTION_FOR_ANYBODY "introspection-for-anybody" "An `auth` with `introspect` has neither `audience` nor `scopes`, so that tokens for other services are accepted (a warning)."
    JWT_FOR_ANYBODY "jwt-for-anybody" "An `auth` with `jwt` has no `issuer` or no `audience`, so that tokens for other services are accepted (a warning)."
    LITERAL_SECRET "literal-secret" "A version of the configuration of a fleet has a secret in its text: write `\"file:NAME\"` or `\"${env:NAME}\"`, which each node resolves."
    MISSING_FILE "missing-file" "A file or folder does not exist."
    MISSING_KEY "missing-key" "A required key is missing."
    MISSING_UNIT "missing-unit" "A time, size or rate has no unit."
    NEEDS_RESTART "needs-restart" "A change that a hot reload cannot apply: restart weir, or revert the change. The previous configuration stays in use."
    NO_EXAMPLE "no-example" "A `mock` of a response that the OpenAPI document does not describe, or without an example or a value for the schema."
    NO_NEW_PRIVILEGES "no-new-privileges" "The program of a pool is set-user-ID, set-group-ID, `sudo` or `doas`, but agents cannot gain privileges (`no_new_privileges`, a warning)."
    NO_ROOTS "no-roots" "An https upstream has no `ca`, and the system's root certificates cannot be read."
    NOT_AVAILABLE "not-available" "Key not supported by this version of weir."
    NOT_HERE "not-here" "Key allowed in the main file only, not in an included file."
    NOT_VALIDATED "not-validated" "Bodies of a media type that weir does not parse: only the type is validated (a warning)."
    OPEN_DATA_FOLDER "open-data-folder" "The data folder is writable by all users (an error), or accessible to other users (a warning)."
    OVER_BUDGET "over-budget" "Bodies within `limits.body` can exceed the budget of the validation (16 MiB) and are then rejected: lower `limits.body`, or turn validation off with `validate: {requests: off, responses: off}` (a warning)."
    PROXY_PROTOCOL_SENDERS "proxy-protocol-senders" "`proxy_protocol: true` refers to `trust`, which is empty: list the load balancers in one of the two."
    SYNTAX "syntax" "The text is not YAML. Only the first such error of a file is reported."
    TAB "tab" "A line is indented by a tab; YAML permits only spaces."
    TOO_DEEP "too-deep" "Lists and mappings are nested too deep."
    TOO_MANY "too-many" "More findings than are listed, or more routes, files or items than the limit."
    TREE_MAP "tree-map" "A path of a map or business key needs a tree of the entire body, at about ten times the cost of names and indexes (a warning)."
    TRUSTED_HEADERS "trusted-headers" "A listener has `trust` without `trust_headers`: `X-Forwarded-Host`, other `X-Forwarded-*` and `weir-*` are removed unless `trust_headers` lists them (a warning)."
    TRUSTS_EVERYBODY "trusts-everybody" "The `trust` of a listener contains every address, so that any client can forge its address (a warning)."
    UNBOUND_OPERATION "unbound-operation" "An operation of an OpenAPI document has no route: add a route, or list the operation under `except`."
    UNDEFINED_ENV "undefined-env" "An environment variable is not set."
    UNDERSCORE_HEADER "underscore-header" "The upstream does not receive a request header with an underscore or dot in the name, although an OpenAPI document or an auth names the header: list it in `underscores_in_headers` of the upstream (a warning)."
    UNKNOWN_KEY "unknown-key" "A key that does not exist here."
    UNKNOWN_NAME "unknown-name" "A reference to an undefined name."
    UNMAPPED_SECURITY "unmapped-security" "A security scheme of an OpenAPI document has no `auth`, or an `auth` of another kind."
    UNRESOLVED_REF "unresolved-ref" "A `$ref` of an OpenAPI document has no target, is circular, or refers to the network."
    UNUSED "unused" "A definition or setting has no effect (a warning)."
    WEAK_SECRET "weak-secret" "A shared secret is shorter than 32 bytes."
    WEAKER_CATCH_ALL "weaker-catch-all" "A catch-all route without authentication matches requests next to a stricter route: other methods, or paths that servers interpret differently (a warning)."
    WEBSOCKET_ORIGINS "websocket-origins" "Without `origins`, WebSockets are accepted from pages of the same host only (a warning): browsers send cookies with the WebSockets of any page."
    WRONG_TYPE "wrong-type" "A value has another type than the key."
}
