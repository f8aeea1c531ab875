package place_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
)

// A page of another site cancels nothing and changes no address for whoever looks at it; the shop's own page
// and a program do.
func TestPagesOfOtherSitesChangeNothing(t *testing.T) {
	t.Parallel()
	d := place.SQLite(t.TempDir())
	s := openWith(t, d, &service.Options{}, "order")
	s.order(1, 1)
	id := onlyOrder(t, d)
	ask := func(method, path, body, origin string) int {
		r := httptest.NewRequest(method, "http://shop.example/orders/"+id+path, strings.NewReader(body))
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		s.orders.ServeHTTP(w, r)
		return w.Code
	}
	for _, foreign := range []string{"http://elsewhere.example", "null"} {
		if code := ask("POST", "/cancel", "", foreign); code != http.StatusForbidden {
			t.Errorf("cancelled from %s: %d", foreign, code)
		}
		if code := ask("PUT", "/address", `{"address": "there"}`, foreign); code != http.StatusForbidden {
			t.Errorf("another address from %s: %d", foreign, code)
		}
	}
	if code := ask("PUT", "/address", `{"address": "there"}`, ""); code != http.StatusAccepted {
		t.Errorf("another address by a program: %d", code)
	}
	if code := ask("POST", "/cancel", "", "http://shop.example"); code != http.StatusAccepted {
		t.Errorf("cancelled by its own page: %d", code)
	}
}
