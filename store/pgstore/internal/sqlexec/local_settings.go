package sqlexec

import (
	"fmt"
	"strings"

	"github.com/skald-go/skald/store"
)

// Settings returns the call that sets the settings in list until the end of the transaction. It returns an
// error for settings that Skald itself needs, and for text that PostgreSQL cannot store.
func (d *DB) Settings(list []store.Setting) (Call, error) {
	names, values := make([]string, len(list)), make([]string, len(list))
	for i, s := range list {
		names[i], values[i] = s.Name, s.Value
	}
	all := strings.Join(names, ", ")
	for _, s := range list {
		switch strings.ToLower(s.Name) {
		case "lock_timeout", "idle_in_transaction_session_timeout", "synchronous_commit":
			return Call{}, &settingError{Names: all,
				Err: fmt.Errorf("%s is Skald's own: see inbox.Options.Timeouts.Wait and Handle", s.Name)}
		}
		if !Storable(s.Name) || !Storable(s.Value) {
			return Call{}, &settingError{Names: all,
				Err: fmt.Errorf("%q or its value is not UTF-8 text without NUL", s.Name)}
		}
	}
	set := d.Call("Settings", names, values)
	set.Scan = func(Scanner) error { return nil }
	set.Fail = func(err error) error { return &settingError{Names: all, Err: err} }
	return set, nil
}
