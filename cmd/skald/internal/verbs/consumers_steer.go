package verbs

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
)

const (
	pauseAbout = `Stops all processes of a consumer from starting handlers, within about 5 seconds, until skald consumer
resume. Running handlers finish. Received messages wait unacknowledged. New processes are paused, too.`
	resumeAbout = `Ends a pause and closes the open circuit breakers of a consumer, within about 5 seconds. With
--fingerprint it ends a skip instead.`
	skipAbout = `Turns each message that fails with this fingerprint into a dead letter of kind skipped, at its next
failure, until skald consumer resume --fingerprint. These dead letters block no key and do not count
for circuit breakers. skald dead groups and open breakers print fingerprints; skald consumer resume
closes a breaker.`
)

type steering struct {
	schema, consumer, fingerprint, reason, by string
	asJSON                                    bool
}

// steerCommand returns the command pause, resume or skip.
func steerCommand(out io.Writer, verb, short, about string) *cobra.Command {
	var s steering
	c := &cobra.Command{Use: verb, Short: short, Long: about, Args: cobra.NoArgs}
	connect.StoreFlags(c, &s.schema, &s.asJSON)
	f := c.Flags()
	connect.Filter(f, &s.consumer, "consumer", "consumer `GROUP`")
	if verb != "pause" {
		connect.Filter(f, &s.fingerprint, "fingerprint", "`FINGERPRINT` of the error")
	}
	connect.AuditFlags(f, &s.reason, &s.by)
	c.RunE = func(c *cobra.Command, _ []string) error { return s.run(c, out, verb) }
	return c
}

func (s *steering) run(c *cobra.Command, out io.Writer, verb string) error {
	switch {
	case s.consumer == "":
		return &cli.UsageError{What: "which consumer? Give --consumer"}
	case verb == "skip" && s.fingerprint == "":
		return &cli.UsageError{What: "which failures? Give --fingerprint"}
	case strings.TrimSpace(s.reason) == "":
		return &cli.UsageError{What: "why? Give --reason"}
	}
	return withKnower(c, s.schema, false, func(ctx context.Context, k knower) error {
		if err := s.tell(ctx, k, verb); err != nil {
			return fmt.Errorf("consumer %s: %w", verb, err)
		}
		if s.asJSON {
			return cli.JSON(out).Encode(map[string]any{"consumer": s.consumer, "told": verb,
				"fingerprint": s.fingerprint})
		}
		_, err := fmt.Fprintf(out, "%s: its processes follow within about 5 seconds.\n", s.consumer)
		return err
	})
}

func (s *steering) tell(ctx context.Context, db operate.PositionStore, verb string) (err error) {
	o := operate.Order{Author: s.by, Reason: s.reason}
	switch {
	case verb == "pause":
		err = operate.PauseInbox(ctx, db, s.consumer, o)
	case verb == "skip":
		err = operate.SkipInbox(ctx, db, s.consumer, s.fingerprint, o)
	case s.fingerprint != "":
		err = operate.UnskipInbox(ctx, db, s.consumer, s.fingerprint, o)
	default:
		err = operate.ResumeInbox(ctx, db, s.consumer, o)
	}
	return err
}
