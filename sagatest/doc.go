// Package sagatest tests services that stand on Skald's seams: yours, the examples and Skald itself.
//
// # Every crash
//
// Explore runs your own handlers single-threaded, counts each I/O that they and Skald's stations do on the
// two seams (each call of a store, a unit of work, a publisher, a subscription), and runs everything again
// once for each I/O and each thing that can go wrong at it: the process dies before it, dies after it took
// effect, gets an error although it took effect, stands still until all others have gone on. Each time, once
// the world has come to rest, your invariants must hold:
//
//	func TestShop(t *testing.T) {
//		sagatest.Explore(t, func(w *sagatest.World) error {
//			db, bus := memstore.New(&memstore.Options{Now: w.Now}), membroker.New(nil)
//			w.Process("payment", func(p *sagatest.Process) error { // one life; called again after a crash
//				d, b := sagatest.CrashDriver(p, db.Session()), sagatest.CrashBroker(p, bus.Client())
//				p.Step(yourInbox(d, b), yourRelay(d, b)) // with w.Now and w.NewID, so that each run is the same
//				return nil
//			})
//			w.Finally("charged once", func() error { … })
//			return nil
//		}, &sagatest.Options{Pairs: true})
//	}
//
// A schedule that breaks an invariant is printed with each I/O of its run and with the line that runs it
// again:
//
//	SAGATEST_REPLAY='crash-after@17' go test -run '^TestShop$'
//
// Any driver of the seams will do. What a process does beside them, such as committing a transaction of its
// own, goes through Process.IO to be explored too. A member of a real broker that cannot be killed is closed
// instead.
//
// # Sagas
//
// Check runs the functions of a saga (package saga) with each step failing, each answer lost, each function
// repeated, its process dying, a cancellation and the deadline, at each point; with another saga on the same
// rows in between (Rival; who comes second at a Lock waits in line), from an older definition to a newer one
// (Older), and with each value that signals and replies may bring (Signal, Reply). It holds that each saga
// leaves all or nothing, and what else you promise, about rows or about emitted events (EmitsIfDone,
// Emitted):
//
//	sagatest.Check(t, orders, Order{ID: "o-1"}, sagatest.Promise(func(ctx context.Context, tx *memstore.Tx, end sagatest.End) error { … }))
//
// # Faults
//
// WrapDriver and WrapBroker stand around a store and a broker and inject, by a seed, what goes wrong in
// production: commits and publishes that take effect but answer with an error, deliveries that come twice or
// late, acknowledgements that are lost, processes that die in the middle of a step. Your service runs as it
// is:
//
//	faults := sagatest.NewFaults(seed, sagatest.Some())
//	session := faults.Session()
//	db, bus = sagatest.WrapDriver(db, session), sagatest.WrapBroker(bus, session)
//	… build the service over db and bus, run it; when session.Died() is closed stop it and build it anew …
//
// NoMark, AckFirst and DualWrite take one safeguard away each, to show what it is for.
package sagatest
