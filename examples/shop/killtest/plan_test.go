package killtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is one fault.
type event struct {
	at, lasts time.Duration
	what      string // kill, stop, postgres, kafka or pgbouncer
	victim    int    // index in world.instances, for kill and stop
}

// plan is the faults of one run: the same for the same seed, span and number of instances.
type plan []event

// newPlan deals a shuffled deck repeatedly, so that each kind is frequent: kill -9 with a new session soon
// or only after the leases have expired; SIGSTOP for longer than leases and sessions; a crash of a server,
// and of the pooler if there is one. The pause between faults is rest to 3*rest.
func newPlan(seed uint64, span, rest time.Duration, instances int, pooler bool) plan {
	r := rand.New(rand.NewPCG(seed, 2))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(r.Int64N(int64(most-least)))
	}
	busy := make([]time.Duration, instances) // until when an instance is away
	var out plan
	var deck []string
	for at := between(0, time.Second); at < span; at += between(rest, 3*rest) {
		if len(deck) == 0 {
			deck = []string{"kill", "stop", "postgres", "kill", "stop", "kafka", "kill", "kill",
				"stop", "kill"}
			if pooler {
				deck = append(deck, "pgbouncer")
			}
			r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		e := event{at: at, what: deck[0]}
		deck = deck[1:]
		switch e.what {
		case "kill":
			e.lasts = between(0, 8*time.Second)
		case "stop":
			e.lasts = between(4*time.Second, 12*time.Second)
		}
		if e.lasts > 0 {
			e.victim = r.IntN(instances)
			for busy[e.victim] > at {
				e.victim = (e.victim + 1) % instances
			}
			busy[e.victim] = at + e.lasts + time.Second
		}
		out = append(out, e)
	}
	return out
}

func (p plan) text(w *world) string {
	var b strings.Builder
	for _, e := range p {
		fmt.Fprintf(&b, "%7.2f s  %s", e.at.Seconds(), e.what)
		if e.lasts > 0 {
			fmt.Fprintf(&b, " %s for %.2f s", w.instances[e.victim], e.lasts.Seconds())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (p plan) count() map[string]int {
	out := map[string]int{}
	for _, e := range p {
		out[e.what]++
	}
	return out
}

// carryOut runs p, each event at its time, and returns when every process and server is back.
func (p plan) carryOut(ctx context.Context, w *world) {
	type act struct {
		at time.Duration
		do func()
	}
	var acts []act
	var servers sync.WaitGroup
	for _, e := range p {
		switch e.what {
		case "kill":
			one := w.instances[e.victim]
			acts = append(acts, act{e.at, func() { w.tell("kill -9 %s", one); one.kill() }},
				act{e.at + e.lasts, func() {
					w.tell("start %s", one)
					if err := one.start(); err != nil {
						w.t.Error(err)
					}
				}})
		case "stop":
			one := w.instances[e.victim]
			acts = append(acts, act{e.at, func() { w.tell("stop %s", one); one.stop() }},
				act{e.at + e.lasts, func() { w.tell("wake %s", one); _ = one.wake() }})
		default:
			acts = append(acts, act{e.at, func() {
				servers.Go(func() {
					if err := w.crash(ctx, e.what); err != nil {
						w.t.Error(err)
					}
				})
			}})
		}
	}
	slices.SortStableFunc(acts, func(a, b act) int { return int(a.at - b.at) })
	from := time.Now()
	for _, a := range acts {
		<-time.After(time.Until(from.Add(a.at))) // a pause of the plan, not a wait for an event
		a.do()
	}
	servers.Wait()
}
