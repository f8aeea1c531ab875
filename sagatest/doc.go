// Package sagatest tests services that stand on Skald's seams: yours, the examples and Skald itself.
//
// # Faults
//
// WrapDriver and WrapBroker stand around a store and a broker and inject, by a seed, what goes wrong in production:
// commits and publishes that take effect but answer with an error, deliveries that come twice or late,
// acknowledgements that are lost, processes that die in the middle of a step. Your service runs as it is:
//
//	faults := sagatest.NewFaults(seed, sagatest.Some())
//	life := faults.Life()
//	db, bus = sagatest.WrapDriver(db, life), sagatest.WrapBroker(bus, life)
//	… build the service over db and bus, run it; when life.Died() is closed stop it and build it anew …
//
// NoMark, AckFirst and DualWrite take one safeguard away each, to show what it is for.
package sagatest
