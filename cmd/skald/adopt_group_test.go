package main_test

import (
	"strings"
	"testing"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// The command gives the group of another database to this one, and writes an audit. It refuses to take the
// group from a database that does not have it.
func TestInboxAdopt(t *testing.T) { rewindable(t, testInboxAdopt) }

func testInboxAdopt(t *testing.T, bus said, b *bed) {
	s := b.migrate().s
	group := broker.Group{Name: bus.topic, Topics: []string{bus.topic}, Owner: "0123456789abcdef",
		OwnerName: "the other"}
	sub, err := bus.Subscribe(t.Context(), group)
	must(t, err)
	got := 0
	until(t, "the messages", func() bool {
		batch, err := sub.Receive(t.Context(), 100)
		must(t, err)
		must(t, sub.Ack(t.Context(), batch.Deliveries))
		got += len(batch.Deliveries)
		return got == 4
	})
	must(t, sub.Close(t.Context()))

	at := []string{"consumer", "adopt", "--store=" + b.at, "--broker=" + bus.url}
	with := func(more ...string) []string { return append(at[:len(at):len(at)], more...) }
	start(t, nil, with()...).expect(2, "--consumer")
	start(t, nil, with("--consumer="+group.Name)...).expect(2, "--from")
	start(t, nil, with("--consumer="+group.Name, "--from="+group.Owner)...).expect(2, "--reason")
	dry := start(t, nil, with("--consumer="+group.Name, "--from="+group.Owner, "--dry-run")...)
	if dry.expect(0); !strings.Contains(dry.out.String(), group.Name+" would belong to ") {
		t.Errorf("a dry run prints %s", &dry.out)
	}
	audits, err := s.(operate.AuditStore).Audits(t.Context(), store.AuditQuery{})
	if err != nil || len(audits) > 0 {
		t.Errorf("a dry run notes %+v, %v", audits, err)
	}
	none := with("--from="+group.Owner, "--consumer="+group.Name+"-none", "--reason=moved")
	start(t, nil, none...).expect(4, "no such group")
	at = with("--consumer="+group.Name, "--reason=moved", "--by=ann")
	start(t, nil, with("--from=another")...).expect(1, "belongs to the other (0123456789abcdef)")
	audits, err = s.(operate.AuditStore).Audits(t.Context(), store.AuditQuery{})
	must(t, err)
	if len(audits) != 4 || audits[0].Action != "adopt failed" || audits[0].Author != "ann" ||
		!strings.Contains(audits[0].Reason, "belongs to the other") {
		t.Errorf("the audit of a refused adoption is %+v", audits)
	}
	p := start(t, nil, with("--from="+group.Owner)...)
	if p.expect(0); !strings.Contains(p.out.String(), "belongs to this database") {
		t.Errorf("it prints %s", &p.out)
	}
	audits, err = s.(operate.AuditStore).Audits(t.Context(), store.AuditQuery{})
	must(t, err)
	if n := audits[0]; n.Action != "adopt from "+group.Owner || n.Author != "ann" || n.Reason != "moved" {
		t.Errorf("the audit is %+v", n)
	}

	is, err := s.Database(t.Context())
	must(t, err)
	_, err = bus.Subscribe(t.Context(), group)
	if err == nil || !strings.Contains(err.Error(), "--from "+is.ID) {
		t.Errorf("the former database gets %v", err)
	}
	group.Owner, group.OwnerName = is.ID, is.Name
	sub, err = bus.Subscribe(t.Context(), group)
	must(t, err)
	must(t, sub.Close(t.Context()))
}
