package kafkabroker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/internal/need"
)

// peer is a client that uses librdkafka, in a Python process.
type peer struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

type peerHeader struct {
	Name  string `json:"name"`
	Value []byte `json:"value"` // null and empty differ
}

type peerRecord struct {
	Partition int          `json:"partition"`
	Key       []byte       `json:"key"`
	Value     []byte       `json:"value"`
	Headers   []peerHeader `json:"headers"`
}

func newPeer(t *testing.T, seeds string) *peer {
	c := exec.CommandContext(t.Context(), need.Python(t), "testdata/peer.py", seeds)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() { _ = c.Wait() })
	p := &peer{t: t, in: in, out: bufio.NewScanner(out)}
	p.out.Buffer(nil, 16<<20)
	return p
}

func shown(records []peerRecord) (out string) {
	for _, r := range records {
		out += fmt.Sprintf("key %q (nil %v) value %q (nil %v)", r.Key, r.Key == nil, r.Value, r.Value == nil)
		for _, h := range r.Headers {
			out += fmt.Sprintf(" %s=%q (nil %v)", h.Name, h.Value, h.Value == nil)
		}
		out += "\n"
	}
	return out
}

func (p *peer) do(what string, args map[string]any, answer any) {
	p.t.Helper()
	args["do"] = what
	must(p.t, json.NewEncoder(p.in).Encode(args))
	if !p.out.Scan() {
		p.t.Fatalf("%s: the peer ended: %v", what, p.out.Err())
	}
	must(p.t, json.Unmarshal(p.out.Bytes(), answer))
}

func (p *peer) produce(topic string, config map[string]any, records ...peerRecord) (partitions []int) {
	var answer struct {
		Done []struct {
			Error     *string
			Partition int
		}
	}
	p.do("produce", map[string]any{"topic": topic, "records": records, "config": config}, &answer)
	for _, d := range answer.Done {
		if d.Error != nil {
			p.t.Fatalf("the peer could not produce: %s", *d.Error)
		}
		partitions = append(partitions, d.Partition)
	}
	return partitions
}

func (p *peer) consume(topic string, n int) []peerRecord {
	var answer struct{ Records []peerRecord }
	p.do("consume", map[string]any{"topic": topic, "group": fmt.Sprint(topic, time.Now().UnixNano()),
		"count": n}, &answer)
	for i := range answer.Records {
		if answer.Records[i].Headers == nil {
			answer.Records[i].Headers = []peerHeader{}
		}
	}
	return answer.Records
}

