package need

import "testing"

// A private cluster can be started, copied, followed and promoted, and its databases can be dumped and
// loaded.
func TestCluster(t *testing.T) {
	c := NewCluster(t)
	c.SQL("postgres", "CREATE TABLE t AS SELECT 1 AS n")
	s := c.Standby()
	if got := s.SQL("postgres", "SELECT n, pg_is_in_recovery() FROM t"); got != "1|t" {
		t.Errorf("the standby says %q", got)
	}
	s.Promote()
	s.SQL("postgres", "INSERT INTO t VALUES (2)")
	s.Load("again", c.Dump("postgres"))
	if got := s.SQL("again", "SELECT count(*) FROM t"); got != "1" {
		t.Errorf("the loaded database has %s rows", got)
	}
	c.Stop("immediate")
	copied := c.Copy()
	c.Start()
	copied.Start()
	if got := copied.SQL("postgres", "SELECT count(*) FROM t"); got != "1" {
		t.Errorf("the copy has %s rows", got)
	}
}
