package operate

import (
	"context"
	"iter"

	"github.com/skald-go/skald/operate/internal/kept"
	"github.com/skald-go/skald/store"
)

// A Group is dead letters of a consumer that failed in one way: its names in JSON are stable.
type Group = kept.Group

// Groups counts the selected dead letters by consumer and fingerprint, in the order of the first of each.
func Groups(ctx context.Context, db Keeper, s Selection) (all []Group, err error) {
	return kept.Groups(ctx, db, s)
}

// A Grouping counts dead letters by consumer and fingerprint.
type Grouping = kept.Grouping

// A Message is a parked message or a dead letter as people and tools see it: its names in JSON are stable.
// Key and Data are base64 there.
type Message = kept.Message

// A Header is one header of a message.
type Header = kept.Header

// MessageOf is p as people and tools see it.
func MessageOf(p *store.Parked) Message {
	return kept.MessageOf(p)
}

// State says in a few words how a kept message stands.
func State(p *store.Parked) string {
	return kept.State(p)
}

// A Page is some kept messages, in the order of arrival.
type Page = kept.Page

// Kept reads a page of the selected messages; bare: without payloads and headers. One read of the store does
// for most selections.
func Kept(ctx context.Context, db store.Lister, s Selection, bare bool, most Peek) (page Page, err error) {
	return kept.Kept(ctx, db, s, bare, most)
}

// A Selection chooses among parked messages or, with Dead, among dead letters. Zero fields choose all.
type Selection = kept.Selection

// DeadKinds are the ways in which a message can end as a dead letter, as package failure names them.
func DeadKinds() []string {
	return kept.DeadKinds()
}

// A Keeper is what the verbs on parked messages and dead letters ask of a store.
type Keeper = kept.Keeper

// List reads the selected messages in the order of arrival, page by page; bare: without payloads and headers.
// It ends after an error.
func List(ctx context.Context, db Keeper, s Selection, bare bool) iter.Seq2[store.Parked, error] {
	return kept.List(ctx, db, s, bare)
}

// A Knowledge is what a consumer knows of a message: its names in JSON are stable.
type Knowledge = kept.Knowledge

// An Apart is a message in quarantine: its names in JSON are stable.
type Apart = kept.Apart

// A Shower is what Show asks of a store.
type Shower = kept.Shower

// Show tells what a consumer knows of a message. If its source is not known, it is looked for among what is
// kept by its id alone, and else taken for a key, which has no source.
func Show(ctx context.Context, db Shower, consumer string, id store.Identity,
	sourced bool) (k Knowledge, err error) {
	return kept.Show(ctx, db, consumer, id, sourced)
}
