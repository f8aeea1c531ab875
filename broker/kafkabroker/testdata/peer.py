"""A second Kafka client (librdkafka) for peer_test.go: one JSON command per line in, one JSON answer per line out."""
import base64
import json
import sys

from confluent_kafka import Consumer, Producer


def enc(b):
    return None if b is None else base64.b64encode(b).decode()


def dec(s):
    return None if s is None else base64.b64decode(s)


def produce(cmd, conf):
    done = []
    def told(err, msg):
        done.append({"error": None if err is None else str(err), "partition": msg.partition(), "key": enc(msg.key())})
    p = Producer(dict(conf, **(cmd.get("config") or {})))
    for r in cmd["records"]:
        headers = [(h["name"], dec(h["value"])) for h in r.get("headers") or []]
        p.produce(cmd["topic"], key=dec(r.get("key")), value=dec(r.get("value")), headers=headers, on_delivery=told)
    p.flush(60)
    return {"done": done}


def consume(cmd, conf):
    c = Consumer(dict(conf, **{"group.id": cmd["group"], "auto.offset.reset": "earliest", "enable.auto.commit": False}, **(cmd.get("config") or {})))
    c.subscribe([cmd["topic"]])
    out = []
    while len(out) < cmd["count"]:
        m = c.poll(1)
        if m is None or m.error():
            continue
        out.append({
            "partition": m.partition(), "key": enc(m.key()), "value": enc(m.value()),
            "headers": [{"name": n, "value": enc(v)} for n, v in m.headers() or []],
        })
    c.close()
    return {"records": out}


joined = []


def join(cmd, conf):
    c = Consumer(dict(conf, **{"group.id": cmd["group"], "auto.offset.reset": "earliest", "session.timeout.ms": 6000,
                              "heartbeat.interval.ms": 500}, **(cmd.get("config") or {})))
    c.subscribe([cmd["topic"]])
    joined.append(c)
    return {}


def owned(cmd, conf):
    joined[-1].poll(0.05)
    return {"partitions": sorted(t.partition for t in joined[-1].assignment())}


conf = {"bootstrap.servers": sys.argv[1], "topic.metadata.refresh.interval.ms": 1000}
for line in sys.stdin:
    cmd = json.loads(line)
    print(json.dumps(globals()[cmd["do"]](cmd, conf)), flush=True)
