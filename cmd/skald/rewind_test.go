package main_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

// A consumer is set back to a time, lane by lane, where it is farther and the topic is the one that it knows.
func TestInboxRewind(t *testing.T) {
	t.Parallel()
	seeds := need.Kafka(t)
	bus, err := kafkabroker.New(seeds, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	topic := fmt.Sprintf("rewind.%x", time.Now().UnixNano())
	if err := bus.MakeTopics(t.Context(), 1, topic); err != nil {
		t.Fatal(err)
	}
	var middle time.Time
	for i := range 4 {
		if i == 2 { // Kafka's clock has milliseconds
			<-time.After(20 * time.Millisecond)
			middle = time.Now().Add(-10 * time.Millisecond)
		}
		m := skald.Message{ID: fmt.Sprint(i), Source: "/o", Topic: topic, Type: "said", Key: []byte("k"), Data: []byte("1")}
		if err := bus.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ids, err := bus.Topics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "r.db")
	db, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := sqlitestore.Migrate(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	s := sqlitestore.New(db, nil)
	at := []string{"inbox", "rewind", "--store=sqlite:" + path, "--broker=kafka://" + seeds, "--consumer=stock", "--topic=" + topic,
		"--to-time=" + middle.Format(time.RFC3339Nano)}
	with := func(more ...string) []string { return append(at[:len(at):len(at)], more...) }
	start(t, nil, with("--yes")...).expect(2, "--reason")
	says := func(word string, args ...string) {
		t.Helper()
		p := start(t, nil, args...)
		if p.expect(0); !strings.Contains(p.out.String(), word) {
			t.Errorf("no %q in %s", word, &p.out)
		}
	}
	says("has not had this lane", with("--dry-run")...)
	if _, err := s.Occupy(t.Context(), "stock", "", "1", []store.Spot{{Lane: topic + "/0", Origin: ids[topic], Position: 4, Reach: 9}}); err != nil {
		t.Fatal(err)
	}
	where := func() store.Spot {
		t.Helper()
		all, err := s.Spots(t.Context(), "stock")
		if err != nil || len(all.Spots) != 1 {
			t.Fatalf("%+v %v", all, err)
		}
		return all.Spots[0]
	}
	says("would be rewound", with("--dry-run")...)
	if is := where(); is.Position != 4 || is.Note != "1" {
		t.Errorf("a dry run left %+v", is)
	}
	p := start(t, nil, with("--yes", "--json", "--reason=restored", "--by=ann")...)
	p.expect(0)
	var told struct {
		Lanes []struct {
			Lane     string
			From, To int64
			Rewound  bool
		}
	}
	if err := json.Unmarshal([]byte(p.out.String()), &told); err != nil || len(told.Lanes) != 1 || !told.Lanes[0].Rewound || told.Lanes[0].From != 4 || told.Lanes[0].To != 2 {
		t.Errorf("%s: %v", p.out.String(), err)
	}
	if is := where(); is.Position != 2 || is.Note == "1" {
		t.Errorf("rewound to %+v", is)
	}
	var who, why, lane string
	if err := db.QueryRowContext(t.Context(), "SELECT who, why, source FROM skald_audit WHERE what = 'rewind'").Scan(&who, &why, &lane); err != nil ||
		who != "ann" || why != "restored" || lane != topic+"/0" {
		t.Errorf("the audit has %q %q %q: %v", who, why, lane, err)
	}
	says("not farther", with("--yes", "--reason=again")...)
}
