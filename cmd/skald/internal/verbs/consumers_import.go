package verbs

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/store"
)

const importAbout = `Marks messages as finished by a consumer without handling them: what a dedup table of your own knows. The file has a line
for each message, JSON objects or, where its name ends in .csv, values under a line of names: id; source, unless --source says it
for all; fingerprint, where it is known, as skald_keys has it. Other names are passed over. Marks are kept from now on.

A line may have the answer that each repeat gets. Of an idempotent endpoint (--consumer http:NAME; id is the key, source the tenant):
code, body, and headers as a JSON object. Of once.Do: body, a JSON value. Leave out what was not answered, and answers of 5xx.

What is there already is left alone, so whoever was interrupted runs it again. Import before the first inbox reads the topic,
and once more what came until the last old consumer stopped. It is noted who imported and why.`

func importCommand(out, errs io.Writer) *cobra.Command {
	var schema, consumer, path, source, reason, by string
	var asJSON, dry, sure bool
	var keep time.Duration
	c := &cobra.Command{Use: "import", Short: "Mark messages as finished that a table of your own knows",
		Long: importAbout, Args: cobra.NoArgs}
	connect.StoreFlags(c, &schema, &asJSON)
	f := c.Flags()
	f.StringVar(&consumer, "consumer", "", "whose messages: the group that will read the topic")
	f.StringVar(&path, "from", "", "the file; - is standard input, JSON objects")
	f.StringVar(&source, "source", "",
		"the source of messages for which the file has none; of an endpoint the tenant, none under httpidem.OneTenant")
	f.DurationVar(&keep, "keep", 0,
		"how long from now, as Options.Keep of the endpoint says; 0: as long as marks are kept")
	f.StringVar(&reason, "reason", "", "why; it is noted")
	f.StringVar(&by, "by", connect.Whoami(), "who does it, for the audit")
	f.BoolVar(&dry, "dry-run", false, "say what would be marked, and change nothing")
	f.BoolVar(&sure, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case consumer == "" || path == "":
			return &cli.UsageError{What: "what, and whose? Give --from and --consumer"}
		case !dry && strings.TrimSpace(reason) == "":
			return &cli.UsageError{What: "why? Give --reason"}
		case keep < 0:
			return &cli.UsageError{What: "--keep is below 0: say how long, or leave it out"}
		}
		list, end, err := finishedIn(path, c.InOrStdin(), consumer, source)
		if err != nil {
			return err
		}
		defer end()
		return withKnower(c, schema, dry, func(ctx context.Context, k knower) error {
			if !dry && !sure {
				if err := connect.Yes(ctx, errs,
					fmt.Sprintf("What %s names is never handled by %s.\nShall it be marked?", path, consumer),
					"inbox import: look with --dry-run; if it is meant, add --yes"); err != nil {
					return err
				}
			}
			done, err := importInto(ctx, k, consumer, by, reason, dry, keeping(list, keep))
			if err != nil {
				return fmt.Errorf("inbox import: %w", err)
			}
			return tellImported(out, done, dry, asJSON)
		})
	}
	return c
}

// keeping is list with how long each is kept.
func keeping(list iter.Seq2[inbox.Finished, error], keep time.Duration) iter.Seq2[inbox.Finished, error] {
	return func(yield func(inbox.Finished, error) bool) {
		for one, err := range list {
			if one.Keep = keep; !yield(one, err) {
				return
			}
		}
	}
}

// importInto marks what list has, or with dry counts what would be.
func importInto(ctx context.Context, k knower, consumer, by, reason string, dry bool,
	list iter.Seq2[inbox.Finished, error]) (inbox.Imported, error) {
	if dry {
		return lookedUp(ctx, k, consumer, list)
	}
	switch db := k.(type) {
	case store.Driver[pgx.Tx]:
		return inbox.Import(ctx, db, consumer, by, reason, list)
	case store.Driver[*sql.Tx]:
		return inbox.Import(ctx, db, consumer, by, reason, list)
	}
	return inbox.Imported{}, fmt.Errorf("%T has no transactions to import in", k)
}

