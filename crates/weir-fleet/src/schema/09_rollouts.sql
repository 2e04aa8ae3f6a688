-- Versions of the configuration: sections that are not in the own files of the nodes.
CREATE TABLE weir.config (
    number bigint PRIMARY KEY,
    digest text NOT NULL,             -- SHA-256 of the files before they are compressed
    files bytea NOT NULL,             -- {path: text} as JSON, compressed by zstd
    min_weir text NOT NULL,           -- the lowest version of weir that may try it
    who text NOT NULL,
    comment text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

-- Rollouts of versions, and rollbacks. The node that has the task `rollout` drives the active one.
CREATE TABLE weir.rollout (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version bigint,                   -- NULL: none, the own files alone
    base bigint,                      -- the version before
    stage text NOT NULL CHECK (stage IN ('one', 'tenth', 'all')),
    state text NOT NULL CHECK (state IN ('running', 'paused', 'succeeded', 'failed', 'aborted')),
    nodes uuid[] NOT NULL,            -- those that try the version; with `all`, every node does
    since timestamptz NOT NULL DEFAULT now(), -- the stage
    counts jsonb NOT NULL,            -- calls of the nodes when the stage began
    verdict text NOT NULL DEFAULT '',
    compared jsonb,                   -- calls of the nodes at its end
    who text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX rollout_active ON weir.rollout ((1)) WHERE state IN ('running', 'paused');

-- The version of nodes that no rollout concerns, and the rollout that has set it.
ALTER TABLE weir.fleet ADD COLUMN pushed bigint NOT NULL DEFAULT 0, -- number of the latest version
    ADD COLUMN version bigint, ADD COLUMN rollout bigint NOT NULL DEFAULT 0,
    ADD COLUMN rolled_back boolean NOT NULL DEFAULT false;                   -- by an operator

-- What a node says about its version; NULL with `source: files`.
ALTER TABLE weir.node ADD COLUMN in_force jsonb;
