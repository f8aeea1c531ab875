-- Temporary failures are not counted as attempts at first. This index lists such messages, too.
DROP INDEX /*schema*/skald_parked_failed;
CREATE INDEX skald_parked_failed ON /*schema*/skald_parked (consumer, place) WHERE dead_at IS NULL AND (attempts > 0 OR last_at >= first_at);
