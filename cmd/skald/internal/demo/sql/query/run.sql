-- name: Make
CREATE TABLE /*schema*/demo_run (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    prefix     TEXT NOT NULL,
    seed       TEXT NOT NULL,
    orders     BIGINT NOT NULL,
    sabotage   TEXT NOT NULL,
    style      TEXT NOT NULL,
    cluster    TEXT NOT NULL,  -- the broker's id
    topics     TEXT NOT NULL,  -- the ids by name of those that the run made, as JSON
    started_at TEXT NOT NULL,
    report     TEXT NOT NULL   -- of the run that is finished, as JSON; '' until then
);

-- name: Claim
INSERT INTO /*schema*/demo_run (id, prefix, seed, orders, sabotage, style, cluster, topics, started_at, report)
VALUES (1, $1, $2, $3, $4, $5, $6, '{}', $7, '');

-- name: Claimed
SELECT prefix, seed, orders, sabotage, style, cluster, topics, report FROM /*schema*/demo_run;

-- name: Topics
UPDATE /*schema*/demo_run SET topics = $1;

-- name: Finish
UPDATE /*schema*/demo_run SET report = $1;
