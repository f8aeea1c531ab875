package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/store"
)

func inboxCommand(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "inbox", Short: "What consumers know of messages, and what they can neither drop nor take",
		RunE: func(c *cobra.Command, _ []string) error {
			c.SetOut(c.ErrOrStderr())
			return errors.Join(&place.UsageError{What: "which command of inbox?"}, errTold, c.Usage())
		}}
	c.AddCommand(inboxStatusCommand(out), inboxShowCommand(out), inboxAdmitCommand(out, errs), inboxImportCommand(out, errs), inboxRewindCommand(out, errs))
	return c
}

// knower is what these commands ask of a store.
type knower interface {
	Check(ctx context.Context, as store.Role) error
	Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error)
	Quarantined(ctx context.Context, q store.Query) ([]store.Quarantined, error)
	Admit(ctx context.Context, numbers []int64, by, reason string) (int, error)
	Kept(ctx context.Context, what store.Sought, limit int) ([]store.Parked, error)
}

// withKnower opens the store that the flags name for as long as f takes.
func withKnower(c *cobra.Command, schema string, as store.Role, f func(context.Context, knower) error) error {
	db, err := openDatabase(from(c, "store", "SKALD_STORE"), schema, "")
	if err != nil {
		return err
	}
	all, end, err := db.stores(c.Context(), rooms{})
	if err != nil {
		return err
	}
	defer end()
	k, ok := all[0].(knower)
	if !ok {
		return fmt.Errorf("%T has no quarantine", all[0])
	}
	if err := k.Check(c.Context(), as); err != nil {
		return err
	}
	return f(c.Context(), k)
}

func storeFlags(c *cobra.Command, schema *string, asJSON *bool) {
	c.Flags().String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	c.Flags().StringVar(schema, "schema", "", "where the tables are; PostgreSQL only (default: public)")
	c.Flags().BoolVar(asJSON, "json", false, "print one object and nothing else")
}

const inboxStatusAbout = `Says how many messages are in quarantine, of which consumer and why, and since when: those of which another payload was
taken under the same identity (conflict), and those that are older than marks are kept, so that nobody knows whether they
were taken (too old). They hold nobody up, and wait for skald inbox admit.`

// An apartGroup is messages in quarantine of one consumer, for one reason. Its names are stable.
type apartGroup struct {
	Consumer string    `json:"consumer"`
	Why      string    `json:"why"`
	Waiting  int       `json:"waiting"`
	Admitted int       `json:"admitted"` // and not taken yet
	Oldest   time.Time `json:"oldest"`
	First    int64     `json:"first_number"`
}

func inboxStatusCommand(out io.Writer) *cobra.Command {
	var schema string
	var asJSON bool
	c := &cobra.Command{Use: "status", Short: "What is in quarantine", Long: inboxStatusAbout, Args: cobra.NoArgs}
	storeFlags(c, &schema, &asJSON)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return withKnower(c, schema, store.App, func(ctx context.Context, k knower) error {
			groups := []apartGroup{}
			err := each(ctx, k, store.Query{}, func(list []store.Quarantined) error {
				groups = grouped(groups, list)
				return nil
			})
			if err != nil {
				return fmt.Errorf("inbox status: %w", err)
			}
			if asJSON {
				return json.NewEncoder(out).Encode(map[string]any{"quarantine": groups})
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "consumer\twhy\twaiting\tadmitted\toldest\tfirst")
			for _, g := range groups {
				fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%d\n", g.Consumer, g.Why, g.Waiting, g.Admitted, g.Oldest.Format(time.RFC3339), g.First)
			}
			return w.Flush()
		})
	}
	return c
}

// each goes through the quarantine page by page.
func each(ctx context.Context, k knower, q store.Query, f func([]store.Quarantined) error) error {
	for {
		list, err := k.Quarantined(ctx, q)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := f(list); err != nil {
			return err
		}
		q.After = list[len(list)-1].Number
	}
}

func grouped(groups []apartGroup, list []store.Quarantined) []apartGroup {
	for _, q := range list {
		i := slices.IndexFunc(groups, func(g apartGroup) bool { return g.Consumer == q.Consumer && g.Why == q.Why.String() })
		if i < 0 {
			i = len(groups)
			groups = append(groups, apartGroup{Consumer: q.Consumer, Why: q.Why.String(), Oldest: q.At, First: q.Number})
		}
		if q.Admitted.IsZero() {
			groups[i].Waiting++
		} else {
			groups[i].Admitted++
		}
	}
	return groups
}

const inboxAdmitAbout = `Has messages in quarantine taken by their consumers, each once, within some seconds. One that is too old may have been
taken before it was forgotten; one in conflict is taken beside the one that had its identity: look first, with skald
inbox show. It is noted who admitted a message and why.`

