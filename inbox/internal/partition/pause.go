package partition

// maxHeldBytes bounds what one partition may hold unacknowledged, whatever the size of its messages.
const maxHeldBytes = 16 << 20

// A Bound is how much may be unacknowledged before partitions pause.
type Bound struct {
	Held  int // deliveries of a partition
	Bytes int // of all partitions together; once they hold as many, one with more than its share pauses
}

// Apply are the partitions that are to pause now, as they have too much unacknowledged, and those that are to
// go on: they have worked half of it off.
func (b Bound) Apply(all map[string]*Partition) (pause, resume []string) {
	bytes := 0
	for _, l := range all {
		bytes += l.Bytes
	}
	most := min(maxHeldBytes, b.Bytes)
	if bytes >= b.Bytes {
		most = min(most, b.Bytes/len(all))
	}
	for name, l := range all {
		switch n := len(l.Entries); {
		case !l.Paused && (n >= b.Held || l.Bytes >= most || l.Full > 0):
			l.Paused = true
			pause = append(pause, name)
		case l.Paused && n <= b.Held/2 && l.Bytes <= most/2 && l.Full == 0:
			l.Paused = false
			resume = append(resume, name)
		}
	}
	return pause, resume
}
