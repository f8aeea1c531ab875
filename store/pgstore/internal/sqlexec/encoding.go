package sqlexec

import "github.com/skald-go/skald/store"

// everyText is the encoding in which every text can be said.
const everyText = "UTF8"

// CheckEncoding: what a client of another encoding sends is stored as other letters than it meant, and
// nothing would tell.
func CheckEncoding(server, client, database string) error {
	if server != everyText {
		return &store.EncodingError{Where: "the database " + database, Encoding: server,
			Remedy: "make another one: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"}
	}
	return CheckClient(client)
}

// CheckClient looks at the encoding of a connection.
func CheckClient(encoding string) error {
	if encoding == everyText {
		return nil
	}
	return &store.EncodingError{Where: "the connection", Encoding: encoding,
		Remedy: "add client_encoding=UTF8 to the URL, or ALTER ROLE … RESET client_encoding"}
}
