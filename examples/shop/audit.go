package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/place"
)

// patience is how long a server may take to answer.
const patience = 10 * time.Second

func check(ctx context.Context, args []string, out, _ io.Writer) (err error) {
	f := flags("audit")
	url := f.String("store", os.Getenv("SKALD_STORE"), "")
	asJSON := f.Bool("json", false, "one object")
	prefix := f.String("prefix", "", prefixUsage)
	if _, err := parse(f, args, 0); err != nil {
		return err
	}
	shop, err := place.Open(*url, schemaPrefix(*prefix))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.Close()) }()
	databases, err := shop.Read(ctx)
	if err != nil {
		return err
	}
	found, err := audit.Run(ctx, databases)
	if err != nil {
		return err
	}
	if *asJSON {
		err = json.NewEncoder(out).Encode(map[string]any{"ok": audit.OK(found), "invariants": found})
	} else {
		err = printVerdicts(out, found)
	}
	if err == nil && !audit.OK(found) {
		err = fmt.Errorf("%w: a promise is broken", errFailed)
	}
	return err
}

func printVerdicts(out io.Writer, found []audit.Invariant) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, i := range found {
		verdict := "ok"
		if !i.OK {
			verdict = "BROKEN"
		}
		fmt.Fprintf(w, "%s\t%s\t%d checked\t%s\n", i.Name, verdict, i.Checked, i.Detail)
	}
	return w.Flush()
}
