// Package operate has each verb of an operator as a Go API: the command skald stands on it, and so can a
// service or a console. It stands on the seams alone and needs the rights of an app, unless a verb says
// otherwise; to look, and for the dry run of most verbs, those of a reader do.
//
// A verb that changes something takes an Order and returns a report. A question returns what it found. A
// store is any driver of Skald; each verb names the few methods that it calls.
package operate

import "github.com/skald-go/skald/operate/internal/order"

// A Peek bounds a look at kept messages.
type Peek = order.Peek

// An Order says who wants a change, why, and how it is carried out.
type Order = order.Order

// A Report tells how many messages were selected, and how many of them were changed; in a dry run, would be.
type Report = order.Report

// A UsageError says what is missing or wrong in what was asked for. Nothing has changed.
type UsageError = order.UsageError

// A NoneError says that there is nothing which the verb could be about. Nothing has changed.
type NoneError = order.NoneError

// A PartlyError says that only a part was done although nothing failed: somebody else was first with the
// rest. The report tells how much.
type PartlyError = order.PartlyError

// An UnknownConsumerError says that a database knows nothing of a consumer: its name is misspelt, or it is
// another database's.
type UnknownConsumerError = order.UnknownConsumerError

// An Applier carries out effects: see store.Store.
type Applier = order.Applier

// A Seer looks up what consumers have finished: see store.Store.
type Seer = order.Seer
