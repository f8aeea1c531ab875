// Package browser holds the tests of the pages in a browser, which need modules that nothing else here
// does.
package browser
