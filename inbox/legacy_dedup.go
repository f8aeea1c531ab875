package inbox

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/store"
)

// A Known function asks a table of your own whether a message was handled, and notes that it is, in one
// statement that waits for a rival: INSERT … ON CONFLICT DO NOTHING, and known is that nothing was inserted.
// To look first and note then lets two through. Id is what Options.Identity.Of made of the message.
type Known[TTx any] func(ctx context.Context, tx TTx, id store.Identity,
	m skald.Message) (known bool, err error)

// LegacyDedup keeps a table of your own up to date beside the marks, for as long as consumers that were
// written by hand share the group, or may take it back: known is asked in each message's transaction, before
// its handler. What your table knows counts as a duplicate: it is marked, and not handled. What it does not
// know is noted there and marked, in one commit with its effect or its rejection; a message that fails is
// noted in neither. An error of known is one of the handler. Messages are taken one by one meanwhile,
// whatever Options.Batch. Tell it before Run. A message that was admitted out of quarantine although
// another has its identity is handled without asking.
func (in *Inbox[TTx]) LegacyDedup(known Known[TTx]) { in.exec.Beside(exec.Known[TTx](known)) }