// TestPeerReadsWhatWeWrite byte for byte.
func TestPeerReadsWhatWeWrite(t *testing.T) {
	c := newChanging(t, need.Kafka(t))
	p, b := newPeer(t, c.seeds), c.open(t, kafkabroker.Options{})
	must(t, b.MakeTopics(t.Context(), 1, c.topic))
	at := time.Date(2026, 11, 21, 12, 0, 0, 120_000_000, time.UTC)
	for _, m := range []skald.Message{
		{
			ID: "0198c0de-0000-7000-8000-000000000001", Source: "/shop/orders", Type: "order.placed",
			Topic: c.topic, Key: []byte("kä"), Time: at,
			Subject: "sub", ContentType: "application/json", Schema: "sch", CorrelationID: "cor",
			CausationID: "cau", TraceParent: "tp",
			Sequence: "00000000000000000007", Headers: []skald.Header{{Name: "b", Value: []byte{0, 255}},
				{Name: "b", Value: []byte{}}, {Name: "ä", Value: nil}},
			Data: []byte("{\"n\": 1}"),
		},
		{ID: "2", Source: "s", Type: "t", Topic: c.topic, Key: []byte{0, 255, '\n'}},
		{ID: "3", Source: "s", Type: "t", Topic: c.topic, Key: []byte{}, Data: []byte{}},
		{Topic: c.topic, Data: []byte{0, 1, 254}},
	} { // one by one: messages of different keys have no order
		must(t, b.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()))
	}
	ce := func(name, value string) peerHeader { return peerHeader{"ce_" + name, []byte(value)} }
	plain := func(id string) []peerHeader {
		return []peerHeader{ce("specversion", "1.0"), ce("id", id), ce("source", "s"), ce("type", "t")}
	}
	want := []peerRecord{
		{Key: []byte("kä"), Value: []byte("{\"n\": 1}"), Headers: []peerHeader{
			ce("specversion", "1.0"), ce("id", "0198c0de-0000-7000-8000-000000000001"),
			ce("source", "/shop/orders"), ce("type", "order.placed"),
			ce("time", "2026-11-21T12:00:00.12Z"), ce("partitionkey", "kä"),
			ce("sequence", "00000000000000000007"), {"content-type", []byte("application/json")},
			ce("subject", "sub"), ce("dataschema", "sch"), ce("correlationid", "cor"),
			ce("causationid", "cau"), ce("traceparent", "tp"),
			{"b", []byte{0, 255}}, {"b", []byte{}}, {"ä", nil},
		}},
		{Key: []byte{0, 255, '\n'}, Headers: plain("2")},
		{Key: []byte{}, Value: []byte{}, Headers: plain("3")},
		{Value: []byte{0, 1, 254}, Headers: []peerHeader{}},
	}
	if got := p.consume(c.topic, len(want)); !reflect.DeepEqual(got, want) {
		t.Errorf("the peer read\n%s\nwant\n%s", shown(got), shown(want))
	}
}

// TestWeReadWhatThePeerWrites, and what we write of it again is the same, byte for byte.
func TestWeReadWhatThePeerWrites(t *testing.T) {
	c := newChanging(t, need.Kafka(t))
	p, b := newPeer(t, c.seeds), c.open(t, kafkabroker.Options{})
	again := c
	again.topic += ".again"
	must(t, b.MakeTopics(t.Context(), 1, c.topic, again.topic))
	t.Cleanup(func() { _, _ = c.adm.DeleteTopics(context.WithoutCancel(t.Context()), again.topic) })
	h := func(name string, value string) peerHeader { return peerHeader{name, []byte(value)} }
	wrote := []peerRecord{
		{Key: []byte("k"), Value: []byte("{}"), Headers: []peerHeader{h("ce_specversion", "1.0"),
			h("ce_id", "i"), h("ce_source", "/foreign"), h("ce_type", "t"),
			h("ce_time", "2026-11-21T12:00:00Z"), h("ce_partitionkey", "k"),
			h("content-type", "application/json"), h("ce_unknown", "x"), h("trace", "\x00\xff"),
			h("trace", "2")}},
		{Key: []byte{255, 0}, Value: nil, Headers: []peerHeader{h("ce_specversion", "1.0"), h("ce_id", "j"),
			h("ce_source", "s"), h("ce_type", "t")}},
		{Key: []byte("foreign"), Value: []byte{0, 255},
			Headers: []peerHeader{{"null", nil}, h("empty", ""), h("ü", "ü")}},
		{Value: []byte("no key"), Headers: []peerHeader{}},
		{Key: []byte{}, Value: []byte{}, Headers: []peerHeader{}},
	}
	p.produce(c.topic, nil, wrote...)
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: c.topic, Topics: []string{c.topic}})
	must(t, err)
	var msgs []skald.Message
	for _, d := range take(t, sub, len(wrote)) {
		if d.Fault != nil {
			t.Errorf("position %d: %v", d.Position, d.Fault)
		}
		d.Topic = again.topic
		msgs = append(msgs, d.Message)
	}
	if m := msgs[0]; m.ID != "i" || m.Source != "/foreign" || m.Type != "t" ||
		m.ContentType != "application/json" || m.Time.IsZero() || len(m.Headers) != 3 {
		t.Errorf("read %+v", m)
	}
	if m := msgs[1]; m.Data != nil || string(m.Key) != "\xff\x00" {
		t.Errorf("read %+v", m)
	}
	must(t, b.Publish(t.Context(), msgs).Wait(t.Context()))
	if got := p.consume(again.topic, len(wrote)); !reflect.DeepEqual(got, wrote) {
		t.Errorf("the peer reads\n%s\nand wrote\n%s", shown(got), shown(wrote))
	}
}

