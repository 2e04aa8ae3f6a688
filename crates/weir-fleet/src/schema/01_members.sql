-- The fleet whose state this database has.
CREATE TABLE weir.fleet (
    one integer PRIMARY KEY CHECK (one = 1),
    name text NOT NULL,
    created timestamptz NOT NULL DEFAULT now()
);

-- Nodes. A row is written by its own node, and by an operator who retires the node.
CREATE TABLE weir.node (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    boot bigint NOT NULL,             -- fencing token: each start of the node increments it
    boot_token uuid NOT NULL,         -- drawn by the process that made this boot
    until timestamptz NOT NULL,       -- the lease of the node ends
    state text NOT NULL CHECK (state IN ('live', 'draining', 'retired', 'lost')),
    joined timestamptz NOT NULL DEFAULT now(),
    seen timestamptz NOT NULL DEFAULT now(), -- the last heartbeat
    version text NOT NULL,
    digest text NOT NULL,             -- of the configuration in force
    config_state jsonb NOT NULL,      -- the last load of the configuration: time, result, findings
    offset_ms bigint NOT NULL         -- clock of the node minus clock of this database
);
