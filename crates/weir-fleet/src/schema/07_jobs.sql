-- Jobs: bulk resubmission of what a query finds on any node. Times are microseconds since 1970.
CREATE TABLE weir.job (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    query text NOT NULL,
    destination text NOT NULL,
    again boolean NOT NULL,
    rate float8 NOT NULL,        -- a second
    who text NOT NULL,
    state text NOT NULL
        CHECK (state IN ('previewing', 'previewed', 'running', 'paused', 'cancelled', 'finished')),
    run boolean NOT NULL,        -- run it once it is previewed
    cursors jsonb NOT NULL DEFAULT '{}', -- of the preview, by node: how far it was read
    found bigint NOT NULL DEFAULT 0,     -- transactions of the preview
    incomplete boolean NOT NULL DEFAULT false,
    created bigint NOT NULL,
    began bigint,
    ended bigint
);
CREATE INDEX job_active ON weir.job (number) WHERE state IN ('previewing', 'running');

-- Transactions of jobs. An item is inserted by the node that has the lease of the job, taken by the node
-- that has the transaction, together with its claim of the attempt, and ended by that node.
CREATE TABLE weir.job_item (
    job bigint NOT NULL REFERENCES weir.job (number) ON DELETE CASCADE,
    original uuid NOT NULL,
    node uuid NOT NULL,          -- has the transaction
    lane integer NOT NULL,       -- where its journal has it
    position bigint NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    attempt uuid,                -- the last one
    PRIMARY KEY (job, original)
);
CREATE INDEX job_item_state ON weir.job_item (job, state, reason, original);
CREATE INDEX job_item_attempt ON weir.job_item (attempt) WHERE attempt IS NOT NULL;
