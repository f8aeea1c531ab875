package sqlexec

import "github.com/skald-go/skald/store"

// everyText is the only encoding that Skald supports, because it can represent every text.
const everyText = "UTF8"

// CheckEncoding returns a *store.EncodingError unless the server and the client both use UTF-8. With another
// encoding of the client, the server would store wrong characters without an error.
func CheckEncoding(server, client, database string) error {
	if server != everyText {
		return &store.EncodingError{Where: "the database " + database, Encoding: server,
			Remedy: "create another database: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"}
	}
	return CheckClient(client)
}

// CheckClient returns a *store.EncodingError unless the client_encoding of a connection is UTF-8.
func CheckClient(encoding string) error {
	if encoding == everyText {
		return nil
	}
	return &store.EncodingError{Where: "the connection", Encoding: encoding,
		Remedy: "add client_encoding=UTF8 to the URL, or ALTER ROLE … RESET client_encoding"}
}