func inboxAdmitCommand(out, errs io.Writer) *cobra.Command {
	var schema, why, by, reason string
	var q store.Query
	var number int64
	var asJSON, dry, sure, everything bool
	c := &cobra.Command{Use: "admit", Short: "Have messages in quarantine taken", Long: inboxAdmitAbout, Args: cobra.NoArgs}
	storeFlags(c, &schema, &asJSON)
	f := c.Flags()
	f.Int64Var(&number, "number", 0, "this one, as skald inbox show numbers it")
	f.StringVar(&q.ID, "id", "", "those of this id")
	f.StringVar(&q.Consumer, "consumer", "", "those of this consumer")
	f.StringVar(&q.Topic, "topic", "", "those of this topic")
	f.StringVar(&q.Type, "type", "", "those of this type")
	f.StringVar(&why, "why", "", "conflict or too-old: those that are there for that")
	f.BoolVar(&everything, "all", false, "all that there are")
	f.StringVar(&reason, "reason", "", "why; it is noted")
	f.StringVar(&by, "by", whoami(), "who; it is noted")
	f.BoolVar(&dry, "dry-run", false, "say what would be admitted, and change nothing")
	f.BoolVar(&sure, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var err error
		if q.Why, err = reasonOf(why); err != nil {
			return err
		}
		switch {
		case q == (store.Query{}) && number == 0 && !everything:
			return &place.UsageError{What: "which messages? Give --number, --id, --consumer, --topic, --type, --why or --all"}
		case !dry && strings.TrimSpace(reason) == "":
			return &place.UsageError{What: "why? Give --reason"}
		}
		return withKnower(c, schema, store.App, func(ctx context.Context, k knower) error {
			a := admission{k: k, q: q, number: number, by: by, reason: reason, dry: dry}
			a.ask = func(n int) error {
				return askFirst(ctx, errs, fmt.Sprintf("%d messages.\nShall their consumers take them?", n),
					fmt.Sprintf("inbox admit: %d messages: look at them with --dry-run; if that is meant, add --yes", n))
			}
			if sure {
				a.ask = nil
			}
			return a.run(ctx, out, asJSON)
		})
	}
	return c
}

func reasonOf(why string) (store.Outcome, error) {
	switch why {
	case "":
		return store.Fresh, nil
	case "conflict":
		return store.Conflict, nil
	case "too-old", "too old":
		return store.TooOld, nil
	}
	return 0, &place.UsageError{What: "--why is conflict or too-old"}
}

type admission struct {
	k          knower
	q          store.Query
	number     int64 // 0: any
	by, reason string
	dry        bool
	ask        func(n int) error
}

func (a *admission) run(ctx context.Context, out io.Writer, asJSON bool) error {
	chosen, err := a.choose(ctx)
	if err == nil && len(chosen) > 1 && !a.dry && a.ask != nil {
		err = a.ask(len(chosen))
	}
	if err != nil {
		return fmt.Errorf("inbox admit: %w", err)
	}
	n := 0
	for part := range slices.Chunk(chosen, 1000) {
		var numbers []int64
		for _, q := range part {
			numbers = append(numbers, q.Number)
		}
		if a.dry {
			continue
		}
		did, err := a.k.Admit(ctx, numbers, a.by, a.reason)
		if err != nil {
			return fmt.Errorf("inbox admit: %d are admitted: %w", n, err)
		}
		n += did
	}
	if asJSON {
		err := json.NewEncoder(out).Encode(map[string]any{"chosen": len(chosen), "admitted": n, "dry_run": a.dry})
		return errors.Join(err, a.partly(n, len(chosen)))
	}
	if a.dry {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, q := range chosen {
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", q.Number, q.Consumer, q.Why, q.Message.Topic, q.Message.Type, q.ID)
		}
		return w.Flush()
	}
	_, err = fmt.Fprintf(out, "%d messages are admitted; their consumers take them within some seconds.\n", n)
	return errors.Join(err, a.partly(n, len(chosen)))
}

func (a *admission) partly(did, meant int) error {
	if a.dry {
		return nil
	}
	return partly("inbox admit", did, meant)
}

// choose looks for what is meant and not admitted yet. One that is named must be there.
func (a *admission) choose(ctx context.Context) (chosen []store.Quarantined, err error) {
	there := a.number == 0 && a.q.ID == ""
	err = each(ctx, a.k, a.q, func(list []store.Quarantined) error {
		for _, q := range list {
			if a.number != 0 && a.number != q.Number {
				continue
			}
			if there = true; q.Admitted.IsZero() {
				q.Message.Data = nil // there may be many
				chosen = append(chosen, q)
			}
		}
		return nil
	})
	if err == nil && !there {
		err = &place.NoneError{What: "no message in quarantine is meant by these flags: see skald inbox status"}
	}
	return chosen, err
}
