package sqlitestore

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// TestDeferredTransactionNamesTheRemedy checks a transaction that began with a read and writes after another
// transaction has written. It cannot get the write lock, and the error names the setting.
func TestDeferredTransactionNamesTheRemedy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	own, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Close() }()
	if _, err := Migrate(t.Context(), own, nil); err != nil {
		t.Fatal(err)
	}
	users, err := sql.Open("sqlite", "file:"+path+"?_busy_timeout=5000&_journal_mode=WAL")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = users.Close() }()
	tx, err := users.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM skald_outbox").Scan(&n); err != nil {
		t.Fatal(err)
	}
	effect := store.Effect{Rows: []skald.Message{{ID: uuid7.New(time.Now()), Time: time.Now(), Topic: "t",
		Type: "x", Key: []byte("k"), ContentType: "application/json", Data: []byte("{}")}}}
	if _, err := New(own, nil).Apply(t.Context(), effect); err != nil {
		t.Fatal(err)
	}
	err = New(users, nil).Write(t.Context(), tx, effect)
	if err == nil || !strings.Contains(err.Error(), "_txlock=immediate") {
		t.Errorf("it is answered %v", err)
	}
}
