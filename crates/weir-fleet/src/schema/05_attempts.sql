-- Whether a transaction still needs an attempt. The row is the lock under which attempts are claimed.
CREATE TABLE weir.resolution (
    id uuid PRIMARY KEY, -- the transaction that failed
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'resubmitted'))
);

-- Attempts to send a transaction again. A row is written by the node that sends, which has it as
-- `sending` in its own database before, and by an operator who retires that node.
CREATE TABLE weir.attempt (
    id uuid PRIMARY KEY, -- the transaction that the attempt is
    original uuid NOT NULL,
    node uuid NOT NULL,
    boot bigint NOT NULL,
    who text NOT NULL,
    state text NOT NULL CHECK (state IN ('sending', 'succeeded', 'failed', 'refused', 'unknown')),
    status integer NOT NULL DEFAULT 0, -- of the response, 0 without one
    began timestamptz NOT NULL DEFAULT now(),
    ended timestamptz
);
CREATE UNIQUE INDEX attempt_sending ON weir.attempt (original) WHERE state = 'sending';
CREATE INDEX attempt_original ON weir.attempt (original);
CREATE INDEX attempt_open ON weir.attempt (node, began) WHERE state IN ('sending', 'unknown');
CREATE INDEX attempt_began ON weir.attempt (began);
