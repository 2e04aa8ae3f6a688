-- Named views of the console, for all users of all nodes.
CREATE TABLE weir.view (
    name text PRIMARY KEY,
    search text NOT NULL, -- the query of the address
    who text NOT NULL,
    at bigint NOT NULL    -- microseconds since 1970
);
