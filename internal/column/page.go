package column

import "github.com/skald-go/skald/store"

const (
	firstPage = 4  // of the largest messages, 4 take about store.PageBytes
	mostPage  = 32 // so that large messages behind small ones take less than 32 MiB
)

// Page sizes the pages of a list with payloads, so that a page takes about store.PageBytes of memory. Its
// zero value is for the first page.
type Page struct{ rows int }

// Limit returns how many rows to ask for, at most most.
func (p *Page) Limit(most int) int {
	if p.rows == 0 {
		p.rows = firstPage
	}
	return min(p.rows, most)
}

// Read notes that a page had so many rows and bytes of payload.
func (p *Page) Read(rows, bytes int) {
	switch {
	case rows == 0:
	case bytes > store.PageBytes/2:
		p.rows = max(1, min(mostPage, rows*(store.PageBytes/2)/bytes))
	default:
		p.rows = min(mostPage, max(p.rows, 2*rows))
	}
}
