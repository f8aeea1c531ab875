package column

import "github.com/skald-go/skald/store"

const (
	firstPage = 4  // 4 messages of the maximum size take about store.PageBytes
	mostPage  = 32 // if large messages follow small ones, 32 large messages take less than 32 MiB
)

// Page determines the number of messages in each page of a list with payloads, so that a page takes about
// store.PageBytes of memory. The zero Page is for the first page.
type Page struct{ rows int }

// Limit returns the number of rows to read for the next page, up to the limit.
func (p *Page) Limit(limit int) int {
	if p.rows == 0 {
		p.rows = firstPage
	}
	return min(p.rows, limit)
}

// Read records the number of rows and bytes of a page, to adjust the size of the next page.
func (p *Page) Read(rows, bytes int) {
	switch {
	case rows == 0:
	case bytes > store.PageBytes/2:
		p.rows = max(1, min(mostPage, rows*(store.PageBytes/2)/bytes))
	default:
		p.rows = min(mostPage, max(p.rows, 2*rows))
	}
}
