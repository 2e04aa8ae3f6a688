-- Copies of the audit logs of all nodes. The id is a hash of the entry, so that a copied data folder
-- repeats none.
CREATE TABLE weir.audit (
    id uuid PRIMARY KEY,
    number bigint GENERATED ALWAYS AS IDENTITY UNIQUE, -- in the order of arrival
    node uuid NOT NULL,
    at bigint NOT NULL,   -- microseconds since 1970
    token text NOT NULL,  -- id of the token, never the token
    name text NOT NULL,
    role text NOT NULL,
    action text NOT NULL,
    about text NOT NULL,
    subject text NOT NULL,
    details text NOT NULL
);
CREATE INDEX audit_at ON weir.audit (at);
-- The entries of the node up to this number are copied.
ALTER TABLE weir.node ADD COLUMN audited bigint NOT NULL DEFAULT 0;

-- Admin tokens of all nodes. A row is inserted by the node that has made the token, and revoked by any.
CREATE TABLE weir.token (
    id text PRIMARY KEY,
    node uuid NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    sha256 text NOT NULL,
    made timestamptz NOT NULL DEFAULT now(),
    revoked timestamptz
);
-- Incremented by each change of tokens.
ALTER TABLE weir.fleet ADD COLUMN tokens bigint NOT NULL DEFAULT 0;
