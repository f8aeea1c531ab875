// Package sagatest tests services that use Skald: yours, the examples and Skald itself. It works through the
// interfaces of stores and brokers.
//
// # Every crash
//
// Explore runs your own handlers in one thread. It counts each I/O of the handlers and of Skald's components:
// each call of a store, a unit of work, a publisher or a subscription. Then it runs everything again, once
// for each I/O and each fault at that I/O. The process crashes before the I/O, crashes after it took effect,
// gets an error although it took effect, or pauses until all other processes are idle. After each run, when
// the world is idle, your invariants must hold:
//
//	func TestShop(t *testing.T) {
//		sagatest.Explore(t, func(w *sagatest.World) error {
//			db, bus := memstore.New(&memstore.Options{Now: w.Now}), membroker.New(nil)
//			w.Process("payment", func(p *sagatest.Process) error { // one session; called again after a crash
//				d, b := sagatest.CrashDriver(p, db.Session()), sagatest.CrashBroker(p, bus.Client())
//				p.Step(yourInbox(d, b), yourRelay(d, b)) // with w.Now and w.NewID, so that each run is the same
//				return nil
//			})
//			w.Finally("charged once", func() error { … })
//			return nil
//		}, &sagatest.Options{Pairs: true})
//	}
//
// Explore prints a schedule that breaks an invariant, with each I/O of its run, and with a command that
// repeats the run:
//
//	SAGATEST_REPLAY='crash-after@17' go test -run '^TestShop$'
//
// You can explore any store and broker driver. For other I/O of a process, such as the commit of its own
// transaction, use Process.IO. A broker's subscription without a Kill method is closed instead of killed.
//
// # Sagas
//
// Check runs the functions of a saga (package saga) with faults at each point: a step fails, an answer is
// lost, a function is repeated, the process crashes, the saga is cancelled, or the deadline passes. It can
// also run another saga on the same rows in between (Rival), replace an older definition by a newer one
// (Older), and try each value that signals and replies may have (Signal, Reply). Check verifies that each
// saga leaves all of its effects or none. It also verifies your own promises about rows or emitted events
// (Promise, EmitsIfDone, Emitted):
//
//	sagatest.Check(t, orders, Order{ID: "o-1"}, sagatest.Promise(func(ctx context.Context, tx *memstore.Tx, end sagatest.End) error { … }))
//
// # Faults
//
// WrapDriver and WrapBroker wrap a store and a broker, and inject the faults of production, selected by a
// seed. Such faults are commits and publishes that take effect but return an error, repeated and late
// deliveries, lost acknowledgements, and processes that die in the middle of a step. Your service runs
// unchanged:
//
//	faults := sagatest.NewFaults(seed, sagatest.Some())
//	session := faults.Session()
//	db, bus = sagatest.WrapDriver(db, session), sagatest.WrapBroker(bus, session)
//	… build the service over db and bus, run it; when session.Died() is closed, stop it and build it again …
//
// NoMark, AckFirst and DualWrite each remove one safeguard, to show its purpose.
package sagatest
