# Writes the outbox as any Python service would: plain INSERTs with parameters.
import os

import psycopg

key, doc = os.environ["KEY"], os.environ["DOC"]
with psycopg.connect(os.environ["URL"]) as conn, conn.cursor() as c:
    c.execute("INSERT INTO skald_outbox (topic, key, type, data) VALUES (%s, %s, %s, %s)", ("orders", key, "json", doc))
    c.execute("INSERT INTO skald_outbox (topic, type, data) VALUES (%s, %s, %s)", ("orders", "nokey", doc))
    c.execute(
        "INSERT INTO skald_outbox (topic, key_bytes, type, content_type, data_bytes, headers) VALUES (%s, %s, %s, %s, %s, %s)",
        ("orders", b"\xff\x00k", "binary", "application/octet-stream", bytes(range(256)), '[["a", "AA=="]]'),
    )
    c.execute("INSERT INTO skald_outbox (topic, key, type) VALUES (%s, %s, %s)", ("orders", key, "tombstone"))
