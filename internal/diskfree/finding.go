package diskfree

import (
	"fmt"

	"github.com/skald-go/skald"
)

const gib = 1 << 30

// Finding grades the free space at the path of a database. The grade is Failed below 1 GiB, and also below 5%
// of the disk if less than 10 GiB are free. The grade is Doubtful below 10% of the disk.
func Finding(path string) (skald.Finding, error) {
	free, all, err := At(path)
	if err != nil {
		return skald.Finding{}, err
	}
	return judge(free, all), nil
}

func judge(free, all uint64) skald.Finding {
	f := skald.Finding{Name: "free disk", Grade: skald.Fine,
		Observed: fmt.Sprintf("%.1f of %.1f GiB are free", float64(free)/gib, float64(all)/gib)}
	switch {
	case free < gib || free < min(all/20, 10*gib):
		f.Grade = skald.Failed
	case free < all/10:
		f.Grade = skald.Doubtful
	default:
		return f
	}
	f.Remedy = "make room, or grow the disk, before it is full: then nothing is written, taken or relayed. Look for slots and WAL that is kept, and for shorter retention (--keep-outbox)"
	return f
}
