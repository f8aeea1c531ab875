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

const importAbout = `Marks messages as finished without handling them, from a deduplication table of your own. Each line of
the file is a message: a JSON object or, in a .csv file, values under a line of names. The names are id,
source (default: --source) and, if known, fingerprint as in skald_keys. Other names are ignored. Marks
are kept for their retention from now on.

A line may have the answer for duplicates. For an idempotent endpoint (--consumer http:NAME) the id is
the key, the source is the tenant, and the answer is code, body and headers (a JSON object). For once.Do
it is body, a JSON value. refused has the reason of a final refusal. Leave out requests without an
answer, and answers of 5xx.

Existing marks do not change, so an interrupted import can be repeated. Import before the first inbox
reads the topic, and again for the messages until the last old consumer has stopped.`

func importCommand(out, errs io.Writer) *cobra.Command {
	var schema, consumer, path, source, reason, by string
	var asJSON, dry, sure bool
	var keep time.Duration
	c := &cobra.Command{Use: "import", Short: "Import finished messages from a deduplication table",
		Long: importAbout, Args: cobra.NoArgs}
	connect.StoreFlags(c, &schema, &asJSON)
	f := c.Flags()
	f.StringVar(&consumer, "consumer", "", "consumer `GROUP` that will read the topic")
	f.StringVar(&path, "from", "", "`FILE` with the messages; - reads JSON from standard input")
	f.StringVar(&source, "source", "",
		"`SOURCE` of messages without one in the file; for an endpoint the tenant, empty with httpidem.OneTenant")
	f.DurationVar(&keep, "keep", 0,
		"`TIME` to retain the answers, Options.Keep of the endpoint (default: as marks)")
	connect.AuditFlags(f, &reason, &by)
	f.BoolVar(&dry, "dry-run", false, "count the messages, and change nothing")
	f.BoolVar(&sure, "yes", false, "do not ask for confirmation")
	c.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case consumer == "" || path == "":
			return &cli.UsageError{What: "which file and which consumer? Give --from and --consumer"}
		case !dry && strings.TrimSpace(reason) == "":
			return &cli.UsageError{What: "why? Give --reason"}
		case keep < 0:
			return &cli.UsageError{What: "--keep is negative: give a positive time, or omit it"}
		}
		list, end, err := finishedIn(path, c.InOrStdin(), consumer, source)
		if err != nil {
			return err
		}
		defer end()
		return withKnower(c, schema, dry, func(ctx context.Context, k knower) error {
			if !dry && !sure {
				if err := connect.Yes(ctx, errs,
					fmt.Sprintf("%[2]s will never handle the messages in %[1]s.\nMark them?", path, consumer),
					"consumer import: count them with --dry-run; to mark them, add --yes"); err != nil {
					return err
				}
			}
			done, err := importInto(ctx, k, consumer, by, reason, dry, keeping(list, keep))
			if err != nil {
				return fmt.Errorf("consumer import: %w", err)
			}
			return tellImported(out, done, dry, asJSON)
		})
	}
	return c
}

// keeping returns the list with this retention for each message.
func keeping(list iter.Seq2[inbox.Finished, error], retention time.Duration) iter.Seq2[inbox.Finished,
	error] {
	return func(yield func(inbox.Finished, error) bool) {
		for one, err := range list {
			if one.Keep = retention; !yield(one, err) {
				return
			}
		}
	}
}

// importInto marks the messages of list. If dry is true, it only counts them.
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
	return inbox.Imported{}, fmt.Errorf("%T does not support an import", k)
}

// lookedUp counts the messages that an import would mark. The count may include messages that the import
// would leave out because they are too old.
func lookedUp(ctx context.Context, k knower, consumer string,
	list iter.Seq2[inbox.Finished, error]) (done inbox.Imported, err error) {
	var ids []store.Identity
	look := func() error {
		seen, err := k.Seen(ctx, consumer, ids)
		for _, v := range seen {
			if v.Outcome == store.Fresh {
				done.New++
			} else {
				done.Existing++
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
		return cli.JSON(out).Encode(map[string]any{"new": done.New, "known": done.Existing,
			"too_old": done.TooOld, "dry_run": dry})
	}
	verb := "are marked"
	if dry {
		verb = "would be marked"
	}
	_, err := fmt.Fprintf(out, "%d messages %s, %d had a mark, %d are older than the retention of marks\n", done.New,
		verb, done.Existing, done.TooOld)
	return err
}

// finishedIn opens a file of finished messages. The result list reads the file line by line. The result
// closeFile closes the file.
func finishedIn(path string, in io.Reader, consumer,
	source string) (list iter.Seq2[inbox.Finished, error], closeFile func(), err error) {
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
	closeFile = func() { _ = file.Close() }
	if strings.EqualFold(filepath.Ext(path), ".csv") {
		return values(file, consumer, source), closeFile, nil
	}
	return objects(file, consumer, source), closeFile, nil
}

// objects reads finished messages from an input with a sequence of JSON objects.
func objects(input io.Reader, consumer, source string) iter.Seq2[inbox.Finished, error] {
	return func(yield func(inbox.Finished, error) bool) {
		dec := json.NewDecoder(input)
		for n := 1; ; n++ {
			o := struct {
				Source      string      `json:"source"`
				ID          string      `json:"id"`
				Fingerprint json.Number `json:"fingerprint"` // json.Number also accepts a number in quotes
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
				err = o.addTo(&one, consumer)
			}
			if err = placed(one, err, "object", n); !yield(one, err) || err != nil {
				return
			}
		}
	}
}

// values reads finished messages from an input in CSV. The first line has the names of the columns.
func values(input io.Reader, consumer, source string) iter.Seq2[inbox.Finished, error] {
	return func(yield func(inbox.Finished, error) bool) {
		r := csv.NewReader(input)
		r.ReuseRecord = true
		head, err := r.Read()
		names := slices.Clone(head)
		id, input, print := slices.Index(names, "id"), slices.Index(names, "source"),
			slices.Index(names, "fingerprint")
		if err != nil || id < 0 {
			yield(inbox.Finished{},
				&cli.UsageError{What: fmt.Sprintf(
					"the first line of the file must name its columns, including id; it has %q", names)})
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
				if input >= 0 {
					one.Source = line[input]
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

// placed adds the position in the file to the error of a line. The position is the unit and the number n.
func placed(one inbox.Finished, err error, what string, n int) error {
	if err == nil && one.ID == "" {
		err = errors.New("it has no id")
	}
	if err == nil {
		return nil
	}
	return &cli.UsageError{What: fmt.Sprintf("%s %d of the file: %v", what, n, err)}
}