// TestPlacesOfThePeer: keys lie where librdkafka puts them, by each of its partitioners that we know.
func TestPlacesOfThePeer(t *testing.T) {
	c := newChanging(t, need.Kafka(t))
	p := newPeer(t, c.seeds)
	b := c.open(t, kafkabroker.Options{})
	var records []peerRecord
	for i := range 200 {
		key := fmt.Appendf(nil, "order-%d", i*i)
		if i%3 == 0 {
			key = append(key, 0, byte(i), 255)
		}
		records = append(records, peerRecord{Key: key, Headers: []peerHeader{}})
	}
	for theirs, ours := range map[string]string{"murmur2_random": "murmur2", "consistent_random": "crc32",
		"fnv1a_random": "fnv1a"} {
		topic := c.topic + "." + ours
		must(t, b.MakeTopics(t.Context(), 7, topic))
		t.Cleanup(func() { _, _ = c.adm.DeleteTopics(context.WithoutCancel(t.Context()), topic) })
		p.produce(topic, map[string]any{"partitioner": theirs}, records...)
		var msgs []skald.Message
		for _, r := range records {
			msgs = append(msgs, skald.Message{Topic: topic, Key: r.Key, Data: []byte("ours")})
		}
		must(t, c.open(t, kafkabroker.Options{Partitioner: ours}).Publish(t.Context(),
			msgs).Wait(t.Context()))
		at := map[string][]int{}
		for _, r := range p.consume(topic, 2*len(records)) {
			at[string(r.Key)] = append(at[string(r.Key)], r.Partition)
		}
		for key, places := range at {
			if len(places) != 2 || places[0] != places[1] {
				t.Errorf("%s: key %q lies at %v", ours, key, places)
			}
		}
	}
}

// TestPeerInOurGroup: a group that moves from librdkafka to us, member by member, shares its partitions
// meanwhile.
func TestPeerInOurGroup(t *testing.T) {
	for _, balancer := range []string{"range", "roundrobin", "cooperative-sticky"} {
		t.Run(balancer, func(t *testing.T) {
			c := newChanging(t, need.Kafka(t))
			p := newPeer(t, c.seeds)
			b := c.open(t, kafkabroker.Options{Balancers: []string{balancer}})
			must(t, b.MakeTopics(t.Context(), 4, c.topic))
			g := broker.Group{Name: c.topic, Topics: []string{c.topic}}
			p.do("join", map[string]any{"topic": c.topic, "group": g.Name,
				"config": map[string]any{"partition.assignment.strategy": balancer}}, &struct{}{})
			theirs := func() []int {
				var answer struct{ Partitions []int }
				p.do("owned", map[string]any{}, &answer)
				return answer.Partitions
			}
			until(t, "all partitions at the peer", func() bool { return len(theirs()) == 4 })
			sub, err := b.Subscribe(t.Context(), g)
			must(t, err)
			ours := map[string]bool{}
			until(t, "half of the partitions here", func() bool {
				got, err := sub.Receive(t.Context(), 10)
				must(t, err)
				for _, l := range got.Lost {
					delete(ours, l.Name)
				}
				for _, l := range got.Gained {
					ours[l.Name] = true
				}
				there := theirs()
				return len(ours) == 2 && len(there) == 2 && !slices.ContainsFunc(there,
					func(p int) bool { return ours[fmt.Sprintf("%s/%d", c.topic, p)] })
			})
		})
	}
}
