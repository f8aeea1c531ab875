package partition

// Suspect looks for what a process may have died of: of each key the first that is not finished was in its
// hand, or none. Unless all that was finished is known, any may be the first.
func Suspect(es []*Entry, known bool) {
	for _, e := range es {
		l := e.Chain.Partition
		switch {
		case e.Done || !e.Readable():
		case l.Shared: // nobody knows who had it, nor what became of that
			e.Suspect = e.Attempt > 0
			continue
		case l.Tried == nil:
		case l.Redelivered:
			e.Suspect = e.Attempt > 0 && !l.Tried[e.Chain.key]
		case e.Position < l.Suspects:
			e.Suspect = !l.Tried[e.Chain.key]
		default:
			l.Tried = nil
		}
		if e.Suspect && known && e.Chain.key != "" {
			l.Tried[e.Chain.key] = true
		}
	}
}