// lookedUp counts what an import would do, but for what is too old: only a mark tells.
func lookedUp(ctx context.Context, k knower, consumer string,
	list iter.Seq2[inbox.Finished, error]) (done inbox.Imported, err error) {
	var ids []store.Identity
	look := func() error {
		seen, err := k.Seen(ctx, consumer, ids)
		for _, v := range seen {
			if v.Outcome == store.Fresh {
				done.New++
			} else {
				done.Known++
			}
		}
		ids = ids[:0]
		return err
	}
	for one, err := range list {
		if err != nil {
			return done, err
		}
		if ids = append(ids, one.Identity); len(ids) == 1000 {
			if err := look(); err != nil {
				return done, err
			}
		}
	}
	return done, look()
}

func tellImported(out io.Writer, done inbox.Imported, dry, asJSON bool) error {
	if asJSON {
		return cli.JSON(out).Encode(map[string]any{"new": done.New, "known": done.Known,
			"too_old": done.TooOld, "dry_run": dry})
	}
	verb := "are marked"
	if dry {
		verb = "would be marked"
	}
	_, err := fmt.Fprintf(out, "%d messages %s, %d were known, %d are older than marks are kept\n", done.New,
		verb, done.Known, done.TooOld)
	return err
}

// finishedIn reads a file of finished messages, line by line.
func finishedIn(path string, in io.Reader, consumer,
	source string) (list iter.Seq2[inbox.Finished, error], end func(), err error) {
	if path == "-" {
		return objects(in, consumer, source), func() {}, nil
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &cli.NoneError{What: "there is no file " + path}
	}
	if err != nil {
		return nil, nil, err
	}
	end = func() { _ = file.Close() }
	if strings.EqualFold(filepath.Ext(path), ".csv") {
		return values(file, consumer, source), end, nil
	}
	return objects(file, consumer, source), end, nil
}

// objects are JSON, one after the other.
func objects(from io.Reader, consumer, source string) iter.Seq2[inbox.Finished, error] {
	return func(yield func(inbox.Finished, error) bool) {
		dec := json.NewDecoder(from)
		for n := 1; ; n++ {
			o := struct {
				Source      string      `json:"source"`
				ID          string      `json:"id"`
				Fingerprint json.Number `json:"fingerprint"` // a number, or text that is one
				answered
			}{Source: source}
			var raw json.RawMessage
			err := dec.Decode(&raw)
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				err = cmp.Or(fingerprint.CheckJSON(raw), json.Unmarshal(raw, &o))
			}
			one := inbox.Finished{Identity: store.Identity{Source: o.Source, ID: o.ID}}
			if err == nil {
				one.Fingerprint, err = printOf(o.Fingerprint.String())
			}
			if err == nil {
				err = o.onto(&one, consumer)
			}
			if err = placed(one, err, "object", n); !yield(one, err) || err != nil {
				return
			}
		}
	}
}

// values are CSV under a line of names.
func values(from io.Reader, consumer, source string) iter.Seq2[inbox.Finished, error] {
	return func(yield func(inbox.Finished, error) bool) {
		r := csv.NewReader(from)
		r.ReuseRecord = true
		head, err := r.Read()
		names := slices.Clone(head)
		id, from, print := slices.Index(names, "id"), slices.Index(names, "source"),
			slices.Index(names, "fingerprint")
		if err != nil || id < 0 {
			yield(inbox.Finished{},
				&cli.UsageError{What: fmt.Sprintf(
					"the first line of the file names its columns, id among them, and says %q", names)})
			return
		}
		for n := 2; ; n++ {
			line, err := r.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			one := inbox.Finished{Identity: store.Identity{Source: source}}
			if err == nil {
				one.ID = line[id]
				if from >= 0 {
					one.Source = line[from]
				}
				if print >= 0 {
					one.Fingerprint, err = printOf(line[print])
				}
			}
			if err == nil {
				err = answeredIn(names, line, &one, consumer)
			}
			if err = placed(one, err, "line", n); !yield(one, err) || err != nil {
				return
			}
		}
	}
}

func printOf(text string) (int64, error) {
	n, err := strconv.ParseInt(cmp.Or(text, "0"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("fingerprint: %w", err)
	}
	return n, nil
}

// placed says of what cannot be read where it stands.
func placed(one inbox.Finished, err error, what string, n int) error {
	if err == nil && one.ID == "" {
		err = errors.New("it has no id")
	}
	if err == nil {
		return nil
	}
	return &cli.UsageError{What: fmt.Sprintf("%s %d of the file: %v", what, n, err)}
}
