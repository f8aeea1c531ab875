package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/wal"
)

// debezium reports data that Debezium's EventRouter would lose. It reads payloads from one column and keys
// from the text column, so payloads of two kinds and binary keys are lost. Publications with a column list
// also lose data.
func (d *doctor) debezium(ctx context.Context, p *patient) error {
	var names string
	var out []wal.LeftOut
	if err := d.pg.Short(ctx, "examine", d.pg.Call("ExaminePublications").Into(&names),
		wal.ListLeftOut(d.pg, &out)); err != nil {
		return err
	}
	for _, one := range out {
		if one.Payloads || one.Publication == wal.DefaultPublication {
			p.addFinding("debezium", skald.Failed,
				fmt.Sprintf("publication %s leaves out the columns %s, which a connector reads as NULL",
					one.Publication, one.Columns),
				"make it as skald debezium config prints, without a list of columns. DROP PUBLICATION if no connector reads it")
			return nil
		}
	}
	if names == "" {
		return nil
	}
	var texts, bytes, keys int64
	err := d.pg.Short(ctx, "examine", d.pg.Call("ExamineColumns", int32(store.PayloadRows)).Into(&texts,
		&bytes, &keys))
	if right := new(store.RightError); errors.As(err, &right) {
		p.addFinding("debezium", skald.Fine, "this user may not read the outbox", "")
		return nil
	}
	p.addFinding("debezium", failedUnless((texts == 0 || bytes == 0) && keys == 0),
		fmt.Sprintf("publication %s; of the newest rows %d have data, %d data_bytes, %d key_bytes", names,
			texts, bytes, keys),
		"its EventRouter reads one of data and data_bytes, and not key_bytes: give all events one kind of payload and keys of text, or publish by skald relay; "+
			"docs/adopt.md. DROP PUBLICATION if no connector reads it")
	return err
}
