package storetest

import (
	"github.com/skald-go/skald/store"
)

func settingTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Hold":   (*suite[TTx]).settingsHold,
		"Reject": (*suite[TTx]).settingsReject,
		"Wrong":  (*suite[TTx]).settingsWrong,
	}
}

func settings(in store.Intake, pairs ...string) store.Intake {
	for i := 0; i < len(pairs); i += 2 {
		in.Settings = append(in.Settings, store.Setting{Name: pairs[i], Value: pairs[i+1]})
	}
	return in
}

// haveSettings reports whether the database has settings. A driver without settings must return an error.
func (s *suite[TTx]) haveSettings() bool {
	s.Helper()
	if s.can.Setting != nil {
		return true
	}
	m := mark()
	_, err := s.d.Begin(s.Context(), settings(intake(m), "app.tenant", "42"))
	s.wantError(err, store.ErrNoSettings, "settings where there are none")
	if !store.Incurable(err) || s.d.Outage(err) {
		s.Errorf("%v is tried again", err)
	}
	s.seen(m, store.Fresh)
	return false
}

// settingsHold checks that settings apply to the handler, in their order, and end with the transaction.
func (s *suite[TTx]) settingsHold() {
	if !s.haveSettings() {
		return
	}
	m := mark()
	in := settings(intake(m), "app.tenant", "41", "app.user", "größe 'x'", "app.tenant", "42")
	in.Locks = []store.Lock{{Space: "order", Key: "a"}}
	u := s.begin(s.d, in)
	s.found(u, store.Fresh)
	if got := s.can.Setting(s, u.Tx(), "app.tenant") + " " +
		s.can.Setting(s, u.Tx(), "app.user"); got != "42 größe 'x'" {
		s.Errorf("the handler has %q", got)
	}
	s.put(u.Tx(), "k", "v")
	s.write(u.Tx(), message("a", 1))
	s.commit(u, rows(message("a", 2)))
	s.wantCounts(2, 1, 0)
	for range 3 { // for any session of the pool
		u = s.begin(s.d, intake(mark()))
		if got := s.can.Setting(s, u.Tx(), "app.tenant"); got != "" {
			s.Errorf("the next one has %q", got)
		}
		s.rollback(u)
	}
	u = s.begin(s.d, in)
	s.found(u, store.Done) // settings do not affect others
	s.rollback(u)
}

// settingsReject checks that the effects of Rollback run without the settings.
func (s *suite[TTx]) settingsReject() {
	if !s.haveSettings() {
		return
	}
	m := mark()
	u := s.begin(s.d, settings(intake(m), "app.tenant", "42"))
	no := rejected(m, "no")
	stored, err := u.Rollback(s.Context(), store.Effect{Mark: &no, Rows: rows(message("a", 1)).Rows})
	s.ok(err, "reject")
	if !stored[0] {
		s.Error("the rejection was not stored")
	}
	s.seen(m, store.Rejected)
	s.wantCounts(1, 1, 0)
}

// settingsWrong checks that an invalid setting only affects its message. The intake stores nothing, and the
// consumer continues.
func (s *suite[TTx]) settingsWrong() {
	if !s.haveSettings() {
		return
	}
	for _, pair := range [][2]string{{"no_such_setting", "1"}, {"app.tenant", "a\x00b"},
		{"app.tenant", "\xff"}, {"", "1"},
		{"lock_timeout", "0"}, {"Synchronous_Commit", "off"}, {"idle_in_transaction_session_timeout", "0"},
		{"role", "nobody at all"}} {
		m := mark()
		_, err := s.d.Begin(s.Context(), settings(intake(m), pair[0], pair[1]))
		if err == nil || store.Incurable(err) || s.d.Outage(err) {
			s.Errorf("%q: %v", pair, err)
		}
		s.seen(m, store.Fresh)
		u := s.begin(s.d, intake(m))
		s.found(u, store.Fresh)
		s.rollback(u)
	}
}
