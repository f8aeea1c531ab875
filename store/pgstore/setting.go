package pgstore

import (
	"fmt"
	"strings"

	"github.com/skald-go/skald/store"
)

// A settingError is the fault of whoever chose the settings of one message: never a missing right of the
// process, which would stop it for all.
type settingError struct {
	names string
	err   error
}

func (e *settingError) Error() string {
	return fmt.Sprintf("set %s for the handler: %v: see inbox.Options.Transaction.Settings, and pg_settings for what there is", e.names, e.err)
}

func (e *settingError) Unwrap() error { return e.err }

// settings is the call that makes list hold until the end of the transaction.
func (c *core) settings(list []store.Setting) (call, error) {
	names, values := make([]string, len(list)), make([]string, len(list))
	for i, s := range list {
		names[i], values[i] = s.Name, s.Value
	}
	all := strings.Join(names, ", ")
	for _, s := range list {
		switch strings.ToLower(s.Name) {
		case "lock_timeout", "idle_in_transaction_session_timeout", "synchronous_commit":
			return call{}, &settingError{all, fmt.Errorf("%s is Skald's own: see inbox.Options.Timeouts.Wait and Handle", s.Name)}
		}
		if !storable(s.Name) || !storable(s.Value) {
			return call{}, &settingError{all, fmt.Errorf("%q is no text, or its value is none", s.Name)}
		}
	}
	set := c.call("Settings", names, values)
	set.scan = func(scanner) error { return nil }
	set.fail = func(err error) error { return &settingError{all, err} }
	return set, nil
}
